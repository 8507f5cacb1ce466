/**
 * Where a task's files are: scratch below `stage_root/<id>`, which goes when the task ends, and what is kept of it,
 * beside its trace, below `audit_root`.
 */

import { namesIn } from "../../lib/fs.ts";
import { isTaskId } from "../task/ids.ts";

export interface StagePaths {
  root: string;
  /** The git directory; no sandbox ever sees it. */
  git_dir: string;
  work_dir: string;
  home_dir: string;
  databases_dir: string;
  /** What the sandbox left of them, while it is looked at. */
  inspected_dir: string;
  /** With a gate's digest behind it: there once that gate was announced to a person. */
  announced: string;
}

export function stagePaths(stage_root: string, id: string): StagePaths {
  const root = `${stage_root}/${id}`;
  return {
    root,
    git_dir: `${root}/git`,
    work_dir: `${root}/work`,
    home_dir: `${root}/home`,
    databases_dir: `${root}/databases`,
    inspected_dir: `${root}/inspected`,
    announced: `${root}/announced`,
  };
}

export interface AuditPaths {
  diff: string;
  brief: string;
  setup_log: string;
  /** Trees of hashes over what databases differ in. */
  trees: string;
}

export function auditPaths(audit_root: string, id: string): AuditPaths {
  const stem = `${audit_root}/${id}`;
  return { diff: `${stem}.diff`, brief: `${stem}.brief.json`, setup_log: `${stem}.setup.log`, trees: `${stem}.trees` };
}

/** Ids of tasks that have scratch below `stage_root`; what else lies there is ignored. */
export function stagedTasks(stage_root: string): string[] {
  return namesIn(stage_root).filter(isTaskId);
}

/**
 * Where a task's files are: scratch below `stage_root/<id>`, which goes when the task ends, and what is kept of it below
 * `audit_root`.
 *
 * @module
 */

import { fileError, fileErrorCode } from "../../lib/fs.ts";
import { isTaskId } from "../task/ids.ts";

/** Scratch of one task. */
export interface StagePlaces {
  root: string;
  /** The git directory; no sandbox ever sees it. */
  git_dir: string;
  /** The work tree, which the sandbox has. */
  work_dir: string;
  /** HOME of a container's agent. */
  home_dir: string;
}

/** Paths below `stage_root`. */
export function stagePlaces(stage_root: string, id: string): StagePlaces {
  const root = `${stage_root}/${id}`;
  return { root, git_dir: `${root}/git`, work_dir: `${root}/work`, home_dir: `${root}/home` };
}

/** What is kept of a task beside its trace. */
export interface AuditPlaces {
  diff: string;
  brief: string;
  setup_log: string;
}

/** Paths below `audit_root`. */
export function auditPlaces(audit_root: string, id: string): AuditPlaces {
  const stem = `${audit_root}/${id}`;
  return { diff: `${stem}.diff`, brief: `${stem}.brief.json`, setup_log: `${stem}.setup.log` };
}

/**
 * Removes a file or a directory with everything in it, also when whatever wrote it took away the right to; nothing
 * happens when there is none.
 *
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export async function removeTree(path: string): Promise<void> {
  for (let attempt = 1;; attempt++) {
    try {
      return await Deno.remove(path, { recursive: true });
    } catch (error) {
      const code = fileErrorCode(error);
      if (code === "not_found") return;
      if (attempt > 1 || code !== "denied") throw fileError(error, `Cannot remove ${path}`);
      openUp(path);
    }
  }
}

/** Gives the owner back what a sandbox took from directories; links are not followed. */
function openUp(path: string): void {
  try {
    if (!Deno.lstatSync(path).isDirectory) return;
    Deno.chmodSync(path, 0o700);
    for (const entry of Deno.readDirSync(path)) if (entry.isDirectory) openUp(`${path}/${entry.name}`);
  } catch {
    // The removal that follows says what is in the way.
  }
}

/** Ids of tasks that have scratch below `stage_root`; what else lies there is nobody's business here. */
export function stagedTasks(stage_root: string): string[] {
  try {
    return [...Deno.readDirSync(stage_root)].map(({ name }) => name).filter(isTaskId);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return [];
    throw fileError(error, `Cannot look into ${stage_root}`);
  }
}

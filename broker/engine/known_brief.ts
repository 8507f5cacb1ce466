/**
 * The trust brief of a task: what is known of it at the moment, written to `<audit_root>/<id>.brief.json` (0600).
 */

import { writeFileAtomic } from "../../lib/fs.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { type BriefInput, buildBrief } from "../task/brief.ts";
import type { TaskRecord } from "../task/schema.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { auditPaths } from "./task_paths.ts";

/** What the work has established so far. */
export interface Known extends Omit<BriefInput, "task_id" | "instruction" | "repo" | "agent" | "model"> {
  policy_hash: string;
}

/** @returns The digest of what was written. */
export async function writeBrief(
  { resolved: { settings } }: Pick<EngineDeps, "resolved">,
  record: TaskRecord,
  url: RepoUrl,
  known: Known,
): Promise<string> {
  const brief = buildBrief({
    task_id: record.id,
    instruction: record.instruction,
    repo: url.canonical,
    agent: record.agent,
    ...(record.model === undefined ? {} : { model: record.model }),
    ...known,
  });
  const bytes = new TextEncoder().encode(canonicalJson(brief));
  await writeFileAtomic(auditPaths(settings.audit_root, record.id).brief, bytes, 0o600);
  return sha256Hex(bytes);
}

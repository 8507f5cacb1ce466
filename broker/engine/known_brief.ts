/**
 * The trust brief of a task: what is known of it at the moment, written to `<audit_root>/<id>.brief.json` (0600).
 *
 * @module
 */

import { writeFileAtomic } from "../../lib/fs.ts";
import { buildBrief } from "../task/brief.ts";
import type { BriefDatabase, SetupEvidence, SpendFigures, TaskRecord, TrustBrief } from "../task/schema.ts";
import type { DiffFacts } from "../git/diff_facts.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { PolicyVerdict } from "../git/diff_policy.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { auditPaths } from "./task_paths.ts";

/** What the work has established so far. */
export interface Known {
  policy_hash: string;
  base_commit?: string;
  /** Present once an agent was started. */
  runtime?: string;
  image?: string;
  image_digest?: string;
  setup?: SetupEvidence;
  spend?: SpendFigures;
  facts?: DiffFacts;
  verdict?: PolicyVerdict;
  /** What the agent did to databases; absent when the task has none. */
  databases?: BriefDatabase[];
}

/** Writes the brief. */
export async function writeBrief(
  { resolved }: Pick<EngineDeps, "resolved">,
  record: TaskRecord,
  url: RepoUrl,
  known: Known,
): Promise<TrustBrief> {
  const { settings } = resolved;
  const brief = buildBrief({
    task_id: record.id,
    instruction: record.instruction,
    repo: url.canonical,
    agent: record.agent,
    ...(record.model === undefined ? {} : { model: record.model }),
    budget_usd: settings.task_budget_usd,
    ...known,
  });
  const bytes = new TextEncoder().encode(`${JSON.stringify(brief)}\n`);
  await writeFileAtomic(auditPaths(settings.audit_root, record.id).brief, bytes, 0o600);
  return brief;
}

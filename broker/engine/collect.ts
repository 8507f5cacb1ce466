/**
 * Collecting: what the agent changed, checked by the diff policy, and written down for the person at the gate. The
 * work tree is data; nothing that the agent said about its work counts.
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { writeFileAtomic } from "../../lib/fs.ts";
import { DATABASE } from "../task/brief.ts";
import { collectFacts } from "../git/diff_facts.ts";
import { humanDiff } from "../git/human_diff.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { StagedRepository } from "../git/staged_repository.ts";
import { evaluateDiffPolicy } from "../git/diff_policy.ts";
import type { Gate } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import { TaskEnding } from "./endings.ts";
import type { Change } from "./trace_evidence.ts";
import { type Known, writeBrief } from "./known_brief.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { auditPaths } from "./task_paths.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/** The second-look category of a task that was submitted as sensitive. */
const SENSITIVE = "sensitive";
/** Longest reason of a change that breaks the policy. */
const MAX_REASON_CHARS = 2_000;

export interface CollectTask {
  task: Task;
  url: RepoUrl;
  staged: StagedRepository;
  /** Gets the facts and the verdict. */
  known: Known;
  signal: AbortSignal;
}

/**
 * Collects; when it resolves, diff, brief and evidence are on the disk.
 *
 * @throws {TaskEnding} `no_diff` or `policy_blocked`.
 * @throws {TaskdError} As `collectFacts` does; the task then fails closed.
 */
export async function collectChange(deps: EngineDeps, collect: CollectTask): Promise<Gate> {
  const { task, url, staged, known, signal } = collect;
  const { git, resolved: { settings } } = deps;
  const facts = await collectFacts(git, { ...staged, signal });
  const diff = await humanDiff(git, {
    git_dir: staged.git_dir,
    before: facts.base_tree,
    after: facts.tree,
    signal,
  });
  await writeFileAtomic(auditPaths(settings.audit_root, task.id).diff, diff.bytes, 0o600);
  const verdict = evaluateDiffPolicy(settings.diff_policy, facts);
  known.facts = facts;
  known.verdict = verdict;
  const brief_sha256 = await writeBrief(deps, task.record, url, known);
  const { tree, base_tree, diff_sha256, files_changed, lines_changed } = facts;
  const shown_sha256 = sha256Hex(diff.bytes);
  const change: Change = { tree, base_tree, diff_sha256, shown_sha256, brief_sha256, files_changed, lines_changed };
  await task.append({ type: "evidence", name: "change", value: { ...change } });
  signal.throwIfAborted();
  const data_changed = (known.databases ?? []).some(({ changed }) => changed);
  if (files_changed === 0 && !data_changed) throw new TaskEnding("no_diff", "the agent changed no file");
  if (verdict.blocked.length > 0) {
    const reasons = verdict.blocked.map(({ message }) => sanitizeLine(message)).join("; ");
    throw new TaskEnding("policy_blocked", reasons.slice(0, MAX_REASON_CHARS));
  }
  return {
    diff_sha256,
    second_look: [
      ...verdict.second_look.map(({ category }) => category),
      ...(data_changed ? [DATABASE] : []),
      ...(task.record.sensitive === true ? [SENSITIVE] : []),
    ],
    timeout_ms: settings.approval_timeout,
  };
}

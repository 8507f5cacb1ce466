/**
 * Collecting: what the agent changed, checked by the diff policy, and written down for the person at the gate. The
 * work tree is data; nothing that the agent said about its work counts.
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { dirname } from "@std/path/dirname";
import { fsyncDirectory, fsyncTree, withFileError, writeFileAtomic } from "../../lib/fs.ts";
import { DATABASE, failedChecks, unreadData } from "../task/brief.ts";
import { collectFacts, type DiffFacts } from "../git/diff_facts.ts";
import { OUTSIDE_A_CHANGE } from "../git/flags.ts";
import { cutFiles, humanDiff } from "../git/human_diff.ts";
import { requireOwnShape } from "../git/repository_shape.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { StagedRepository } from "../git/staged_repository.ts";
import { evaluateDiffPolicy } from "../git/diff_policy.ts";
import type { EgressList } from "../egress/egress_rules.ts";
import { bindingDigest } from "../task/binding.ts";
import type { Gate } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import { TaskEnding } from "./endings.ts";
import { bindChange } from "./bind.ts";
import { type Change, stagedOf } from "./trace_evidence.ts";
import { type Known, writeBrief } from "./known_brief.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { auditPaths } from "./task_paths.ts";
import { profileOf } from "./task_plan.ts";
import { sha256Hex } from "../../lib/sha256.ts";

const SENSITIVE = "sensitive";
const MAX_REASON_CHARS = 2_000;
/** Files that a reason names. */
const MAX_NAMED = 5;

export interface CollectTask {
  task: Task;
  url: RepoUrl;
  staged: StagedRepository;
  /** In addition to the egress list. */
  egress_extra: EgressList;
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
  const { max_file_bytes, diff_policy: policy } = settings;
  const facts = await collectFacts(git, { ...staged, max_file_bytes, signal });
  const diff = await humanDiff(git, {
    git_dir: staged.git_dir,
    before: facts.base_tree,
    after: facts.tree,
    signal,
  });
  await writeFileAtomic(auditPaths(settings.audit_root, task.id).diff, diff.bytes, 0o600);
  facts.flags.push(...cutFiles(facts.files, diff));
  const own = profileOf(settings, url)?.second_look_paths ?? [];
  const verdict = evaluateDiffPolicy({ ...policy, second_look_paths: [...policy.second_look_paths, ...own] }, facts);
  verdict.blocked.push(...failedChecks(known.databases));
  known.facts = facts;
  known.verdict = verdict;
  const brief_sha256 = await writeBrief(deps, task.record, url, known);
  const { tree, base_tree, files_changed, lines_changed } = facts;
  const shown_sha256 = sha256Hex(diff.bytes);
  const change: Change = { tree, base_tree, shown_sha256, brief_sha256, files_changed, lines_changed };
  await task.append({ type: "evidence", name: "change", value: { ...change } });
  await keepStaged(staged.git_dir);
  signal.throwIfAborted();
  const data_changed = (known.databases ?? []).some(({ changed }) => changed);
  if (files_changed === 0 && !data_changed) throw new TaskEnding("no_diff", noChange(facts));
  if (verdict.blocked.length > 0) {
    const reasons = verdict.blocked.map(({ message }) => sanitizeLine(message)).join("; ");
    throw new TaskEnding("policy_blocked", reasons.slice(0, MAX_REASON_CHARS));
  }
  const second_look = [
    ...verdict.second_look.map(({ category }) => category),
    ...(data_changed ? [DATABASE, ...unreadData(known.databases ?? [])] : []),
    ...(task.record.sensitive === true ? [SENSITIVE] : []),
  ];
  const binding = bindChange(deps.resolved, task, {
    facts,
    staged: stagedOf(task.record) ?? staged,
    remote: url.clone_url,
    egress_extra: collect.egress_extra,
    second_look,
    brief_sha256,
    shown_sha256,
  });
  return { diff_sha256: bindingDigest(binding), second_look, timeout_ms: settings.approval_timeout, binding };
}

/** Why nothing waits for a person: what the agent left in the work tree may be of a kind that no change has. */
function noChange({ flags }: Pick<DiffFacts, "flags">): string {
  const left_out = flags.filter(({ category }) => OUTSIDE_A_CHANGE.has(category));
  if (left_out.length === 0) return "the agent changed no file";
  const shown = left_out.slice(0, MAX_NAMED).map(({ category, path }) => `${sanitizeLine(path)} (${category})`);
  const more = left_out.length > shown.length ? `, and ${left_out.length - shown.length} more` : "";
  return `the agent changed no file that a change can have; left out: ${shown.join(", ")}${more}`
    .slice(0, MAX_REASON_CHARS);
}

/** The change waits for days at the gate: git makes objects durable, but neither their names nor its own few files. */
async function keepStaged(git_dir: string): Promise<void> {
  requireOwnShape(git_dir, "Cannot keep the change");
  await withFileError(`Cannot keep ${git_dir}`, async () => {
    await fsyncTree(git_dir);
    for (const above of [dirname(git_dir), dirname(dirname(git_dir))]) await fsyncDirectory(above);
  });
}

/**
 * Binding at the gate, and what holds a landing to it: the commit that is about to be pushed and the heads that are about
 * to be promoted must have the digest that was approved.
 */

import { TaskdError } from "../../lib/errors.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { asJson, changesOf, forksOf } from "../databases/evidence.ts";
import type { EgressList } from "../egress/egress_rules.ts";
import { changeDigest, type DiffFacts } from "../git/diff_facts.ts";
import type { Git } from "../git/git.ts";
import type { ResolvedSettings } from "../settings/load.ts";
import { type Binding, bindingDigest } from "../task/binding.ts";
import type { TaskRecord } from "../task/schema.ts";
import type { Gate } from "../task/stages.ts";
import type { TraceHead } from "../task/trace.ts";
import { commitMessage, pullRequestBody, titleOf, withDigest } from "./change_text.ts";
import type { Staged } from "./trace_evidence.ts";

export interface Collected {
  facts: DiffFacts;
  staged: Staged;
  remote: string;
  /** In addition to the egress list. */
  egress_extra: EgressList;
  second_look: readonly string[];
  brief_sha256: string;
  shown_sha256: string;
}

export function bindChange(
  { settings, egress, hash }: Pick<ResolvedSettings, "settings" | "egress" | "hash">,
  { record, head }: { record: TaskRecord; head: TraceHead },
  { facts, staged, remote, egress_extra, second_look, brief_sha256, shown_sha256 }: Collected,
): Binding {
  return {
    format: "taskd approval 1",
    task_id: record.id,
    record: { rows: head.seq, sha256: head.sha256 },
    repository: remote,
    base: { commit: facts.base_commit, tree: facts.base_tree, branch: staged.base_branch ?? null },
    tree: facts.tree,
    change_sha256: facts.change_sha256,
    commit_message: commitMessage(record),
    pull_request: boundPullRequest(record),
    databases: boundDatabases(record),
    second_look: [...second_look],
    flags_sha256: sha256Hex(canonicalJson(asJson(facts.flags))),
    brief_sha256,
    shown_sha256,
    policy_sha256: sha256Hex(canonicalJson({ ...settings.diff_policy })),
    egress_sha256: sha256Hex(canonicalJson({ list: egress.entries, extra: egress_extra.entries })),
    settings_sha256: hash,
  };
}

/** The gate as it stands behind the last row of the trace. */
export function boundTo(gate: Gate, head: TraceHead): Gate {
  if (gate.binding === undefined) return gate;
  const binding = { ...gate.binding, record: { rows: head.seq, sha256: head.sha256 } };
  return { ...gate, binding, diff_sha256: bindingDigest(binding) };
}

function boundPullRequest(record: TaskRecord): Binding["pull_request"] {
  const body_sha256 = sha256Hex(pullRequestBody(record));
  return { title: titleOf(record), body_sha256, draft: record.draft === true };
}

function boundDatabases(record: TaskRecord): Binding["databases"] {
  const forks = forksOf(record);
  return changesOf(record).flatMap(({ db, base, head }) => {
    const fork = forks.find((each) => each.db === db);
    if (fork === undefined) return [];
    const { base_lineage, base_txid } = fork;
    return { db, base, base_lineage, base_txid, result: head ?? null };
  });
}

/**
 * Holds the commit that is about to be pushed to the digest that was approved.
 *
 * @throws {TaskdError} `corrupt` when anything of it has another digest; nothing may be pushed then.
 */
export async function requireBoundCommit(
  git: Git,
  record: TaskRecord,
  { git_dir, commit, remote, signal }: {
    git_dir: string;
    commit: string;
    remote: string;
    signal: AbortSignal | undefined;
  },
): Promise<void> {
  const { gate, diff_sha256 = "" } = record;
  if (gate?.binding === undefined) return;
  const { binding } = gate;
  const run = { repository: { git_dir }, attempted: "Cannot read the commit", signal };
  const text = new TextDecoder().decode((await git.run(["cat-file", "commit", commit], run)).stdout);
  const head = text.slice(0, text.indexOf("\n\n") + 1);
  const [, tree = "", base_commit = ""] = /^tree (\w+)\nparent (\w+)\nauthor /.exec(head) ?? [];
  const base_tree = await git.text(["rev-parse", "--verify", `${base_commit}^{tree}`], run);
  const message = text.slice(head.length + 1);
  const last = withDigest("", diff_sha256);
  const found: Binding = {
    ...binding,
    repository: remote,
    base: { ...binding.base, commit: base_commit, tree: base_tree },
    tree,
    change_sha256: await changeDigest(git, git_dir, { base_commit, base_tree, tree }, signal),
    commit_message: message.slice(0, -last.length),
    pull_request: boundPullRequest(record),
    databases: boundDatabases(record),
  };
  if (message.endsWith(last) && bindingDigest(found) === diff_sha256) return;
  throw new TaskdError("corrupt", `Cannot push ${commit}: it is not what was approved as ${diff_sha256}`, {
    hint: "Look at who could write below stage_root and audit_root; taskd retry does the work again",
  });
}

/**
 * Holds the heads that are about to be promoted to the digest that was approved.
 *
 * @throws {TaskdError} `corrupt` when they have another digest; nothing may be promoted then.
 */
export function requireBoundData(record: TaskRecord): void {
  const { gate, diff_sha256 } = record;
  if (gate?.binding === undefined) return;
  if (bindingDigest({ ...gate.binding, databases: boundDatabases(record) }) === diff_sha256) return;
  throw new TaskdError("corrupt", `its databases are not what was approved as ${diff_sha256}`);
}

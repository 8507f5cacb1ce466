/**
 * Landing an approved change: a commit that has exactly the approved tree, then the branches of its databases. Each try
 * is in the trace before it is made, so that after a crash the remote can be asked for it; a round does what earlier
 * ones have not done, and nothing twice.
 */

import { asKnownError, messageWithHint, stackOf, TaskdError } from "../../lib/errors.ts";
import { resultsText } from "../databases/promote_branches.ts";
import { commitTree } from "../git/commit.ts";
import { type Arrival, arrival, pushCommit, retryTransient } from "../git/push.ts";
import { parseRepo } from "../git/repo_url.ts";
import { listRemote } from "../git/remote_refs.ts";
import { remoteOptions } from "../git/staged_repository.ts";
import type { Move, Pushed } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import { conflictsDigest } from "../task/binding.ts";
import { boundTo, requireBoundCommit } from "./bind.ts";
import { commitMessage, withDigest } from "./change_text.ts";
import { isDataOnly, landsIn, noteLanding, promoteData, requireLandable, type ToDecide } from "./database_stages.ts";
import { ARRIVED, changeOf, pushedOf, stagedOf } from "./trace_evidence.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { reachRepo, withoutServerWords } from "./repo_address.ts";
import { endOrphanedPush, stagedProblem } from "./restore.ts";
import { stagePaths } from "./task_paths.ts";
import { openPullRequest } from "./pull_request.ts";

/**
 * One round for an approved change in `pushing`: what the code host does not have yet is pushed, then what the branch
 * store does not have yet is promoted.
 *
 * @param signal Ends programs that are under way: the broker stops. What they have done by then the next one asks for.
 * @returns The move that follows; it is not made yet. Whatever fails, the change is kept and waits. Undefined when the
 * signal has ended it.
 */
export async function landApproved(deps: EngineDeps, task: Task, signal: AbortSignal): Promise<Move | undefined> {
  let pushed = pushedOf(task.record);
  try {
    const data_only = isDataOnly(task.record);
    if (!data_only) pushed ??= await atCodeHost(deps, task, () => arrivedBefore(deps, task, signal));
    if (pushed === undefined) {
      const to_decide = await requireLandable(deps, task.record, signal);
      if (to_decide !== undefined) return backToGate(task, to_decide);
    }
    await noteLanding(task);
    if (!data_only) pushed ??= await push(deps, task, signal);
    await noteArrival(task, pushed);
    const results = await promoteData(deps, task);
    const data_note = resultsText(results);
    if (results.some(({ result }) => result !== "promoted")) return waits(data_note, pushed);
    if (pushed === undefined) return { from: "pushing", to: "done", outcome: "promoted", reason: data_note };
    const { settings } = deps.resolved;
    if (settings.ci.watch && deps.ci !== undefined && pushed.pull_request !== undefined) {
      return { from: "pushing", to: "awaiting_ci", pushed };
    }
    const reason = [`pushed to ${pushed.branch}`, data_note].filter((note) => note !== "").join("; ");
    return { from: "pushing", to: "done", outcome: "pushed", reason, pushed };
  } catch (thrown) {
    if (signal.aborted && pushed === undefined) return undefined;
    const error = asKnownError(thrown);
    if (error === undefined || error.code === "internal") {
      deps.log("error", "defect", `pushing met a defect: ${stackOf(thrown)}`, { task_id: task.id });
      return waits("a defect in taskd; the broker's log has its place", pushed);
    }
    return waits(messageWithHint(error), pushed);
  }
}

/** Before the data lands, which may take long: by then the branch may be merged and gone, or the code host away. */
async function noteArrival(task: Task, pushed: Pushed | undefined): Promise<void> {
  const { record } = task;
  if (pushed === undefined || landsIn(record).length === 0 || pushedOf(record) !== undefined) return;
  await task.append({ type: "evidence", name: ARRIVED, value: { ...pushed } });
}

/** What would land is not what was approved, until a person has decided: the gate has a digest of its own again. */
function backToGate({ record, head }: Task, { reason, conflicts }: ToDecide): Move {
  const { gate } = record;
  const binding = { ...gate!.binding!, conflicts_sha256: conflictsDigest(conflicts) };
  return { from: "pushing", to: "awaiting_approval", gate: boundTo({ ...gate!, conflicts, binding }, head), reason };
}

function waits(reason: string, pushed: Pushed | undefined): Move {
  return pushed === undefined
    ? { from: "pushing", to: "push_failed", reason }
    : { from: "pushing", to: "data_waits", reason, pushed };
}

/** What an earlier round has pushed without learning of it, on any of its branches; the last one is the likeliest. */
async function arrivedBefore(deps: EngineDeps, task: Task, signal: AbortSignal): Promise<Pushed | undefined> {
  const { git, clock, log, resolved: { settings } } = deps;
  const { push_attempts } = task.record;
  if (push_attempts.length === 0) return undefined;
  await endOrphanedPush({ clock, log }, task, signal);
  const reached = await reachRepo(deps, task.record, "push", signal);
  const { url } = reached;
  const attempted = `Cannot see whether the change has arrived at ${url.canonical}`;
  const names = push_attempts.map(({ branch }) => `refs/heads/${branch}`);
  const options = remoteOptions({ ...reached, signal }, attempted);
  const limits = { max_retries: settings.push_max_retries, retry_backoff_ms: settings.push_retry_backoff, signal };
  const { refs } = await retryTransient(git, limits, () => listRemote(git, url, names, options));
  const { git_dir } = stagePaths(settings.stage_root, task.id);
  const { tree } = changeOf(task.record)!;
  for (const { branch, commit } of push_attempts.toReversed()) {
    const found = refs.get(`refs/heads/${branch}`);
    const there = await retryTransient(
      git,
      limits,
      () => arrival(git, found, { ...reached, git_dir, commit, branch, tree, signal }),
    );
    if (there === undefined) continue;
    await noteFollower(task, branch, there);
    return await withPullRequest(deps, task, { branch, commit }, signal);
  }
  return undefined;
}

async function push(deps: EngineDeps, task: Task, signal: AbortSignal): Promise<Pushed> {
  const { git, resolved: { settings }, log } = deps;
  const { record } = task;
  const problem = await stagedProblem(deps, task, signal);
  if (problem !== undefined) throw new TaskdError("corrupt", `Cannot push what was approved: ${problem}`);
  const url = parseRepo(record.repo);
  const { base_commit } = stagedOf(record)!;
  const { tree } = changeOf(record)!;
  const { git_dir } = stagePaths(settings.stage_root, task.id);
  const commit = await commitTree(git, {
    git_dir,
    tree,
    base_commit,
    message: withDigest(commitMessage(record), record.diff_sha256!),
    // Of the approval: every round pushes the same commit, so that it can arrive but once.
    at_ms: Date.parse(record.approval!.at),
    signal,
  });
  await requireBoundCommit(git, record, { git_dir, commit, remote: url.clone_url, signal });
  const reached = await reachRepo(deps, record, "push", signal);
  const pushed = await atCodeHost(deps, task, () =>
    pushCommit(git, {
      ...reached,
      git_dir,
      commit,
      tree,
      base_commit,
      task_id: task.id,
      max_retries: settings.push_max_retries,
      retry_backoff_ms: settings.push_retry_backoff,
      fresh_branch_tries: settings.push_fresh_branch_tries,
      signal,
      beforeTry: async (branch) => {
        await task.append({ type: "push_attempt", remote: url.clone_url, branch, commit });
      },
      onRetry: ({ branch, reason, message, delay_ms }) =>
        log("warn", "push_retry", `pushing ${branch} again: ${message}`, { task_id: task.id, reason, delay_ms }),
    }));
  await noteFollower(task, pushed.branch, pushed);
  return await withPullRequest(deps, task, { branch: pushed.branch, commit }, signal);
}

function atCodeHost<T>(deps: EngineDeps, { record }: Task, work: () => Promise<T>): Promise<T> {
  return withoutServerWords(deps, record, "Cannot push to", work);
}

/** Says that the branch has more than what was approved: what is pushed is in it all the same. */
async function noteFollower(task: Task, branch: string, { followed_by }: Arrival): Promise<void> {
  if (followed_by === undefined) return;
  const text = `the code host has ${followed_by} on ${branch} by now, on top of what was pushed: look at it there`;
  await task.append({ type: "note", text });
}

/** Opens the pull request of what has arrived, or finds the one that was opened before a crash. */
async function withPullRequest(
  deps: EngineDeps,
  task: Task,
  { branch, commit }: Pick<Pushed, "branch" | "commit">,
  signal: AbortSignal,
): Promise<Pushed> {
  const url = parseRepo(task.record.repo);
  const pull_request = await openPullRequest(deps, task, {
    url,
    branch,
    base: stagedOf(task.record)?.base_branch,
    signal,
  });
  return { branch, commit, ...(pull_request === undefined ? {} : { pull_request }) };
}

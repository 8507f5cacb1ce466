/**
 * Pushing an approved change: a commit that has exactly the approved tree. Each try is in the trace before it is made,
 * so that after a crash the remote can be asked for it.
 */

import { messageWithHint, stackOf, TaskdError } from "../../lib/errors.ts";
import type { DatabaseResult } from "../databases/evidence.ts";
import { resultsText } from "../databases/promote_branches.ts";
import { commitTree } from "../git/commit.ts";
import { operatorCredentials } from "../git/credentials.ts";
import { pushCommit } from "../git/push.ts";
import { parseRepo } from "../git/repo_url.ts";
import type { TaskRecord } from "../task/schema.ts";
import type { Move, Pushed } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import { isDataOnly, promoteData } from "./database_stages.ts";
import { changeOf, stagedOf } from "./trace_evidence.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { stagePaths } from "./task_paths.ts";
import { openPullRequest, titleOf } from "./pull_request.ts";

/** Author and committer: the broker, because no person has written the change. */
const AUTHOR = { name: "taskd", email: "agent@taskd.invalid" } as const;

/**
 * Pushes the approved change of a task in `pushing`.
 *
 * @returns The move that follows; it is not made yet.
 */
export async function pushApproved(deps: EngineDeps, task: Task): Promise<Move> {
  try {
    if (isDataOnly(task.record)) return promotion(await promoteData(deps, task));
    const pushed = await push(deps, task);
    const data_note = resultsText(await promoteData(deps, task));
    const { settings } = deps.resolved;
    if (settings.ci.watch && deps.ci !== undefined && pushed.pull_request !== undefined) {
      return { from: "pushing", to: "awaiting_ci", pushed };
    }
    return {
      from: "pushing",
      to: "done",
      outcome: "pushed",
      reason: [`pushed to ${pushed.branch}`, data_note].filter((note) => note !== "").join("; "),
      pushed,
    };
  } catch (error) {
    if (!(error instanceof TaskdError) || error.code === "internal") {
      deps.log("error", "defect", `pushing met a defect: ${stackOf(error)}`, { task_id: task.id });
      return failed("a defect in taskd; the broker's log has its place");
    }
    return failed(messageWithHint(error));
  }
}

/** The end of a task that changed nothing but data. */
function promotion(results: readonly DatabaseResult[]): Move {
  const reason = resultsText(results);
  if (results.some(({ result }) => result === "kept")) return failed(reason);
  return { from: "pushing", to: "done", outcome: "promoted", reason };
}

function failed(reason: string): Move {
  return { from: "pushing", to: "done", outcome: "push_failed", reason };
}

async function push(deps: EngineDeps, task: Task): Promise<Pushed> {
  const { git, credentials, resolved: { settings }, clock, log } = deps;
  const { record } = task;
  const url = parseRepo(record.repo);
  const staged = stagedOf(record);
  const change = changeOf(record);
  if (staged === undefined || change === undefined || change.diff_sha256 !== record.diff_sha256) {
    throw new TaskdError("corrupt", "Cannot push: the trace does not say which tree was approved");
  }
  const { git_dir } = stagePaths(settings.stage_root, task.id);
  const { base_commit } = staged;
  const { tree } = change;
  const commit = await commitTree(git, {
    git_dir,
    tree,
    base_commit,
    message: commitMessage(record),
    ...AUTHOR,
    at_ms: clock.now(),
  });
  const { branch } = await pushCommit(git, {
    url,
    git_dir,
    commit,
    tree,
    base_commit,
    task_id: task.id,
    credentials: operatorCredentials(url, credentials),
    max_retries: settings.push_max_retries,
    retry_backoff_ms: settings.push_retry_backoff,
    fresh_branch_tries: settings.push_fresh_branch_tries,
    beforeTry: async (branch) => {
      await task.append({ type: "push_attempt", remote: url.clone_url, branch, commit });
    },
    onRetry: ({ branch, reason, message, delay_ms }) =>
      log("warn", "push_retry", `pushing ${branch} again: ${message}`, { task_id: task.id, reason, delay_ms }),
  });
  const pull_request = await openPullRequest(deps, task, { url, branch, base: staged.base_branch });
  return { branch, commit, ...(pull_request === undefined ? {} : { pull_request }) };
}

function commitMessage(record: TaskRecord): string {
  const trailers = [`Taskd-Task: ${record.id}`, `Taskd-Agent: ${record.agent}`, `Taskd-Diff: ${record.diff_sha256}`];
  return `${titleOf(record)}\n\n${trailers.join("\n")}\n`;
}

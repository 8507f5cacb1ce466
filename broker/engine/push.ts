/**
 * Pushing an approved change, and opening its pull request.
 *
 * What is pushed is a commit that has exactly the approved tree; each try is in the trace before it is made, so that
 * after a crash the remote can be asked for it. A pull request that cannot be opened is noted and fails no push.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { commitTree } from "../git/commit.ts";
import { operatorCredentials } from "../git/credentials.ts";
import { pushCommit } from "../git/push.ts";
import { parseRepo, type RepoUrl } from "../git/repo_url.ts";
import type { TaskRecord } from "../task/record.ts";
import type { Move, Pushed } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import { changeOf, stagedOf } from "./known.ts";
import type { EngineParts } from "./parts.ts";
import { stagePlaces } from "./places.ts";

/** Author and committer: the broker, and no person who has not written the change. */
const AUTHOR = { name: "taskd", email: "agent@taskd.invalid" } as const;
/** What a commit's first line has at most. */
const MAX_TITLE_CHARS = 72;

/**
 * Pushes the approved change of a task in `pushing`.
 *
 * @returns The move that follows; it is not made yet.
 */
export async function pushApproved(parts: EngineParts, task: Task): Promise<Move> {
  try {
    const { pushed, branch_note } = await push(parts, task);
    const { settings } = parts.resolved;
    if (settings.ci.watch && parts.ci !== undefined && pushed.pull_request !== undefined) {
      return { from: "pushing", to: "awaiting_ci", pushed };
    }
    return { from: "pushing", to: "done", outcome: "pushed", reason: branch_note, pushed };
  } catch (error) {
    if (!(error instanceof TaskdError) || error.code === "internal") {
      const stack = error instanceof Error ? error.stack ?? error.message : String(error);
      parts.log("error", "defect", `pushing met a defect: ${stack}`, { task_id: task.id });
      return failed("a defect in taskd; the broker's log has its place");
    }
    return failed(`${error.message}${error.hint === undefined ? "" : ` (${error.hint})`}`);
  }
}

function failed(reason: string): Move {
  return { from: "pushing", to: "done", outcome: "push_failed", reason };
}

async function push(parts: EngineParts, task: Task): Promise<{ pushed: Pushed; branch_note: string }> {
  const { git, credentials, resolved, clock, log } = parts;
  const { settings } = resolved;
  const { record } = task;
  const url = parseRepo(record.repo);
  const staged = stagedOf(record);
  const change = changeOf(record);
  if (staged === undefined || change === undefined || change.diff_sha256 !== record.diff_sha256) {
    throw new TaskdError("corrupt", "Cannot push: the trace does not say which tree was approved");
  }
  const { git_dir } = stagePlaces(settings.stage_root, task.id);
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
  const request = await pullRequest(parts, task, { url, branch, base: staged.base_branch });
  const branch_note = `pushed to ${branch}`;
  return { pushed: { branch, commit, ...(request === undefined ? {} : { pull_request: request }) }, branch_note };
}

/** The URL of the pull request; undefined where there is none. */
async function pullRequest(
  { code_host, log }: EngineParts,
  task: Task,
  { url, branch, base }: { url: RepoUrl; branch: string; base: string | undefined },
): Promise<string | undefined> {
  // A path and a server on loopback are no code hosts.
  if (code_host === undefined || (url.transport !== "https" && url.transport !== "ssh")) return undefined;
  try {
    if (base === undefined) {
      throw new TaskdError("invalid_request", "the work started from a tag or a commit, which no pull request goes to");
    }
    const { record } = task;
    const opened = await code_host.createPullRequest({
      repo: url,
      head: branch,
      base,
      title: titleOf(record),
      body: pullRequestBody(record),
      draft: record.draft === true,
    });
    return opened.url;
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    const text = `no pull request was opened for ${branch}: ${error.message}`;
    log("warn", "no_pull_request", text, { task_id: task.id });
    await task.append({ type: "note", text });
    return undefined;
  }
}

function titleOf({ instruction, id }: TaskRecord): string {
  const [first = ""] = instruction.split("\n").map((line) => sanitizeLine(line.trim())).filter((line) => line !== "");
  const title = first.length > MAX_TITLE_CHARS ? `${first.slice(0, MAX_TITLE_CHARS - 3).toWellFormed()}...` : first;
  return title || `Task ${id.slice(0, 12)}`;
}

function commitMessage(record: TaskRecord): string {
  const trailers = [`Taskd-Task: ${record.id}`, `Taskd-Agent: ${record.agent}`, `Taskd-Diff: ${record.diff_sha256}`];
  return `${titleOf(record)}\n\n${trailers.join("\n")}\n`;
}

function pullRequestBody(record: TaskRecord): string {
  // As a code block: an instruction is the operator's text, and no markup of the page.
  const quoted = record.instruction.split("\n").map((line) => `    ${line}`).join("\n");
  return `Made by an agent (${record.agent}) and approved by a person.\n\n${quoted}\n\nTask ${record.id}, ` +
    `change ${record.diff_sha256}.\n`;
}

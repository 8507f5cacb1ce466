/**
 * The pull request of a change that was pushed. One that cannot be opened is noted in the task and fails no push.
 */

import { messageOf, TaskdError } from "../../lib/errors.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { Task } from "../task/task.ts";
import { pullRequestBody, titleOf, withDigest } from "./change_text.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { withoutServerWords } from "./repo_address.ts";

export interface PushedBranch {
  url: RepoUrl;
  branch: string;
  /** Where the work started; undefined for a tag or a commit. */
  base: string | undefined;
  signal: AbortSignal;
}

export async function openPullRequest(
  { code_host, log }: Pick<EngineDeps, "code_host" | "log">,
  task: Task,
  { url, branch, base, signal }: PushedBranch,
): Promise<string | undefined> {
  // A path and a server on loopback are no code hosts.
  if (code_host === undefined || (url.transport !== "https" && url.transport !== "ssh")) return undefined;
  try {
    if (base === undefined) {
      throw new TaskdError("invalid_request", "the work started from a tag or a commit, which no pull request goes to");
    }
    const { record } = task;
    const opened = await withoutServerWords({ log }, record, "Cannot open one at", () =>
      code_host.createPullRequest({
        repo: url,
        head: branch,
        base,
        title: titleOf(record),
        body: withDigest(pullRequestBody(record), record.diff_sha256 ?? ""),
        draft: record.draft === true,
        signal,
      }));
    return opened.url;
  } catch (error) {
    // The next broker opens it, or finds it.
    signal.throwIfAborted();
    // The change is pushed, whatever happens here.
    const text = `no pull request was opened for ${branch}: ${messageOf(error)}`;
    log("warn", "no_pull_request", text, { task_id: task.id });
    await task.append({ type: "note", text }).catch(() => {});
    return undefined;
  }
}

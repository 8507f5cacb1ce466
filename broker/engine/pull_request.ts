/**
 * The pull request of a change that was pushed. One that cannot be opened is noted in the task and fails no push.
 */

import { messageOf, TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { RepoUrl } from "../git/repo_url.ts";
import type { TaskRecord } from "../task/schema.ts";
import type { Task } from "../task/task.ts";
import type { EngineDeps } from "./engine_deps.ts";

/** Also for the title of a commit. */
const MAX_TITLE_CHARS = 72;

export interface PushedBranch {
  url: RepoUrl;
  branch: string;
  /** Where the work started; undefined for a tag or a commit. */
  base: string | undefined;
}

/** Opens the pull request; the URL, or undefined where there is none. */
export async function openPullRequest(
  { code_host, log }: Pick<EngineDeps, "code_host" | "log">,
  task: Task,
  { url, branch, base }: PushedBranch,
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
    // The change is pushed, whatever happens here.
    const text = `no pull request was opened for ${branch}: ${messageOf(error)}`;
    log("warn", "no_pull_request", text, { task_id: task.id });
    await task.append({ type: "note", text }).catch(() => {});
    return undefined;
  }
}

/** The first line of an instruction, as a title. */
export function titleOf({ instruction, id }: TaskRecord): string {
  const [first = ""] = instruction.split("\n").map((line) => sanitizeLine(line.trim())).filter((line) => line !== "");
  const title = first.length > MAX_TITLE_CHARS ? `${first.slice(0, MAX_TITLE_CHARS - 3).toWellFormed()}...` : first;
  return title || `Task ${id.slice(0, 12)}`;
}

function pullRequestBody(record: TaskRecord): string {
  // As a code block: an instruction is the operator's text, and no markup of the page.
  const quoted = record.instruction.split("\n").map((line) => `    ${line}`).join("\n");
  return `Made by an agent (${record.agent}) and approved by a person.\n\n${quoted}\n\nTask ${record.id}, ` +
    `change ${record.diff_sha256}.\n`;
}

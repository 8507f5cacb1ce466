/**
 * Pushing an approved commit to a new branch: `<commit>:refs/heads/agent/<id>` at the address that was pinned when the
 * task was submitted.
 *
 * A branch that exists is never moved, not even forward: the push demands that the name is free. The commit is held to
 * the approved tree before, and the code host is asked what it has after. A push whose answer was lost is repeated
 * without harm, since the same commit under the same name is success; and no push counts as failed before the host was
 * asked once more.
 */

import { hasCode, TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { verifyCommit } from "./commit.ts";
import type { GitCredentials } from "./credentials.ts";
import { classifyGitFailure, gitError } from "./git_failure.ts";
import type { Git } from "./git.ts";
import type { ProcessResult } from "../../lib/process.ts";
import type { RepoUrl } from "./repo_url.ts";
import { baseStanding } from "./base_standing.ts";
import { fetchHistory, HISTORY_STEPS, type HistoryStep } from "./history.ts";
import { listRemote } from "./remote_refs.ts";
import { remoteOptions } from "./staged_repository.ts";

export interface PushOptions {
  url: RepoUrl;
  git_dir: string;
  commit: string;
  tree: string;
  base_commit: string;
  task_id: string;
  credentials?: GitCredentials;
  /** Transient failures that are tried again, over the whole push; `push_max_retries`. */
  max_retries: number;
  /** Milliseconds before the first repetition, doubled for each further one; `push_retry_backoff`. */
  retry_backoff_ms: number;
  /** Other branch names that are tried when one is taken; `push_fresh_branch_tries`. */
  fresh_branch_tries: number;
  /** Called before each call of `git push`, which begins when it has resolved; what it throws ends the push. */
  beforeTry?: (branch: string) => Promise<void>;
  onRetry?: (retry: PushRetry) => void;
  /** Milliseconds for each call of git. */
  deadline_ms?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface PushRetry {
  branch: string;
  reason: "transient" | "name_taken";
  message: string;
  delay_ms: number;
}

/** A push that the code host was seen to have. */
export interface PushResult {
  /** Without `refs/heads/`. */
  branch: string;
  commit: string;
  attempts: number;
  /** What the branch stands at when someone has added to it since: a program of the code host. */
  followed_by?: string;
}

/** `cut_off`: the host does not have the base commit on any branch, so it wants the history behind it. */
type Attempt = { kind: "pushed"; followed_by?: string } | {
  kind: "name_taken" | "transient" | "cut_off";
  error: TaskdError;
};

const CUT_OFF = /shallow|missing necessary objects|did not receive expected object/;

const NAME_TAKEN =
  /stale info|already exists|fetch first|non-fast-forward|exists; cannot (create|lock)|cannot lock ref/;

/**
 * @throws {TaskdError} `auth_failed`, `not_found`, `push_rejected` (a hook, a rule of the host), `already_exists` (every
 * name is taken), `unavailable` (transient failures outlasted the retries), `corrupt` (the commit is not the approved
 * change), `ambiguous` (the host has something else).
 */
export async function pushCommit(git: Git, options: PushOptions): Promise<PushResult> {
  const { git_dir, commit, tree, base_commit, task_id, url } = options;
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/.test(task_id) || /\.\.|\.lock$|\.$/.test(task_id)) {
    throw new TaskdError("invalid_request", `Cannot push: ${JSON.stringify(task_id)} is no part of a branch name`);
  }
  await verifyCommit(git, { git_dir, commit, tree, base_commit, signal: options.signal });
  let retries = 0;
  let attempts = 0;
  let taken: TaskdError | undefined;
  const steps = [...HISTORY_STEPS];
  const arrived = (branch: string, { followed_by }: Arrival): PushResult => {
    return { branch, commit, attempts, ...followed_by === undefined ? {} : { followed_by } };
  };
  for (let number = 1; number <= options.fresh_branch_tries + 1; number++) {
    const branch = number === 1 ? `agent/${task_id}` : `agent/${task_id}-${number}`;
    for (;;) {
      attempts++;
      await options.beforeTry?.(branch);
      let attempt = await tryPush(git, branch, options);
      if (attempt.kind === "cut_off") {
        const more = await moreHistory(git, steps, options);
        if (more === true) continue;
        attempt = more ?? attempt;
        if (attempt.kind === "cut_off") throw attempt.error;
      }
      if (attempt.kind === "pushed") return arrived(branch, attempt);
      if (attempt.kind === "name_taken") {
        taken = attempt.error;
        if (number <= options.fresh_branch_tries) {
          options.onRetry?.({ branch, reason: "name_taken", message: taken.message, delay_ms: 0 });
        }
        break;
      }
      if (retries >= options.max_retries) {
        const there = await hasArrived(git, branch, attempt.error, options);
        if (there !== undefined) return arrived(branch, there);
        throw attempt.error;
      }
      const delay_ms = options.retry_backoff_ms * 2 ** retries++;
      options.onRetry?.({ branch, reason: "transient", message: attempt.error.message, delay_ms });
      await git.clock.sleep(delay_ms, options.signal);
    }
  }
  throw new TaskdError("already_exists", `Cannot push to ${url.canonical}: every branch name is taken`, {
    cause: taken,
    hint: "Remove old agent/ branches there (a branch named agent blocks them all), or raise push_fresh_branch_tries",
  });
}

/** Fetches history until there is more of it; undefined when there is none to be had. */
async function moreHistory(git: Git, steps: HistoryStep[], options: PushOptions): Promise<true | Attempt | undefined> {
  const { url, git_dir, base_commit } = options;
  const remote = remoteOptions(options, `Cannot fetch the history that a push to ${url.canonical} needs`);
  try {
    while (steps.length > 0) {
      if (await fetchHistory(git, steps[0]!, { url, git_dir, base_commit, remote })) return true;
      steps.shift();
    }
    return undefined;
  } catch (error) {
    if (isTransient(error)) return { kind: "transient", error };
    throw error;
  }
}

/**
 * Whether a push that failed has arrived all the same: what failed may have been the answer, or the check of the branch
 * after it. Only reads, which are tried as often as a push.
 */
async function hasArrived(
  git: Git,
  branch: string,
  failure: TaskdError,
  options: PushOptions,
): Promise<Arrival | undefined> {
  try {
    return await retryTransient(git, options, async () => {
      return await arrival(git, await remoteCommit(git, branch, options), { ...options, branch });
    });
  } catch (error) {
    if (!isTransient(error)) throw error;
    throw new TaskdError(failure.code, `${failure.message}; and whether it has arrived cannot be seen now`, {
      hint: "The next round looks first: taskd push begins one",
      cause: error,
    });
  }
}

/** Does a read of the code host, again after each transient failure, `max_retries` times. */
export async function retryTransient<T>(
  git: Git,
  { max_retries, retry_backoff_ms, signal }: Pick<PushOptions, "max_retries" | "retry_backoff_ms" | "signal">,
  read: () => Promise<T>,
): Promise<T> {
  for (let retries = 0;; retries++) {
    try {
      return await read();
    } catch (error) {
      if (!isTransient(error) || retries >= max_retries) throw error;
      await git.clock.sleep(retry_backoff_ms, signal);
    }
  }
}

async function tryPush(git: Git, branch: string, options: PushOptions): Promise<Attempt> {
  const { url, git_dir, commit } = options;
  const attempted = `Cannot push ${branch} to ${url.canonical}`;
  const remote = remoteOptions(options, attempted);
  const ref = `refs/heads/${branch}`;
  try {
    const result = await git.tryRun([
      "push",
      "--porcelain",
      "--no-progress",
      "--no-verify",
      "--no-follow-tags",
      "--no-signed",
      "--recurse-submodules=no",
      // The name has to be free at the very moment; nothing is ever overwritten or moved.
      `--force-with-lease=${ref}:`,
      "--",
      url.clone_url,
      `${commit}:${ref}`,
      // What the host has is asked for: when its branch has moved on, it is sent this change and not the whole tree.
    ], {
      ...remote,
      repository: { git_dir },
      // At a path there is nothing to save, and git would ask by a call of its own.
      config: url.transport === "file" ? [] : ["push.negotiate=true"],
    });
    const refusal = evaluatePush(result, ref, attempted);
    if (refusal?.kind === "transient" || refusal?.kind === "cut_off") return refusal;
    const found = await remoteCommit(git, branch, options);
    // Also when the name is reported as taken: by our own push, which the HTTP client had sent twice.
    const there = await arrival(git, found, { ...options, branch });
    if (there !== undefined) return { kind: "pushed", ...there };
    if (refusal !== undefined) return refusal;
    throw new TaskdError("ambiguous", `${attempted}: the code host has ${found ?? "no such branch"}, not ${commit}`, {
      hint: "Look at the branch on the code host; a user or a program there changes new branches",
    });
  } catch (error) {
    // Git met its deadline, or the check after the push failed: the push itself may have arrived.
    if (isTransient(error)) return { kind: "transient", error };
    throw error;
  }
}

function isTransient(error: unknown): error is TaskdError {
  return hasCode(error, "unavailable", "timed_out");
}

/** Reads what `git push --porcelain` printed of one ref; undefined when it was pushed. */
function evaluatePush({ code, stdout, stderr }: ProcessResult, ref: string, attempted: string): Attempt | undefined {
  const lines = new TextDecoder().decode(stdout).split("\n").map((line) => line.split("\t"));
  const [flag, , summary = ""] = lines.find((fields) => fields[1]?.endsWith(`:${ref}`)) ?? [];
  if (code === 0 && (flag === "*" || flag === "=")) return undefined;
  const said = sanitizeLine(summary);
  // The server's errors name the lock that failed.
  const why = said.includes("failed to update ref") ? `${said} ${stderr}` : said;
  if (flag === "!" && NAME_TAKEN.test(why)) {
    return { kind: "name_taken", error: new TaskdError("already_exists", `${attempted}: ${said}`) };
  }
  if (flag === "!" && CUT_OFF.test(said)) {
    const gone = `${attempted}: ${said}; the base commit is on no branch there any more, and what led to it is gone`;
    const hint =
      "Bring the base commit back to some branch there, then taskd push; or taskd kill, and run the task again";
    return { kind: "cut_off", error: new TaskdError("push_rejected", gone, { hint }) };
  }
  if (flag === "!" && said.startsWith("[remote rejected]")) throw rejected(attempted, said, stderr);
  const error = gitError(attempted, stderr);
  if (classifyGitFailure(stderr) === "network") return { kind: "transient", error };
  throw error;
}

function rejected(attempted: string, said: string, stderr: string): TaskdError {
  const remote = stderr.split("\n").filter((line) => line.startsWith("remote:")).map((line) => line.slice(7).trim());
  const words = [said, ...remote.filter((line) => line !== "")].join("; ").slice(0, 600);
  const hint = /hook declined/.test(said)
    ? "A hook or rule of the code host refuses this change; its message says why"
    : "The code host refuses this branch; look at its branch protection and the account's access";
  return new TaskdError("push_rejected", `${attempted}: ${words}`, { hint });
}

/** A commit that a branch of the code host has, with what the branch stands at when that is another one. */
export interface Arrival {
  followed_by?: string;
}

/**
 * Whether `found`, at which a branch stands, is `commit` or one that was added on top of it; only then is the code host
 * asked for what lies between.
 */
export async function arrival(
  git: Git,
  found: string | undefined,
  { url, git_dir, commit, branch, tree, ...options }:
    & Pick<PushOptions, "url" | "git_dir" | "commit" | "tree" | "credentials" | "deadline_ms" | "signal">
    & { branch: string },
): Promise<Arrival | undefined> {
  if (found === undefined) return undefined;
  if (found === commit) return {};
  const remote = remoteOptions({ url, ...options }, `Cannot see what ${branch} has at ${url.canonical}`);
  const { state } = await baseStanding(git, { url, git_dir, base_commit: commit, branch, tree, remote });
  return state === "moved" ? { followed_by: found } : undefined;
}

async function remoteCommit(git: Git, branch: string, options: PushOptions): Promise<string | undefined> {
  const { url } = options;
  const attempted = `Cannot see whether ${branch} was pushed to ${url.canonical}`;
  const { refs } = await listRemote(git, url, [`refs/heads/${branch}`], remoteOptions(options, attempted));
  return refs.get(`refs/heads/${branch}`);
}

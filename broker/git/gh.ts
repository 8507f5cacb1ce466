/**
 * The code host through its command-line program, `gh`: opening and viewing pull requests.
 *
 * Every call names host, repository and branch itself, runs in an empty directory with an environment of its own, and
 * is bounded in time and output. What the operator exported (`GH_HOST`, `GH_REPO`) leads no call, and no credential,
 * anywhere else.
 */

import * as v from "valibot";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { parentOf } from "../../lib/real_path.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { hideSecrets } from "../../lib/text/secrets.ts";
import { HOST_VARIABLES, picked, TOKEN_VARIABLES } from "./credentials.ts";
import { type ProcessResult, runProcess } from "../../lib/process.ts";
import type { RepoUrl } from "./repo_url.ts";
import { type CheckRun, decodeRollup, RollupSchema } from "./pull_request_checks.ts";
import { parseJson } from "../../lib/text/json.ts";

/** Where gh may be, most usual place first. */
export const GH_PATHS: readonly string[] = ["/usr/bin/gh", "/usr/local/bin/gh", "/opt/homebrew/bin/gh"];

export interface GhOptions {
  /** Absolute path of gh. */
  path: string;
  /** An empty directory, absolute: a repository in the working directory would configure it. */
  cwd: string;
  /** Absolute path of git, for gh itself; by default gh looks for it at the usual places. */
  git_path?: string;
  /** The operator's environment, of which logins and the way into the network are taken. */
  env: Readonly<Record<string, string | undefined>>;
  clock?: Clock;
}

export interface PullRequestOptions {
  repo: RepoUrl;
  /** Branch with the change, in the same repository. */
  head: string;
  base: string;
  title: string;
  body: string;
  draft?: boolean;
  signal?: AbortSignal | undefined;
}

export interface PullRequest {
  number: number;
  url: string;
}

export interface PullRequestView {
  state: "open" | "closed" | "merged";
  /** Commit that its branch has now. */
  head_oid: string;
  checks: CheckRun[];
}

const DEADLINE_MS = 60_000;
/** A few thousand checks. */
const MAX_BYTES = 4 << 20;
/** GitHub's limits, in characters. */
const MAX_TITLE = 256;
const MAX_BODY = 65_536;

const ViewSchema = v.object({
  state: v.picklist(["OPEN", "CLOSED", "MERGED"]),
  headRefOid: v.pipe(v.string(), v.regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/)),
  statusCheckRollup: v.nullable(RollupSchema),
});

export class Gh {
  readonly #options: GhOptions;
  readonly #env: Record<string, string>;
  readonly #clock: Clock;

  constructor(options: GhOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#env = {
      ...picked(options.env, [...HOST_VARIABLES, ...TOKEN_VARIABLES]),
      // gh looks for git there, and for nothing else.
      PATH: `${options.git_path === undefined ? "" : `${parentOf(options.git_path)}:`}/usr/bin:/bin`,
      LC_ALL: "C",
      NO_COLOR: "1",
      GH_PROMPT_DISABLED: "1",
      GH_NO_UPDATE_NOTIFIER: "1",
      GH_PAGER: "cat",
      GH_SPINNER_DISABLED: "1",
      GH_TELEMETRY: "false",
      DO_NOT_TRACK: "1",
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_TERMINAL_PROMPT: "0",
    };
  }

  /**
   * Opens a pull request, or finds the one that is open for this branch.
   *
   * @throws {TaskdError} `auth_failed`, `not_found`, `unavailable`, `push_rejected` when the host refuses it, `timed_out`.
   */
  async createPullRequest(options: PullRequestOptions): Promise<PullRequest> {
    const { repo, head, base, draft = false, signal } = options;
    const attempted = `Cannot open a pull request for ${head} in ${repo.canonical}`;
    const title = clipped(sanitizeLine(options.title), MAX_TITLE) || head;
    const args = [`--head=${head}`, `--base=${base}`, `--title=${title}`, "--body-file=-"];
    const result = await this.#run(repo, ["pr", "create", ...args, ...draft ? ["--draft"] : []], {
      attempted,
      stdin: new TextEncoder().encode(clipped(options.body, MAX_BODY)),
      signal,
    });
    // After a lost answer or a crash, the one that exists is this task's, as its branch is.
    const output = result.code === 0 ? new TextDecoder().decode(result.stdout) : result.stderr;
    if (result.code !== 0 && !/already exists/.test(output)) throw ghError(attempted, result);
    const found = pullRequestUrl(output, repo);
    if (found !== undefined) return found;
    throw new TaskdError("push_rejected", `${attempted}: gh names no pull request of ${repo.canonical}`, {
      hint: "Look at the code host; update gh if it is old",
    });
  }

  /**
   * Views a pull request: one call of the host's API, which changes nothing.
   *
   * @throws {TaskdError} As {@linkcode createPullRequest}; `unsupported_format` when gh is too old, or its answer is
   * unknown.
   */
  async viewPullRequest(repo: RepoUrl, number: number, signal?: AbortSignal): Promise<PullRequestView> {
    const attempted = `Cannot look at pull request ${number} of ${repo.canonical}`;
    const fields = "headRefOid,state,statusCheckRollup";
    const result = await this.#run(repo, ["pr", "view", String(number), `--json=${fields}`], { attempted, signal });
    if (result.code !== 0) throw ghError(attempted, result);
    const json = parseJson(result.stdout);
    if (json === undefined) throw new TaskdError("unsupported_format", `${attempted}: gh's answer is no JSON`);
    const parsed = v.safeParse(ViewSchema, json);
    if (!parsed.success) {
      const issue = parsed.issues[0];
      throw new TaskdError("unsupported_format", `${attempted}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}`);
    }
    const { state, headRefOid, statusCheckRollup } = parsed.output;
    return {
      state: state === "OPEN" ? "open" : state === "CLOSED" ? "closed" : "merged",
      head_oid: headRefOid,
      checks: decodeRollup(statusCheckRollup ?? []),
    };
  }

  async #run(
    repo: RepoUrl,
    args: string[],
    { attempted, stdin, signal }: { attempted: string; stdin?: Uint8Array; signal: AbortSignal | undefined },
  ): Promise<ProcessResult> {
    if (repo.transport === "file") {
      throw new TaskdError("invalid_request", `${attempted}: a local path is on no code host`);
    }
    // In the flag's value, the host overrides the environment and the configuration.
    const [noun, verb, ...rest] = args;
    const pinned = [noun!, verb!, `--repo=${repo.host}/${repo.owner}/${repo.repo}`, ...rest];
    const result = await runProcess(this.#options.path, {
      args: pinned,
      env: this.#env,
      cwd: this.#options.cwd,
      deadline_ms: DEADLINE_MS,
      max_bytes: MAX_BYTES,
      clock: this.#clock,
      attempted,
      stdin,
      signal,
    });
    return { ...result, stderr: hideSecrets(result.stderr, TOKEN_VARIABLES.map((name) => this.#env[name] ?? "")) };
  }
}

/** The first pull request of this very repository that a text names. */
function pullRequestUrl(text: string, repo: RepoUrl): PullRequest | undefined {
  const prefix = `https://${repo.host}/${repo.owner}/${repo.repo}/pull/`;
  for (const word of text.split(/\s+/)) {
    if (!word.toLowerCase().startsWith(prefix.toLowerCase())) continue;
    const number = /^[1-9]\d{0,9}$/.exec(word.slice(prefix.length));
    if (number !== null) return { number: Number(number[0]), url: `${prefix}${number[0]}` };
  }
  return undefined;
}

/** What gh's complaints mean; the first that matches counts. */
const COMPLAINTS = [
  {
    pattern: /Unknown JSON field|unknown flag|unknown command/,
    code: "unsupported_format",
    hint: "gh is too old: 2.9 and later can tell how a pull request's checks stand",
  },
  {
    // GitHub answers with 403 as well as with 429.
    pattern: /rate limit|HTTP 429/i,
    code: "unavailable",
    hint: "The code host counts requests: wait some minutes, then try again",
  },
  {
    pattern:
      /gh auth login|HTTP 401|Bad credentials|authentication|GH_TOKEN environment|HTTP 403|Resource not accessible/i,
    code: "auth_failed",
    hint: "Log in with `gh auth login`; the account needs write access to pull requests",
  },
  {
    pattern: /error connecting|dial tcp|no such host|connection (refused|reset)|timeout|HTTP 5\d\d|TLS|EOF/i,
    code: "unavailable",
    hint: "Check the network, then try again",
  },
  {
    pattern: /Could not resolve to a|HTTP 404|no pull requests found|not found/i,
    code: "not_found",
    hint: "Check the address; a private repository looks the same to an account without access",
  },
] as const;

function ghError(attempted: string, { code, stderr }: ProcessResult): TaskdError {
  const words = sanitizeLine(stderr.trim()).slice(0, 600) || `gh ended with code ${code}`;
  // A repository may have any word in its name.
  const text = stderr.replaceAll(/https?:\/\/\S+|'[^'\s]*'/g, "");
  const known = COMPLAINTS.find(({ pattern }) => pattern.test(text));
  return known === undefined
    ? new TaskdError("push_rejected", `${attempted}: ${words}`)
    : new TaskdError(known.code, `${attempted}: ${words}`, { hint: known.hint });
}

function clipped(text: string, max: number): string {
  return text.length <= max ? text : `${text.slice(0, max - 3).toWellFormed()}...`;
}

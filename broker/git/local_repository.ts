/**
 * Repositories of this machine, at a path. Git serves them by a program of its own, which takes its settings from the
 * repository itself: hooks, commands and monitors that it names would run as the operator. Git keeps the settings of the
 * call from that program, so they are in the words by which it is called.
 *
 * Nothing of such a repository runs, unless the operator has named it in `run_hooks_of`.
 */

import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { shellWord } from "../../lib/text/shell_word.ts";
import { gitError } from "./git_failure.ts";
import type { ProcessResult } from "../../lib/process.ts";
import type { RepoUrl } from "./repo_url.ts";

/** What serves a repository to whom: reads of it, and pushes to it. */
const SERVICES: Readonly<Record<string, { option: string; service: string }>> = {
  "ls-remote": { option: "--upload-pack", service: "upload-pack" },
  fetch: { option: "--upload-pack", service: "upload-pack" },
  push: { option: "--receive-pack", service: "receive-pack" },
};

/** Beyond what every call has: what only the serving side knows. */
const SERVED: readonly string[] = [
  "core.sshCommand=false",
  "core.gitProxy=false",
  // A branch that is checked out would have its files written, through filters and monitors.
  "receive.denyCurrentBranch=refuse",
  "receive.denyDeleteCurrent=refuse",
  "receive.autogc=false",
];

/** Nothing that is missing in a repository is fetched for it, by whatever program it names. */
const CLOSED = "GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1";

/** Those that the caller reads objects with are behind a wall, where the repository is not. */
const OWN_PROGRAMS = "GIT_EXEC_PATH=";

/** Hooks that a repository's settings name, from git 2.54 on; no other setting switches all of them off. */
const NAMED_HOOKS = "^hook\\..*\\.command$";

interface LookOptions {
  attempted: string;
  signal: AbortSignal | undefined;
  deadline_ms?: number | undefined;
}

/** What of `Git` is needed here. */
interface GitCaller {
  readonly path: string;
  tryRun(
    args: readonly string[],
    options: LookOptions & {
      env?: Record<string, string>;
      searches?: boolean;
      reads_host?: boolean;
      repository?: { git_dir: string };
    },
  ): Promise<ProcessResult>;
}

export interface ServedCall {
  /** Arguments of the call; its command is the first that is no option. */
  args: readonly string[];
  url: RepoUrl;
  run: LookOptions;
  /** Settings that hold in every call of git. */
  config: readonly string[];
  /** Settings that stay where the repository may run its own programs. */
  durable: readonly string[];
  /** Absolute paths of repositories that may. */
  run_hooks_of: readonly string[];
}

/**
 * The arguments of a call of a repository at a path, which runs nothing of it.
 *
 * @throws {TaskdError} `denied` where it belongs to another user, or names hooks in its settings; as `Git.run` does.
 */
export async function servedArguments(git: GitCaller, options: ServedCall): Promise<string[]> {
  const { args, url, run, config, durable, run_hooks_of } = options;
  const at = args.findIndex((arg) => !arg.startsWith("-"));
  const served = SERVICES[args[at]!];
  if (served === undefined) throw new TaskdError("internal", `${run.attempted}: no call of a remote: ${args[at]}`);
  const git_dir = await findRepository(git, url, run);
  const trusted = [url.clone_url, git_dir].some((path) => run_hooks_of.includes(path));
  if (!trusted) await refuseNamedHooks(git, git_dir, run);
  const settings = trusted ? durable : [...config, ...SERVED];
  const words = [shellWord(git.path), ...settings.map((setting) => `-c ${shellWord(setting)}`), served.service];
  const command = `${OWN_PROGRAMS} ${trusted ? "" : `${CLOSED} `}${words.join(" ")}`;
  return [...args.slice(0, at + 1), `${served.option}=${command}`, ...args.slice(at + 1)];
}

/** Its git directory; git refuses one that belongs to another user. */
async function findRepository(git: GitCaller, { clone_url, canonical }: RepoUrl, run: LookOptions): Promise<string> {
  for (const path of [clone_url, `${clone_url}.git`]) {
    // No folder above is searched.
    const env = { GIT_CEILING_DIRECTORIES: path.slice(0, path.lastIndexOf("/")) || "/" };
    const { code, stdout, stderr } = await git.tryRun(["-C", path, "rev-parse", "--absolute-git-dir"], {
      ...run,
      env,
      searches: true,
    });
    if (code === 0) return new TextDecoder().decode(stdout).replace(/\n$/, "");
    if (!/not a git repository|cannot change to/.test(stderr)) throw gitError(run.attempted, stderr);
  }
  throw new TaskdError("not_found", `${run.attempted}: there is no repository at ${canonical}`, {
    hint: "Check the path: it is one on the machine of the broker",
  });
}

async function refuseNamedHooks(git: GitCaller, git_dir: string, run: LookOptions): Promise<void> {
  const { code, stdout, stderr } = await git.tryRun(
    ["config", "--includes", "-z", "--name-only", "--get-regexp", NAMED_HOOKS],
    { ...run, repository: { git_dir }, reads_host: true },
  );
  // One says that there are none.
  if (code === 1 && stderr === "") return;
  if (code !== 0) throw gitError(run.attempted, stderr);
  const [name = ""] = new TextDecoder().decode(stdout).split("\0");
  throw new TaskdError(
    "denied",
    `${run.attempted}: it names hooks in its settings: ${sanitizeLine(name).slice(0, 200)}`,
    {
      hint: `Take them out, or let it run its own programs as you: run_hooks_of: [${git_dir}]`,
    },
  );
}

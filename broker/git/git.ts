/**
 * The only way in which the broker runs git.
 *
 * Nothing in a repository, a work tree, the operator's configuration or the environment can make git run a
 * program: the environment is built here, no configuration file but the git directory's own is read, hooks, monitors,
 * filters, external diffs, signing, pagers and prompts are off, and no transport is open unless a call names it. A call
 * of a remote gets what the operator has set for that: see `operator_settings.ts`. The system holds every call to limits
 * of memory, processor time and written bytes; where there is a wall, calls that need nothing of the host are behind it.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { isFile } from "../../lib/fs.ts";
import { sanitizeText } from "../../lib/text/sanitize.ts";
import type { GitCredentials } from "./credentials.ts";
import { hideSecrets } from "../../lib/text/secrets.ts";
import { gitError } from "./git_failure.ts";
import type { GitRepository } from "./git_repository.ts";
import { behindWall, endWalled, type GitWall } from "./git_wall.ts";
import { servedArguments } from "./local_repository.ts";
import { type ProcessLimits, type ProcessResult, runProcess } from "../../lib/process.ts";
import { requireOwnShape } from "./repository_shape.ts";
import { redactUserinfo, type RepoUrl } from "./repo_url.ts";
import { walledPrograms } from "./walled_programs.ts";
import { INSTALL_GIT, parseGitVersion } from "./min_version.ts";

export type { GitRepository };

/** Where git may be, most usual place first. Absolute: a PATH may lead into a work tree. */
export const GIT_PATHS: readonly string[] = ["/usr/bin/git", "/usr/local/bin/git", "/opt/homebrew/bin/git"];
/** Where git looks for ssh and for credential helpers. */
export const SEARCHED = "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin";

export interface GitRunOptions {
  repository?: GitRepository;
  /** What was attempted, for errors: `Cannot clone x`. */
  attempted: string;
  stdin?: Uint8Array | undefined;
  /** Milliseconds; by default {@linkcode DEFAULT_DEADLINE_MS}. */
  deadline_ms?: number | undefined;
  /** Bytes of output; by default {@linkcode DEFAULT_MAX_BYTES}. */
  max_bytes?: number;
  /** What more output does; by default it is refused. */
  on_excess?: "refuse" | "cut";
  /** Takes the output as it comes; then none is kept, and there may be any amount of it. */
  onOutput?: (chunk: Uint8Array) => void;
  /** As {@linkcode runProcess} has it. */
  signal: AbortSignal | undefined;
  /** The remote that is called: opens its transport, for this command alone. */
  remote?: RepoUrl;
  /** Looks for the repository from where the command goes by `-C`, as git does by itself. */
  searches?: boolean;
  /** Reads what the repository leads to on this machine, and so is not behind the wall. */
  reads_host?: boolean;
  /** Writes the work tree. */
  checks_out?: boolean;
  /** In the place of what {@linkcode LIMITS} has. */
  limits?: Partial<ProcessLimits>;
  /** The operator's credentials, for this command alone: clone and push. */
  credentials?: GitCredentials;
  /** More `key=value` settings. */
  config?: readonly string[];
  /** More environment, for this command alone: names and times of a commit. */
  env?: Readonly<Record<string, string>>;
}

export interface GitOptions {
  /** Absolute paths: git is the first that exists; by default {@linkcode GIT_PATHS}. */
  places?: readonly string[] | undefined;
  /** An empty directory, absolute: git's HOME and working directory. */
  home: string;
  clock?: Clock;
  /** Absolute paths of repositories of this machine whose own hooks and settings may run programs, by the operator's word. */
  run_hooks_of?: readonly string[];
  /** What holds git, as `findGitWall` finds it; without it there is no wall. */
  wall?: GitWall | undefined;
}

/**
 * What each process of git may take. A shallow fetch of the largest public repositories stays below a quarter of it; a
 * repository made to take more takes as much as it gets.
 */
export const LIMITS: ProcessLimits = { cpu_s: 600, memory_bytes: 2 * 2 ** 30, file_bytes: 8 * 2 ** 30 };

/** A large repository on a slow disk. */
const DEFAULT_DEADLINE_MS = 10 * 60_000;
/** Paths of a few hundred thousand files. */
const DEFAULT_MAX_BYTES = 64 << 20;
const VERSION_DEADLINE_MS = 30_000;

/** Objects and refs are on the disk before they have their names; `collectChange` makes the names durable. */
export const DURABLE: readonly string[] = ["core.fsync=committed,reference", "core.fsyncMethod=batch"];

const NO_HELPER = "credential.helper=";

/** `-c` of every command. What a file of the repository could switch on is switched off by name. */
const CONFIG: readonly string[] = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  // It runs even where it is empty.
  "core.alternateRefsCommand=true",
  // Packs are mapped piece by piece, so that one of any size can be read.
  "core.packedGitWindowSize=32m",
  "core.attributesFile=/dev/null",
  "core.excludesFile=/dev/null",
  "core.untrackedCache=false",
  "core.splitIndex=false",
  "core.sharedRepository=umask",
  "core.protectHFS=true",
  "core.protectNTFS=true",
  "core.autocrlf=false",
  "core.safecrlf=false",
  "core.precomposeUnicode=false",
  "core.symlinks=true",
  "core.askPass=",
  "core.pager=cat",
  "core.editor=false",
  NO_HELPER,
  "diff.external=",
  "diff.renames=false",
  "diff.ignoreSubmodules=all",
  "submodule.recurse=false",
  "fetch.recurseSubmodules=false",
  "push.recurseSubmodules=no",
  "push.followTags=false",
  "push.gpgSign=false",
  "commit.gpgSign=false",
  ...DURABLE,
  "gc.auto=0",
  "maintenance.auto=false",
  "transfer.fsckObjects=true",
  "fetch.fsckObjects=true",
  // Always one file, however little comes: its limit is the limit of what is received.
  "fetch.unpackLimit=1",
  "protocol.allow=never",
  "protocol.ext.allow=never",
  // A redirection would carry the request, and perhaps credentials, to a host that was not pinned.
  "http.followRedirects=false",
  // A peer that trickles: under 1,000 bytes a second for a minute is a dead one.
  "http.lowSpeedLimit=1000",
  "http.lowSpeedTime=60",
];

export class Git {
  readonly path: string;
  readonly home: string;
  readonly clock: Clock;
  readonly #run_hooks_of: readonly string[];
  readonly #wall: GitWall | undefined;
  #version: Promise<string> | undefined;

  /** @throws {TaskdError} `not_found` when there is no git. */
  constructor(options: GitOptions) {
    this.path = findGit(options.places);
    this.home = options.home;
    this.clock = options.clock ?? systemClock;
    this.#run_hooks_of = options.run_hooks_of ?? [];
    this.#wall = options.wall;
  }

  /** @throws {TaskdError} `git_failed` when it is too old to be run safely. */
  version(): Promise<string> {
    return this.#version ??= this.#askVersion();
  }

  async #askVersion(): Promise<string> {
    const text = await this.text(["--version"], {
      attempted: "Cannot ask git for its version",
      // The answer is for all callers, not for the first alone.
      signal: undefined,
      deadline_ms: VERSION_DEADLINE_MS,
    });
    const found = parseGitVersion(text);
    if (found?.is_new === true) return found.version;
    throw new TaskdError("git_failed", `Cannot use ${this.path}: ${JSON.stringify(text.slice(0, 100))} is too old`, {
      hint: INSTALL_GIT,
    });
  }

  /**
   * Runs a command that has to succeed.
   *
   * @throws {TaskdError} By what git prints: `auth_failed`, `not_found`, `unavailable`, `denied`, `no_space`,
   * `corrupt`, `git_failed`; also `timed_out` and `too_large`.
   */
  async run(args: readonly string[], options: GitRunOptions): Promise<ProcessResult> {
    const result = await this.tryRun(args, options);
    if (result.code !== 0 && !result.truncated) throw gitError(options.attempted, result.stderr);
    return result;
  }

  /** {@linkcode run}, as text without the newline at its end. */
  async text(args: readonly string[], options: GitRunOptions): Promise<string> {
    return new TextDecoder().decode((await this.run(args, options)).stdout).replace(/\n$/, "");
  }

  /** Runs a command whose exit code the caller reads. Its output is free of secrets and of control characters. */
  async tryRun(args: readonly string[], options: GitRunOptions): Promise<ProcessResult> {
    const { repository, credentials, remote, stdin, signal, attempted, deadline_ms } = options;
    const config = [
      // Helpers in the environment begin with this setting themselves: behind them it would take them away.
      ...CONFIG.filter((setting) => setting !== NO_HELPER || credentials?.env.GIT_CONFIG_COUNT === undefined),
      ...remote === undefined ? [] : [`protocol.${remote.transport}.allow=always`],
      ...credentials?.config ?? [],
      ...options.config ?? [],
    ];
    const called = remote?.transport !== "file" ? args : await servedArguments(this, {
      args,
      url: remote,
      run: { attempted, signal, deadline_ms },
      config: CONFIG,
      durable: DURABLE,
      run_hooks_of: this.#run_hooks_of,
    });
    const { program, args: all, is_walled, env: of_place } = this.#placed(
      [...config.flatMap((setting) => ["-c", setting]), ...called],
      options,
    );
    const result = await runProcess(program, {
      args: all,
      limits: { ...LIMITS, ...options.limits },
      env: {
        // Credential helpers are looked for here, too.
        PATH: SEARCHED,
        LC_ALL: "C",
        HOME: this.home,
        GIT_CONFIG_NOSYSTEM: "1",
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_ATTR_NOSYSTEM: "1",
        GIT_TERMINAL_PROMPT: "0",
        GIT_OPTIONAL_LOCKS: "0",
        GIT_NO_REPLACE_OBJECTS: "1",
        GIT_LITERAL_PATHSPECS: "1",
        GIT_CEILING_DIRECTORIES: "/",
        GIT_NO_LAZY_FETCH: "1",
        GIT_SSH_COMMAND: "/bin/false",
        ...options.searches === true ? {} : repositoryEnv(repository),
        ...credentials?.env,
        ...of_place,
        ...options.env,
      },
      cwd: this.home,
      deadline_ms: deadline_ms ?? DEFAULT_DEADLINE_MS,
      max_bytes: options.max_bytes ?? DEFAULT_MAX_BYTES,
      on_excess: options.on_excess ?? "refuse",
      ...options.onOutput === undefined ? {} : { onOutput: options.onOutput },
      ...is_walled ? { onEnd: (pid) => endWalled(pid, this.clock) } : {},
      clock: this.clock,
      attempted,
      stdin,
      signal,
    });
    const stderr = sanitizeText(redactUserinfo(hideSecrets(result.stderr, credentials?.secrets ?? [])));
    return {
      ...result,
      stderr: result.code > 128 ? `${stderr}\nfatal: git died of signal ${result.code - 128}` : stderr,
    };
  }

  /** Behind the wall, or on the host. */
  #placed(args: readonly string[], options: GitRunOptions) {
    const { repository, remote, reads_host = false, checks_out = false } = options;
    const [wall, home] = [this.#wall, this.home];
    const on_host = { program: this.path, args, is_walled: false, env: {} };
    if (wall === undefined || repository === undefined || reads_host) return on_host;
    requireOwnShape(repository.git_dir, options.attempted, repository.borrows);
    if (remote === undefined) {
      return { ...behindWall(wall, [this.path, args], { repository, home, checks_out }), is_walled: true, env: {} };
    }
    if (wall.programs === undefined) return on_host;
    const receives = args.includes("fetch");
    const env = walledPrograms(wall, wall.programs, { git_path: this.path, repository, home, receives });
    return { ...on_host, env };
  }
}

function repositoryEnv(repository: GitRepository | undefined): Record<string, string> {
  // No search for a repository: where none is given, there is none.
  if (repository === undefined) return { GIT_DIR: "/dev/null" };
  const { git_dir, work_tree, index_file } = repository;
  return {
    GIT_DIR: git_dir,
    ...work_tree === undefined ? {} : { GIT_WORK_TREE: work_tree },
    ...index_file === undefined ? {} : { GIT_INDEX_FILE: index_file },
  };
}

function findGit(places = GIT_PATHS): string {
  const found = places.find(isFile);
  if (found !== undefined) return found;
  const where = places.length === 0 ? "a place where no other user could exchange it" : places.join(", ");
  throw new TaskdError("not_found", `Cannot find git in ${where}`, { hint: "Install git, or run taskd doctor" });
}

/**
 * Real repositories for the tests: a bare one to clone from and push to, a staged task, and plain git for what an
 * operator would do by hand.
 */

import { join } from "@std/path/join";
import { Git } from "../../../broker/git/git.ts";
import { type MirrorOptions, Mirrors } from "../../../broker/git/mirrors.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { type StagedRepository, stageRepository } from "../../../broker/git/staged_repository.ts";
import { makeProgramFolder } from "../../../broker/git/walled_programs.ts";
import type { GitWall } from "../../../broker/git/git_wall.ts";
import { seccompFilter } from "../../../broker/sandbox/bubblewrap/seccomp_filter.ts";
import { askProgram, PROGRAM_PATHS } from "../../../broker/sandbox/host_programs.ts";
import { endProcesses } from "../../../broker/sandbox/processes.ts";
import { systemClock } from "../../../lib/clock.ts";
import { lstatIfPresent } from "../../../lib/fs.ts";

/** Bytes or text by path; a path that ends in `@` becomes a link to the text. */
export type Files = Record<string, string | Uint8Array>;

/** Git as an operator has it, without the operator's settings. */
export async function plainGit(cwd: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command("/usr/bin/git", {
    args: ["-c", "user.name=Op", "-c", "user.email=op@example.com", "-c", "init.defaultBranch=main", ...args],
    cwd,
    env: { GIT_CONFIG_GLOBAL: "/dev/null", GIT_CONFIG_NOSYSTEM: "1", LC_ALL: "C" },
  }).output();
  if (!success) throw new Error(`git ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout).trimEnd();
}

/** Mirrors as a broker has them. */
export function openMirrors(root: string, options: Partial<MirrorOptions> = {}): Mirrors {
  return new Mirrors({
    root,
    quota_bytes: 1e9,
    clock: systemClock,
    endProcesses: (isOne, signal) =>
      endProcesses(systemClock, (all) => all.filter((one) => isOne(one.command_line)), { signal }),
    onWarning: () => {},
    ...options,
  });
}

/** Writes files below `root`. */
export async function writeFiles(root: string, files: Files): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    const full = join(root, path.replace(/@$/, ""));
    await Deno.mkdir(full.slice(0, full.lastIndexOf("/")), { recursive: true });
    if (path.endsWith("@")) await Deno.symlink(content as string, full);
    else if (typeof content === "string") await Deno.writeTextFile(full, content);
    else await Deno.writeFile(full, content);
  }
}

/** What {@linkcode GitBench.start} takes. */
export interface GitBenchOptions {
  /** The first commit; by default one README. */
  files?: Files;
  /** Changes the repository before its commit. */
  prepare?: (work: string) => Promise<unknown>;
  /** In which folder; by default that of temporary files. */
  dir?: string;
}

/** What holds git where it is installed. */
const BWRAP = PROGRAM_PATHS.bubblewrap.find((path) => lstatIfPresent(path) !== undefined);
export const WALL: GitWall | undefined = BWRAP === undefined
  ? undefined
  : { bwrap: BWRAP, filter: seccompFilter(Deno.build.arch) };

/** A bare repository with one commit on main, and room for tasks. */
export class GitBench implements AsyncDisposable {
  readonly root: string;
  /** The bare repository. */
  origin: string;
  readonly git: Git;
  /** What holds git, with programs for calls of a remote. */
  readonly wall: GitWall | undefined;
  /** By default none. */
  mirrors?: Mirrors;
  #tasks = 0;

  private constructor(root: string) {
    this.root = root;
    this.origin = join(root, "acme", "app.git");
    this.wall = WALL && { ...WALL, programs: join(root, "programs") };
    this.git = new Git({ home: join(root, "home"), wall: this.wall });
  }

  /** Makes one. */
  static async start({ files = { "README.md": "# app\n" }, prepare, dir }: GitBenchOptions = {}): Promise<GitBench> {
    const bench = new GitBench(await Deno.makeTempDir(dir === undefined ? {} : { dir }));
    await Deno.mkdir(join(bench.root, "home"));
    const { programs } = bench.wall ?? {};
    if (programs !== undefined) await makeProgramFolder(programs, bench.git.path, askProgram({ env: () => undefined }));
    const work = join(bench.root, "seed");
    await plainGit(bench.root, "init", "--quiet", work);
    await writeFiles(work, files);
    await prepare?.(work);
    await plainGit(work, "add", "-A");
    await plainGit(work, "commit", "--quiet", "-m", "first");
    await plainGit(bench.root, "clone", "--quiet", "--bare", work, bench.origin);
    return bench;
  }

  /** The bench that another process has started in `root`, and removes. */
  static of(root: string): Pick<GitBench, "stage"> {
    return new GitBench(root);
  }

  /** Stages a task on main. */
  stage(base?: string): Promise<StagedRepository> {
    const name = `task${++this.#tasks}`;
    return stageRepository(this.git, {
      url: parseRepo(this.origin),
      git_dir: join(this.root, name, "git"),
      work_tree: join(this.root, name, "work"),
      ...base === undefined ? {} : { base },
      mirrors: this.mirrors,
    });
  }

  /** Removes everything, unreadable directories too. */
  async [Symbol.asyncDispose](): Promise<void> {
    await new Deno.Command("chmod", { args: ["-R", "u+rwX", this.root], stderr: "null" }).output();
    await Deno.remove(this.root, { recursive: true });
  }
}

/**
 * Git with the wall that can be had on this machine.
 */

import { TaskdError } from "../../lib/errors.ts";
import { lstatIfPresent } from "../../lib/fs.ts";
import { Git, type GitOptions } from "./git.ts";
import { behindWall, type GitWall } from "./git_wall.ts";
import { makeProgramFolder } from "./walled_programs.ts";

/** How programs are asked, and where bwrap may be. */
export interface WallSources {
  ask: (path: string, args: readonly string[]) => Promise<{ code: number; stdout: string; stderr: string }>;
  /** Absolute paths. */
  bwraps: readonly string[];
  /** As {@linkcode GitWall} has it. */
  filter: GitWall["filter"];
}

/**
 * @param programs A folder that is made anew, for calls of a remote.
 * @throws {TaskdError} `not_found` when there is no git.
 */
export async function openGit(
  options: Omit<GitOptions, "wall">,
  { programs, ...sources }: WallSources & { programs: string },
): Promise<Git> {
  const { path } = new Git(options);
  const wall = await findGitWall(path, sources, options.home);
  if (wall === undefined) return new Git(options);
  await makeProgramFolder(programs, path, sources.ask);
  return new Git({ ...options, wall: { ...wall, programs } });
}

/**
 * The wall that can hold git; undefined where there is none, or git is none of the system's programs. One that cannot do
 * all that it is asked for ends, and git is not started.
 *
 * @param home Where git will be called; by default a folder that every machine has.
 */
export async function findGitWall(
  git_path: string,
  { ask, bwraps, filter }: WallSources,
  home = "/usr",
): Promise<GitWall | undefined> {
  if (Deno.build.os !== "linux" || !git_path.startsWith("/usr/")) return undefined;
  for (const bwrap of bwraps.filter((path) => lstatIfPresent(path) !== undefined)) {
    const wall = { bwrap, filter };
    const { program, args } = behindWall(wall, [git_path, ["--version"]], { home, checks_out: false });
    try {
      if ((await ask(program, args)).code === 0) return wall;
    } catch (error) {
      if (!(error instanceof TaskdError)) throw error;
    }
  }
  return undefined;
}

/**
 * Git's own programs, as a call of a remote finds them. Such a call needs the network and the operator's keys and helpers,
 * so it is on the host. What it starts to take a pack apart, to make one and to walk through what came reads objects of
 * others, and needs none of these: that is behind the wall. Git looks for its programs in a folder that it is given: there
 * each is a link to the real one, and `git` a script that leads these behind the wall.
 */

import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { shellWord } from "../../lib/text/shell_word.ts";
import { behindWall, type GitWall, type WalledCall } from "./git_wall.ts";

/** What leads behind the wall, a word a line. */
const VARIABLE = "TASKD_GIT_WALL";
/** Without the variable nothing is started. */
const script = (git_path: string) =>
  `#!/bin/sh
case $1 in --shallow-file) program=$3 ;; *) program=$1 ;; esac
case $program in
index-pack | unpack-objects | pack-objects | rev-list) ;;
*) exec ${shellWord(git_path)} "$@" ;;
esac
: "\${${VARIABLE}:?}"
set -f
IFS='
'
exec $${VARIABLE} "$@"
`;

/** The broker may neither look into the system's folders nor make links. */
const MAKE = `set -eu
rm -rf -- "$1"
mkdir -m 700 -- "$1"
ln -s -- "$2"/* "$1/"
rm -- "$1/git"
printf %s "$3" > "$1/git"
chmod 700 -- "$1/git"`;

/**
 * Makes the folder anew.
 *
 * @throws {TaskdError} `git_failed`.
 */
export async function makeProgramFolder(
  folder: string,
  git_path: string,
  ask: (path: string, args: readonly string[]) => Promise<{ code: number; stdout: string; stderr: string }>,
): Promise<void> {
  const exec_path = (await ask(git_path, ["--exec-path"])).stdout.trim();
  const { code, stderr } = await ask("/bin/sh", ["-c", MAKE, "sh", folder, exec_path, script(git_path)]);
  if (code === 0) return;
  throw new TaskdError("git_failed", `Cannot make ${folder} of ${exec_path}: ${sanitizeLine(stderr).slice(0, 300)}`, {
    hint: "Install git from the system's packages",
  });
}

/**
 * The environment of a call of a remote that has its objects read behind the wall.
 *
 * @param folder As {@linkcode makeProgramFolder} has made it.
 * @throws {TaskdError} `invalid_request` for a path with a newline.
 */
export function walledPrograms(
  wall: GitWall,
  folder: string,
  { git_path, ...call }: WalledCall & { git_path: string },
): Record<string, string> {
  const { program, args } = behindWall(wall, [git_path, []], call);
  const words = [program, ...args];
  if (words.some((word) => word.includes("\n") || word === "")) {
    throw new TaskdError("invalid_request", `Cannot call git for ${call.home}: its path has a newline`, {
      hint: "Move taskd's home to a folder without one",
    });
  }
  return { GIT_EXEC_PATH: folder, [VARIABLE]: words.join("\n") };
}

/**
 * Removing what a sandbox has left, of any depth, with any names and permissions.
 *
 * `rm` does it. The runtime's own recursive removal goes down by recursion: a tree of some ten thousand levels, which a
 * program makes in a second, overflows its stack and takes the whole process with it.
 */

import { type Clock, systemClock } from "./clock.ts";
import { type ErrorCode, TaskdError } from "./errors.ts";
import { fileError, fileErrorCode } from "./fs.ts";
import { sanitizeLine } from "./text/sanitize.ts";
import { runProcess } from "./process.ts";

/** POSIX has both there. */
const RM_PATH = "/bin/rm";
const CHMOD_PATH = "/bin/chmod";
/** Millions of files on a slow disk. */
const DEADLINE_MS = 30 * 60_000;
const MAX_OUTPUT_BYTES = 64 << 10;

/** Complaints of `rm` that mean `denied`; others mean `unavailable`. */
const DENIED = /Permission denied|Operation not permitted|Read-only file system/;

/**
 * Removes a file or a folder with everything in it; nothing happens when there is none. No link is followed.
 *
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export async function removeTree(path: string, clock: Clock = systemClock): Promise<void> {
  const attempted = `Cannot remove ${path}`;
  try {
    // Most of what is removed is a file.
    if (!(await Deno.lstat(path)).isDirectory) return await Deno.remove(path);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return;
    throw fileError(error, attempted);
  }
  if (await run(RM_PATH, ["-rf"]) === "") return;
  // Its writer may have removed the permission to delete it.
  await run(CHMOD_PATH, ["-R", "u+rwX"]);
  const complaint = await run(RM_PATH, ["-rf"]);
  if (complaint === "") return;
  const code: ErrorCode = DENIED.test(complaint) ? "denied" : "unavailable";
  throw new TaskdError(code, `${attempted}: ${sanitizeLine(complaint).slice(0, 300)}`);

  /** Runs a program on the path; what it complains about, nothing after a success. */
  async function run(program: string, options: readonly string[]): Promise<string> {
    const { code, stderr } = await runProcess(program, {
      args: [...options, "--", path],
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C" },
      deadline_ms: DEADLINE_MS,
      max_bytes: MAX_OUTPUT_BYTES,
      on_excess: "cut",
      clock,
      attempted,
      // It takes away what was ended.
      signal: undefined,
    });
    return code === 0 ? "" : stderr.trim().split("\n").at(-1) || `${program} ended with code ${code}`;
  }
}

/**
 * Puts the broker's file where a user's service manager looks for it, and takes it away.
 * A file that somebody else wrote is left alone.
 *
 * @module
 */

import { dirname } from "@std/path/dirname";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, removeIfPresent, writeFileAtomic } from "../../lib/fs.ts";
import { readPrivateFile } from "../../broker/settings/private_file.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { type AskProgram, findProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { managerCalls, MARKER, type ServiceManager } from "./units.ts";

/** What the calls of a manager take. */
export interface ServiceOptions {
  ask: AskProgram;
  uid: number;
  /** Where programs may be. */
  programs?: typeof PROGRAM_PATHS;
}

/**
 * Writes the file and, if wanted, has it started.
 *
 * @throws {TaskdError} `already_exists` when somebody else's file is there; `unavailable` when the manager refuses: the file
 * is written then.
 */
export async function installUnit(
  file: { manager: ServiceManager; path: string; text: string },
  options: ServiceOptions & { started: boolean },
): Promise<void> {
  await isOurs(file.path);
  try {
    Deno.mkdirSync(dirname(file.path), { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fileError(error, `Cannot make the directory of ${file.path}`);
  }
  await writeFileAtomic(file.path, new TextEncoder().encode(file.text), 0o644);
  if (!options.started) return;
  await tell(file, options, "enable");
}

/** Has it stopped and removes the file; throws `not_found` when there is none. */
export async function uninstallUnit(
  file: { manager: ServiceManager; path: string },
  options: ServiceOptions,
): Promise<void> {
  if (!await isOurs(file.path)) {
    throw new TaskdError("not_found", `Cannot remove the service: ${file.path} does not exist`, {
      hint: "There is nothing to do",
    });
  }
  try {
    await tell(file, options, "disable");
  } catch (error) {
    // It may never have been started, or the manager does not run: the file goes all the same.
    if (!(error instanceof TaskdError) || error.code === "interrupted") throw error;
  }
  removeIfPresent(file.path);
  await tell(file, options, "reload").catch(() => {});
}

/** Whether the file is there; throws when it is somebody else's. */
async function isOurs(path: string): Promise<boolean> {
  const text = await readPrivateFile(path, "own");
  if (text === undefined) return false;
  if (text.includes(MARKER)) return true;
  throw new TaskdError("already_exists", `Cannot use ${path}: it was not written by this program`, {
    hint: "Move it away, then try again",
  });
}

async function tell(
  { manager, path }: { manager: ServiceManager; path: string },
  { ask, uid, programs = PROGRAM_PATHS }: ServiceOptions,
  what: "enable" | "disable" | "reload",
): Promise<void> {
  const calls = managerCalls(manager, { uid, path });
  const program = findProgram(calls.program, programs);
  for (const args of calls[what]) {
    const said = program === undefined ? undefined : await ask(program, args);
    if (said?.code === 0) continue;
    const why = said === undefined ? "it is not installed" : sanitizeLine(said.stderr.trim().split("\n").at(-1) ?? "");
    throw new TaskdError("unavailable", `Cannot ${what} the service: ${calls.program}: ${why}`, {
      hint: `The file is ${path}; once ${manager} runs for you, run: ${calls.program} ${args.join(" ")}`,
    });
  }
}

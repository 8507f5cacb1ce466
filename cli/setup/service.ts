/**
 * Installs and removes the broker's unit of the user's service manager. A file that this
 * program did not write is left alone.
 */

import { dirname } from "@std/path/dirname";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, removeIfPresent, writeFileAtomic } from "../../lib/fs.ts";
import { readPrivateFile } from "../../broker/settings/private_file.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { type AskProgram, findProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { managerCalls, MARKER, type ServiceManager } from "./units.ts";

export interface ServiceOptions {
  ask: AskProgram;
  uid: number;
  programs?: typeof PROGRAM_PATHS;
}

/**
 * Writes the file and, if `started`, starts the service.
 *
 * @throws {TaskdError} `already_exists` when another program's file is there; `unavailable` when the manager refuses
 * after the file is written.
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
  await callManager(file, options, "enable");
}

/** Stops the service and removes the file; throws `not_found` when there is none. */
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
    await callManager(file, options, "disable");
  } catch (error) {
    // It may never have been started, or the manager does not run: the file goes all the same.
    if (!(error instanceof TaskdError) || error.code === "interrupted") throw error;
  }
  removeIfPresent(file.path);
  await callManager(file, options, "reload").catch(() => {});
}

/** Whether the file exists; throws when another program wrote it. */
async function isOurs(path: string): Promise<boolean> {
  const text = await readPrivateFile(path, "own");
  if (text === undefined) return false;
  if (text.includes(MARKER)) return true;
  throw new TaskdError("already_exists", `Cannot use ${path}: it was not written by this program`, {
    hint: "Move it away, then try again",
  });
}

async function callManager(
  { manager, path }: { manager: ServiceManager; path: string },
  { ask, uid, programs = PROGRAM_PATHS }: ServiceOptions,
  what: "enable" | "disable" | "reload",
): Promise<void> {
  const calls = managerCalls(manager, { uid, path });
  const program = findProgram(calls.program, programs);
  for (const args of calls[what]) {
    const answer = program === undefined ? undefined : await ask(program, args);
    if (answer?.code === 0) continue;
    const why = answer === undefined
      ? "it is not installed"
      : sanitizeLine(answer.stderr.trim().split("\n").at(-1) ?? "");
    throw new TaskdError("unavailable", `Cannot ${what} the service: ${calls.program}: ${why}`, {
      hint: `The file is ${path}; once ${manager} runs for you, run: ${calls.program} ${args.join(" ")}`,
    });
  }
}

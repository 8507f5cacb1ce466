/**
 * The directories of the settings: stage_root, audit_root, squid_run_dir, cache_root. Each is this user's alone, and no
 * directory that has another purpose: the broker closes it to others, and removes what tasks have left in it.
 */

import { TaskdError } from "../../lib/errors.ts";
import { absolutePath } from "../../lib/real_path.ts";
import { requireTrusted } from "../../lib/trusted_path.ts";
import { taskdHome } from "./load.ts";
import type { Settings } from "./settings.ts";

export const ROOTS = ["stage_root", "audit_root", "squid_run_dir", "cache_root"] as const;
/** Those that the broker closes to others. */
const CLOSED: ReadonlySet<string> = new Set(["audit_root", "cache_root"] satisfies (typeof ROOTS[number])[]);

/**
 * Makes sure of every directory, there or not yet.
 *
 * @throws {TaskdError} `denied` for one of another user, one that others can change, a link, and a directory of the system
 * or the home directory.
 */
export function requireOwnRoots(settings: Pick<Settings, typeof ROOTS[number]>, home: string): void {
  for (const name of ROOTS) requireOwnRoot(name, settings[name], home);
}

/** Makes sure of one; as {@linkcode requireOwnRoots}. */
export function requireOwnRoot(name: typeof ROOTS[number], path: string, home: string): void {
  if (`${absolutePath(taskdHome(home))}/`.startsWith(`${absolutePath(path)}/`.replace(/^\/\/$/, "/"))) {
    throw refused(name, path, "it holds this home directory");
  }
  const info = requireTrusted(path, "root");
  // One that this broker has made, or closed before, is open to no one.
  if (info === undefined || ((info.mode ?? 0) & 0o077) === 0 || path.startsWith(`${taskdHome(home)}/`)) return;
  if (CLOSED.has(name) && !isEmpty(path)) throw refused(name, path, "it is in use, and open to other users");
}

function isEmpty(path: string): boolean {
  for (const _ of Deno.readDirSync(path)) return false;
  return true;
}

function refused(name: string, path: string, problem: string): TaskdError {
  return new TaskdError("denied", `Cannot use ${path} as ${name}: ${problem}`, {
    hint: `Name an empty directory in config.yaml, or close one that only taskd uses: chmod 700`,
  });
}

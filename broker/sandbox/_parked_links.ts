/**
 * Symbolic links of a work tree, put aside while an embedded sandbox runs.
 *
 * Deno checks a path as it is written and then lets the system follow links, so a link that was there before would be
 * a way to its target. A process with permissions for a folder alone cannot make links (that needs
 * permissions without a scope), so a tree that begins without any stays without any.
 */

import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, fileErrorCode, lstatIfPresent } from "../../lib/fs.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";

/** Most entries of a tree; with more it is refused. */
const MAX_ENTRIES = 2_000_000;

export interface ParkedLink {
  path: string;
  target: string;
}

/** Removes every symbolic link below `root` and returns them, so that {@linkcode restoreLinks} can put them back. */
export async function parkLinks(root: string): Promise<ParkedLink[]> {
  const parked: ParkedLink[] = [];
  const folders = [root];
  let entries = 0;
  let at = root;
  try {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      at = folder;
      for await (const entry of Deno.readDir(folder)) {
        if (++entries > MAX_ENTRIES) {
          throw new TaskdError("too_large", `Cannot prepare ${root}: it has more than ${MAX_ENTRIES} entries`);
        }
        const path = join(folder, entry.name);
        if (entry.isDirectory) folders.push(path);
        if (!entry.isSymlink) continue;
        at = path;
        const link = { path, target: await Deno.readLink(path) };
        await Deno.remove(path);
        parked.push(link);
      }
    }
    return parked;
  } catch (error) {
    await restoreLinks(parked);
    const attempted = `Cannot put the links of ${root} aside`;
    // Deno gives such a name as one that no file has; what is below it cannot be inspected.
    if (at.includes("\ufffd") && fileErrorCode(error) === "not_found") {
      throw new TaskdError("sandbox_failed", `${attempted}: the name ${at.slice(root.length + 1)} is not UTF-8`, {
        cause: error,
        hint: "Rename it, or have the task run in a container: the setting runtime",
      });
    }
    throw fileError(error, attempted);
  }
}

const LN_PATH = "/bin/ln";

/**
 * Puts links back, except where something else is now or the folder is gone: the agent made that change. `ln` makes
 * them: a process whose permissions are for some paths cannot.
 */
export async function restoreLinks(links: readonly ParkedLink[]): Promise<void> {
  for (const { path, target } of links) {
    const attempted = `Cannot put the link ${path} back`;
    let output: Deno.CommandOutput;
    try {
      if (!isFree(path)) continue;
      output = await new Deno.Command(LN_PATH, {
        args: ["-s", "-n", "--", target, path],
        env: { LC_ALL: "C" },
        clearEnv: true,
        stdin: "null",
        stdout: "null",
      }).output();
    } catch (error) {
      throw fileError(error, attempted);
    }
    if (output.success) continue;
    const complaint = sanitizeLine(new TextDecoder().decode(output.stderr).trim()).slice(0, 300);
    throw new TaskdError("unavailable", `${attempted}: ${complaint}`);
  }
}

/** Whether a link can be made: its folder is there, and nothing in its place. */
function isFree(path: string): boolean {
  return lstatIfPresent(path) === undefined && lstatIfPresent(dirname(path))?.isDirectory === true;
}

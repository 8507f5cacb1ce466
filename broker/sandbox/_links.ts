/**
 * Symbolic links of a work tree, put aside while an embedded sandbox runs.
 *
 * Deno checks a path as it is written and then lets the system follow links, so a link that was there before would be
 * a door to whatever it points at. A process with permissions for a folder alone cannot make links (that needs
 * permissions without a scope), so a tree that begins without any stays without any.
 *
 * @module
 */

import { join } from "@std/path/join";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, fileErrorCode } from "../../lib/fs.ts";

/** Entries of a tree that are looked at; above it the tree is refused. */
const MAX_ENTRIES = 2_000_000;

/** A link that was put aside. */
export interface ParkedLink {
  /** Absolute path of the link. */
  path: string;
  /** Its text. */
  target: string;
}

/** Removes every symbolic link below `root` and says what they were, so that {@linkcode restoreLinks} can put them back. */
export async function parkLinks(root: string): Promise<ParkedLink[]> {
  const parked: ParkedLink[] = [];
  const folders = [root];
  let entries = 0;
  try {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for await (const entry of Deno.readDir(folder)) {
        if (++entries > MAX_ENTRIES) {
          throw new TaskdError("too_large", `Cannot prepare ${root}: it has more than ${MAX_ENTRIES} entries`);
        }
        const path = join(folder, entry.name);
        if (entry.isDirectory) folders.push(path);
        if (!entry.isSymlink) continue;
        const link = { path, target: await Deno.readLink(path) };
        await Deno.remove(path);
        parked.push(link);
      }
    }
    return parked;
  } catch (error) {
    await restoreLinks(parked);
    throw fileError(error, `Cannot put the links of ${root} aside`);
  }
}

/** Puts links back, but where something else is now or the folder is gone: that is a change the agent made. */
export async function restoreLinks(links: readonly ParkedLink[]): Promise<void> {
  for (const { path, target } of links) {
    try {
      await Deno.symlink(target, path);
    } catch (error) {
      const code = fileErrorCode(error);
      if (code !== "already_exists" && code !== "not_found") throw fileError(error, `Cannot put the link ${path} back`);
    }
  }
}

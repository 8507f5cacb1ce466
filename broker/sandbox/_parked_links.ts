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
import { fileError, fileErrorCode, lstatIfPresent, withFileError } from "../../lib/fs.ts";

/** Most entries of a tree; with more it is refused. */
const MAX_ENTRIES = 2_000_000;

export interface ParkedLink {
  path: string;
  target: string;
}

/** Links that are put aside. */
export interface ParkedLinks {
  links: readonly ParkedLink[];
  /** Where they are, each by its number in `links`. */
  folder: string;
}

/**
 * Moves every symbolic link below `root` to a folder beside it, so that {@linkcode restoreLinks} can put them back: a
 * process whose permissions are for some paths may move a link, and cannot make one.
 *
 * @throws {TaskdError} `too_large`, `sandbox_failed` for a name that is not UTF-8; the signal's reason after an abort.
 */
export async function parkLinks(root: string, signal?: AbortSignal): Promise<ParkedLinks> {
  const links: ParkedLink[] = [];
  const parked = { links, folder: `${root}.links` };
  const folders = [root];
  let entries = 0;
  let at = root;
  try {
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      at = folder;
      for await (const entry of Deno.readDir(folder)) {
        signal?.throwIfAborted();
        if (++entries > MAX_ENTRIES) {
          throw new TaskdError("too_large", `Cannot prepare ${root}: it has more than ${MAX_ENTRIES} entries`);
        }
        const path = join(folder, entry.name);
        if (entry.isDirectory) folders.push(path);
        if (!entry.isSymlink) continue;
        at = path;
        const link = { path, target: await targetOf(path) };
        if (links.length === 0) await Deno.mkdir(parked.folder, { mode: 0o700 });
        await Deno.rename(path, placeOf(parked, links.length));
        links.push(link);
      }
    }
    return parked;
  } catch (error) {
    await restoreLinks(parked, signal);
    signal?.throwIfAborted();
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

/**
 * Puts links back, except where something else is now or the folder is gone: the agent made that change. Nothing more is
 * put back once the signal is aborted: then the tree is to go.
 */
export async function restoreLinks(parked: ParkedLinks, signal?: AbortSignal): Promise<void> {
  const { links, folder } = parked;
  if (links.length === 0) return;
  for (const [at, { path }] of links.entries()) {
    if (signal?.aborted) return;
    await withFileError(`Cannot put the link ${path} back`, async () => {
      const is_free = lstatIfPresent(path) === undefined && lstatIfPresent(dirname(path))?.isDirectory === true;
      if (is_free) await Deno.rename(placeOf(parked, at), path);
      else await Deno.remove(placeOf(parked, at));
    });
  }
  await Deno.remove(folder);
}

/** What a link names, for the agent to read; its bytes stay as they are. */
async function targetOf(path: string): Promise<string> {
  try {
    return await Deno.readLink(path);
  } catch (error) {
    if (error instanceof Deno.errors.InvalidData) return "(a name that is not UTF-8)";
    throw error;
  }
}

function placeOf({ folder }: ParkedLinks, at: number): string {
  return `${folder}/${at}`;
}

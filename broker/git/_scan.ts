/**
 * Scans a hostile work tree before git reads it: what git skips without a word (pipes, sockets, devices, every
 * `.git`) is found here, and what would block git forever is refused.
 */

import { messageOf, TaskdError } from "../../lib/errors.ts";
import { fileErrorCode } from "../../lib/fs.ts";
import { isGitName } from "../../lib/text/git_name.ts";

/** What was found; paths are text, relative to the tree. */
export interface Scan {
  special: string[];
  /** Entries that git or a file system reads as `.git`. */
  nested_git: string[];
  /** Directories that could not be read: names that are no UTF-8, or too long. */
  opaque: string[];
}

/** A million entries is more than any real work tree has, dependencies included. */
const MAX_ENTRIES = 1_000_000;
/** Files that git opens while it walks: a pipe in their place would make it wait for a writer. */
const READ_BY_GIT = new Set([".gitignore", ".gitattributes", ".gitmodules"]);

/**
 * Walks the tree; links are not followed.
 *
 * @throws {TaskdError} `denied` for a directory that cannot be read, `too_large` for a tree that is too large to look
 * over, `invalid_request` for a pipe or device where git would read a file.
 */
export async function scanWorkTree(work_tree: string, signal?: AbortSignal): Promise<Scan> {
  const scan: Scan = { special: [], nested_git: [], opaque: [] };
  const pending = [""];
  let entries = 0;
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    signal?.throwIfAborted();
    const prefix = directory === "" ? "" : `${directory}/`;
    for (const entry of await list(work_tree, directory, scan)) {
      if (++entries > MAX_ENTRIES) {
        throw new TaskdError("too_large", `Cannot collect the changes: the work tree has over ${MAX_ENTRIES} entries`);
      }
      const path = `${prefix}${entry.name}`;
      if (isGitName(entry.name)) scan.nested_git.push(path);
      else if (entry.isDirectory) pending.push(path);
      if (entry.isFile || entry.isDirectory || entry.isSymlink) continue;
      scan.special.push(path);
      if (READ_BY_GIT.has(entry.name.toLowerCase())) {
        throw new TaskdError("invalid_request", `Cannot collect the changes: ${JSON.stringify(path)} is no file`, {
          hint: "A task that puts a pipe or device in place of a file that git reads is refused",
        });
      }
    }
  }
  for (const found of Object.values(scan)) found.sort();
  return scan;
}

async function list(work_tree: string, directory: string, scan: Scan): Promise<Deno.DirEntry[]> {
  try {
    return await Array.fromAsync(Deno.readDir(directory === "" ? work_tree : `${work_tree}/${directory}`));
  } catch (error) {
    const errno = (error as { code?: string }).code;
    if (directory !== "" && (errno === "ENOENT" || errno === "ENAMETOOLONG")) {
      scan.opaque.push(directory);
      return [];
    }
    const attempted = `Cannot collect the changes: cannot read ${JSON.stringify(directory || ".")}`;
    throw new TaskdError(fileErrorCode(error), `${attempted}: ${messageOf(error)}`, { cause: error });
  }
}

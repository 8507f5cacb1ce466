/**
 * What a git directory of the broker's own may consist of: folders and plain files, and nothing that leads out of it.
 *
 * Git writes there, behind its wall, while it reads what is hostile. Before each further call, and before the broker
 * reads or writes there itself, this holds the directory to its form, so that what one call has become has no part in
 * the next: neither where that is bound to, nor what it obeys.
 */

import { TaskdError } from "../../lib/errors.ts";
import { lstatIfPresent, readTextOf, withFileError } from "../../lib/fs.ts";

/** Names that git would be led by, to other settings, objects or parents. */
const LEADING = new Set([
  "commondir",
  "gitdir",
  "config.worktree",
  "worktrees",
  "info/grafts",
  "objects/info/http-alternates",
]);
const ALTERNATES = "objects/info/alternates";
/** Git directories of the broker's inside one, which borrow its objects. */
const INNER = new Set(["text", "now"]);
/** Loose objects of the largest change, and more. */
const MAX_ENTRIES = 2_000_000;
const MAX_PATH_BYTES = 4_096;

/**
 * @param borrows The folder of objects that its alternates may name.
 * @throws {TaskdError} `corrupt` for one that has another form.
 */
export function requireOwnShape(git_dir: string, attempted: string, borrows?: string): void {
  const refuse = (name: string) => {
    throw new TaskdError("corrupt", `${attempted}: ${git_dir}/${name} is not the broker's`, {
      hint: "What git read has changed its directory; taskd retry begins again",
    });
  };
  let left = MAX_ENTRIES;
  const walk = (root: string, folder: string, lent: string | undefined) => {
    for (const entry of Deno.readDirSync(`${root}${folder}`)) {
      const name = `${folder.slice(1)}${folder === "" ? "" : "/"}${entry.name}`;
      const shown = `${root.slice(git_dir.length + 1)}${root === git_dir ? "" : "/"}${name}`;
      if (left-- === 0 || entry.isSymlink || !entry.isFile && !entry.isDirectory || LEADING.has(name)) refuse(shown);
      if (name === ALTERNATES && !names(`${root}/${name}`, lent)) refuse(shown);
      if (!entry.isDirectory) continue;
      if (root === git_dir && INNER.has(name)) walk(`${git_dir}/${name}`, "", `${git_dir}/objects`);
      else walk(root, `/${name}`, lent);
    }
  };
  withFileError(attempted, () => {
    const top = lstatIfPresent(git_dir);
    if (top !== undefined && !top.isDirectory) refuse("");
    if (top !== undefined) walk(git_dir, "", borrows);
  });
}

/** Whether a file of alternates names this folder, and no other. */
function names(path: string, folder: string | undefined): boolean {
  return folder !== undefined && readTextOf(path, MAX_PATH_BYTES) === `${folder}\n`;
}

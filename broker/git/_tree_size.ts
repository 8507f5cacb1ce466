/**
 * The size of a tree before anything is made of it. A few hundred bytes of objects can name a hundred million files: each
 * entry is counted as git walks the tree, which ends with the first that is too many.
 */

import { TaskdError } from "../../lib/errors.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { binary, pathText } from "./_records.ts";
import type { Git, GitRunOptions } from "./git.ts";

/** What a tree may have, folders included. As many entries as a work tree may have at its end, see _scan.ts. */
export const TREE_LIMITS = {
  entries: 1_000_000,
  /** Of all paths together. */
  name_bytes: 256 << 20,
  /** Of all files as they are checked out. */
  file_bytes: 32 * 2 ** 30,
} as const;

/** The longest that Linux opens, and the longest name in it. */
const MAX_PATH_BYTES = 4_095;
const MAX_NAME_BYTES = 255;

/**
 * Makes sure of a commit's tree.
 *
 * @throws {TaskdError} `too_large` with what it has too much of; as {@linkcode Git.run}.
 */
export async function requireTreeSize(
  git: Git,
  commit: string,
  run: GitRunOptions,
  limits: Record<keyof typeof TREE_LIMITS, number> = TREE_LIMITS,
): Promise<void> {
  let [entries, name_bytes, file_bytes] = [0, 0, 0];
  const refuse = (what: string) => {
    throw new TaskdError("too_large", `${run.attempted}: its tree has ${what}`, {
      hint: "Use a smaller repository, or a base without this",
    });
  };
  const count = (record: string) => {
    const tab = record.indexOf("\t");
    const path = record.slice(tab + 1);
    if (++entries > limits.entries) refuse(`more than ${limits.entries} files and folders`);
    if ((name_bytes += path.length) > limits.name_bytes) refuse(`more than ${formatBytes(limits.name_bytes)} of names`);
    const name_length = path.length - path.lastIndexOf("/") - 1;
    if (path.length > MAX_PATH_BYTES || name_length > MAX_NAME_BYTES) {
      const shown = JSON.stringify(pathText(path.slice(0, 100)));
      refuse(`a name that no file system takes: ${path.length} bytes, from ${shown} on`);
    }
    const size = Number(/ (\d+)$/.exec(record.slice(0, tab))?.[1] ?? 0);
    if ((file_bytes += size) > limits.file_bytes) refuse(`more than ${formatBytes(limits.file_bytes)} of files`);
  };
  let left = "";
  const onOutput = (chunk: Uint8Array) => {
    const records = (left + binary(chunk)).split("\0");
    left = records.pop()!;
    for (const record of records) count(record);
    // One that has not ended yet may be too long already.
    if (left.length > 2 * MAX_PATH_BYTES) count(left);
  };
  // Folders too: a tree of empty ones is as deep.
  await git.run(["ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit], { ...run, onOutput });
}

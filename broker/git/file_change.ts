/**
 * One changed path of a task, as git's raw diff describes it.
 */

import type { RawPath } from "./_records.ts";

/** What a work tree's file may have, in bytes: no source has it, and git holds a file in memory. */
export const MAX_FILE_BYTES: number = 256 << 20;

/**
 * Bytes from which on git takes a file for binary here: comparing one of many short lines takes forty times its size in
 * memory. Every line of such a file counts as changed.
 */
export const BIG_FILE_BYTES: number = 32 << 20;

export type ChangeStatus = "added" | "modified" | "deleted" | "type_changed";

/** What an added file was made from, as git finds it; the facts and the policy go by the two paths all the same. */
export interface MovedFrom {
  kind: "renamed" | "copied";
  path: string;
  /** How much is the same, in percent. */
  similarity: number;
}

/** A rename is a deletion and an addition. */
export interface FileChange {
  /** Relative to the repository; a byte that is no UTF-8 reads as U+FFFD and its hex. May hold anything: sanitise to show it. */
  path: string;
  /** The path's bytes in hex, where {@linkcode path} lacks some. */
  path_hex?: string;
  status: ChangeStatus;
  /** Octal mode of git, `000000` where there is nothing. */
  mode_before: string;
  mode_after: string;
  /** Object id, all zeros where there is nothing. */
  oid_before: string;
  oid_after: string;
  /** Lines; those of binary files count too. */
  added: number;
  deleted: number;
  /** Git takes one side for binary. */
  binary: boolean;
  from?: MovedFrom;
}

export interface RawChange {
  path: RawPath;
  change: FileChange;
}

/** What a diff's text has of changes, in its order: a rename is one file, and a change of type is a removal and an addition. */
export function diffFiles(files: readonly FileChange[]): { path: string; heads: 1 | 2 }[] {
  const renamed = new Set(files.flatMap(({ from }) => from?.kind === "renamed" ? [from.path] : []));
  return files.filter(({ path, status }) => status !== "deleted" || !renamed.has(path))
    .map(({ path, status }) => ({ path, heads: status === "type_changed" ? 2 : 1 }));
}

/**
 * One changed path of a task, as git's raw diff describes it.
 */

import type { RawPath } from "./_records.ts";

export type ChangeStatus = "added" | "modified" | "deleted" | "type_changed";

/** A rename is a deletion and an addition. */
export interface FileChange {
  /** Relative to the repository; bytes that are no UTF-8 read as U+FFFD. May hold anything: sanitise to show it. */
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
}

export interface RawChange {
  path: RawPath;
  change: FileChange;
}

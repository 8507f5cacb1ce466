/**
 * The diff that a person reads. It is for display alone: decisions rest on the facts of diff_facts.ts.
 */

import { diffFiles, type FileChange } from "./file_change.ts";
import type { Flag } from "./flags.ts";
import type { Git } from "./git.ts";
import { concat } from "../../lib/concat.ts";

export interface HumanDiffOptions {
  git_dir: string;
  /** Trees or commits. */
  before: string;
  after: string;
  max_bytes?: number;
  deadline_ms?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface HumanDiff {
  /** Bytes as git writes them: contents of files in any encoding, escape sequences included. Sanitise to show them. */
  bytes: Uint8Array<ArrayBuffer>;
  /** The change is longer than what is shown; the last line reports it. */
  truncated: boolean;
}

/** Renames and copies of changed files; beyond a thousand candidates a side, exact ones only. */
export const FIND_MOVES: readonly string[] = ["-M", "-C", "-l1000"];

/** As much as a browser renders and a person might read. */
export const MAX_DIFF_BYTES = 4 << 20;

/** The unified diff between two trees, cut after the last line that ends within `max_bytes`. */
export async function humanDiff(git: Git, options: HumanDiffOptions): Promise<HumanDiff> {
  const { git_dir, before, after, max_bytes = MAX_DIFF_BYTES, deadline_ms, signal } = options;
  const { stdout, truncated } = await git.run(
    ["diff-tree", "-r", "-p", ...FIND_MOVES, "--no-ext-diff", "--no-textconv", "--no-color", "--full-index"]
      .concat("--ignore-submodules=none", "--diff-algorithm=myers", before, after),
    {
      repository: { git_dir },
      attempted: "Cannot show the changes",
      max_bytes,
      on_excess: "cut",
      deadline_ms,
      signal,
    },
  );
  if (!truncated) return { bytes: stdout, truncated };
  const note = new TextEncoder().encode(`\\ cut here: the diff is longer than ${max_bytes} bytes\n`);
  const kept = stdout.subarray(0, stdout.lastIndexOf(10) + 1);
  return { bytes: concat([kept, note]), truncated };
}

/**
 * The files that a diff begins. No line of content begins as a file does: each has its sign before it. A carriage return
 * or U+2028 ends no line.
 */
export function countFiles(diff: string): number {
  return diff.split("\n").filter((line) => line.startsWith("diff --git ")).length;
}

/** The files of a diff that was cut whose end, or all of which, is not in it: each has to be acknowledged as unread. */
export function cutFiles(files: readonly FileChange[], { bytes, truncated }: HumanDiff): Flag[] {
  if (!truncated) return [];
  let left = countFiles(new TextDecoder().decode(bytes));
  return diffFiles(files).flatMap(({ path, heads }): Flag[] => {
    left -= heads;
    return left > 0 ? [] : [{ category: "cut_diff", path, detail: left > -heads ? "its end" : "all of it" }];
  });
}

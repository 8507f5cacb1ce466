/**
 * What a task changed, established on the host from an untrusted work tree.
 *
 * The facts are tree-to-tree: they describe exactly what a push would bring, never what a human diff chooses to show.
 * No attribute, filter, hook or setting inside the tree changes them. Their digest names the base commit, the tree and
 * every changed entry, so approving it approves one tree and no other.
 */

import { createHash } from "node:crypto";
import { nextTurn } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { readDetails } from "./_details.ts";
import { buildTree } from "./_index.ts";
import { bytesOf, isUtf8, pathText, type RawPath, splitRecords } from "./_records.ts";
import { type Scan, scanWorkTree } from "./_scan.ts";
import type { ChangeStatus, FileChange, RawChange } from "./file_change.ts";
import { type Flag, flagsOf } from "./flags.ts";
import type { Git, GitRunOptions } from "./git.ts";
import { textRepository } from "./staged_repository.ts";

export interface DiffFacts {
  base_commit: string;
  base_tree: string;
  /** Tree that a push would bring. */
  tree: string;
  /** In git's order. */
  files: FileChange[];
  files_changed: number;
  /** Added and deleted, of all files. */
  lines_changed: number;
  /** SHA-256 in hex; docs/explanation/approval.md defines its input. */
  diff_sha256: string;
  flags: Flag[];
}

export interface CollectOptions {
  git_dir: string;
  /** Nothing may write to it any more. */
  work_tree: string;
  base_commit: string;
  deadline_ms?: number | undefined;
  signal?: AbortSignal | undefined;
}

/** More than a person reads, and less than exhausts memory. */
const MAX_CHANGED_FILES = 250_000;

const STATUS: Readonly<Record<string, ChangeStatus>> = {
  A: "added",
  M: "modified",
  D: "deleted",
  T: "type_changed",
};
const ATTEMPTED = "Cannot collect the changes";

/**
 * Establishes the facts. The work tree is only read.
 *
 * @throws {TaskdError} `invalid_request` for a tree that cannot be described in full (a pipe as .gitignore, say), `too_large`,
 * `denied` for unreadable files, `timed_out`, and as {@linkcode Git.run}: the task then fails closed.
 */
export async function collectFacts(git: Git, options: CollectOptions): Promise<DiffFacts> {
  const { git_dir, work_tree, base_commit, deadline_ms, signal } = options;
  const run = {
    deadline_ms,
    signal,
  };
  const scan = await scanWorkTree(work_tree, signal);
  const { tree, paths, omitted } = await buildTree(git, { git_dir, work_tree, base_commit, scan, run });
  const bare: GitRunOptions = { ...run, repository: { git_dir }, attempted: ATTEMPTED };
  const base_tree = await git.text(["rev-parse", "--verify", `${base_commit}^{tree}`], bare);
  const { raw, changes } = await diffTrees(git, base_tree, tree, bare);
  const details = await readDetails(git, changes, { work_tree, paths, run: bare });
  const files = changes.map(({ change }) => change);
  const flags = [
    ...changes.flatMap(({ change, path }) => flagsOf(change, details.get(path)!)),
    ...scanFlags(scan, omitted),
  ];
  return {
    base_commit,
    base_tree,
    tree,
    files,
    files_changed: files.length,
    lines_changed: files.reduce((sum, { added, deleted }) => sum + added + deleted, 0),
    diff_sha256: digestOf(base_commit, base_tree, tree, raw),
    flags,
  };
}

/** The digest that an approval names: of the ids that bind the whole change, and git's own list of its entries. */
function digestOf(base_commit: string, base_tree: string, tree: string, raw: Uint8Array): string {
  const head = `taskd change 1\nbase ${base_commit}\nbase-tree ${base_tree}\ntree ${tree}\n`;
  return createHash("sha256").update(head).update(raw).digest("hex");
}

async function diffTrees(git: Git, base_tree: string, tree: string, run: GitRunOptions) {
  const diff = (format: string, repository = run.repository!) =>
    git.run(
      ["diff-tree", "-r", "-z", format, "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv"]
        .concat("--ignore-submodules=none", "--diff-algorithm=myers", base_tree, tree),
      { ...run, repository },
    );
  const [raw, stat, lines] = await Promise.all([
    diff("--raw"),
    diff("--numstat"),
    // The same once more where all is text: to numstat a NUL makes a file binary, and its lines would count for nothing.
    diff("--numstat", textRepository(run.repository!.git_dir)),
  ]);
  const binaries = new Set(
    splitRecords(stat.stdout).flatMap((record) => record.startsWith("-\t-\t") ? [record.slice(4)] : []),
  );
  const counts = new Map(
    splitRecords(lines.stdout).map((record) => {
      const match = /^(\d+)\t(\d+)\t(.*)$/s.exec(record);
      if (match === null) throw new TaskdError("too_large", `${ATTEMPTED}: the lines of a file cannot be counted`);
      return [match[3]!, { added: Number(match[1]), deleted: Number(match[2]) }];
    }),
  );
  const records = splitRecords(raw.stdout);
  const changes: RawChange[] = [];
  for (let at = 0; at + 1 < records.length; at += 2) {
    const path = records[at + 1]!;
    if (changes.length >= MAX_CHANGED_FILES) {
      throw new TaskdError("too_large", `${ATTEMPTED}: more than ${MAX_CHANGED_FILES} files are changed`);
    }
    if (changes.length % 10_000 === 9_999) await nextTurn();
    const count = counts.get(path);
    if (count === undefined) throw new TaskdError("internal", `${ATTEMPTED}: git lists ${pathText(path)} once only`);
    changes.push({ path, change: toChange(records[at]!, path, { ...count, binary: binaries.has(path) }) });
  }
  return { raw: raw.stdout, changes };
}

function toChange(
  record: string,
  path: RawPath,
  counts: Pick<FileChange, "added" | "deleted" | "binary">,
): FileChange {
  const match = /^:(\d{6}) (\d{6}) ([0-9a-f]+) ([0-9a-f]+) ([AMDT])$/.exec(record);
  if (match === null) throw new TaskdError("internal", `${ATTEMPTED}: git says ${JSON.stringify(record)}`);
  return {
    path: pathText(path),
    ...isUtf8(path) ? {} : { path_hex: bytesOf(path).toHex() },
    status: STATUS[match[5]!]!,
    mode_before: match[1]!,
    mode_after: match[2]!,
    oid_before: match[3]!,
    oid_after: match[4]!,
    ...counts,
  };
}

function scanFlags(scan: Scan, omitted: readonly RawPath[]): Flag[] {
  const nested = new Set(scan.nested_git);
  // What lies below a flagged .git is part of it.
  const rest = omitted.map(pathText).filter((path) => !prefixes(path).some((prefix) => nested.has(prefix)));
  const flags = (category: Flag["category"], paths: Iterable<string>): Flag[] =>
    Array.from(paths, (path) => ({ category, path }));
  return [
    ...flags("nested_git", nested),
    ...flags("nested_git", rest),
    ...flags("special_file", scan.special),
    ...flags("unscanned", scan.opaque),
  ];
}

function prefixes(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

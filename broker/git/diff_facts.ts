/**
 * What a task changed, established on the host from an untrusted work tree.
 *
 * The facts are tree-to-tree: they describe exactly what a push would bring, never what a human diff chooses to show.
 * No attribute, filter, hook or setting inside the tree changes them. Their digest names the base commit, the tree and
 * every changed entry, so it stands for one tree and no other.
 */

import { createHash } from "node:crypto";
import { nextTurn } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { blobSizes, readBlobs } from "./_blobs.ts";
import { readDetails } from "./_details.ts";
import { buildTree, type BuiltTree } from "./_index.ts";
import { bytesOf, isUtf8, pathText, type RawPath, splitRecords } from "./_records.ts";
import { type Scan, scanWorkTree } from "./_scan.ts";
import {
  BIG_FILE_BYTES,
  type ChangeStatus,
  type FileChange,
  MAX_FILE_BYTES,
  type MovedFrom,
  type RawChange,
} from "./file_change.ts";
import { GITLINK } from "./file_modes.ts";
import { type Flag, flagsOf } from "./flags.ts";
import { isCredentials } from "./watched_names.ts";
import type { Git, GitRunOptions } from "./git.ts";
import { FIND_MOVES } from "./human_diff.ts";
import { takeForBinary, textRepository } from "./staged_repository.ts";

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
  change_sha256: string;
  flags: Flag[];
}

export interface CollectOptions {
  git_dir: string;
  /** Nothing may write to it any more. */
  work_tree: string;
  base_commit: string;
  /** Larger files are left out; by default {@linkcode MAX_FILE_BYTES}. */
  max_file_bytes?: number;
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
  const { git_dir, work_tree, base_commit, max_file_bytes = MAX_FILE_BYTES, deadline_ms, signal } = options;
  const run = { deadline_ms, signal };
  const scan = await scanWorkTree(work_tree, { max_file_bytes, clock: git.clock, signal });
  const { tree, paths, omitted, left_out } = await buildTree(git, { git_dir, work_tree, base_commit, scan, run });
  const bare: GitRunOptions = { ...run, repository: { git_dir }, attempted: ATTEMPTED };
  const base_tree = await git.text(["rev-parse", "--verify", `${base_commit}^{tree}`], bare);
  const { raw, changes } = await diffTrees(git, base_tree, tree, bare);
  await findCopies(git, base_tree, changes, bare);
  const details = await readDetails(git, changes, { work_tree, paths, run: bare });
  const files = changes.map(({ change }) => change);
  const flags = [
    ...changes.flatMap(({ change, path }) => flagsOf(change, details.get(path)!)),
    ...scanFlags(scan, { omitted, left_out }),
  ];
  return {
    base_commit,
    base_tree,
    tree,
    files,
    files_changed: files.length,
    lines_changed: files.reduce((sum, { added, deleted }) => sum + added + deleted, 0),
    change_sha256: digestOf({ base_commit, base_tree, tree }, raw),
    flags,
  };
}

/** What a change is between. */
export type ChangeEnds = Pick<DiffFacts, "base_commit" | "base_tree" | "tree">;

/** `change_sha256` of what a repository has: of the ids that stand for the whole change, and git's list of its entries. */
export async function changeDigest(
  git: Git,
  git_dir: string,
  ends: ChangeEnds,
  signal: AbortSignal | undefined,
): Promise<string> {
  const run = { repository: { git_dir }, attempted: ATTEMPTED, signal };
  return digestOf(ends, (await git.run([...diffTreeArgs("--raw"), ends.base_tree, ends.tree], run)).stdout);
}

function digestOf({ base_commit, base_tree, tree }: ChangeEnds, raw: Uint8Array): string {
  const head = `taskd change 1\nbase ${base_commit}\nbase-tree ${base_tree}\ntree ${tree}\n`;
  return createHash("sha256").update(head).update(raw).digest("hex");
}

function diffTreeArgs(format: string, moves: readonly string[] = ["--no-renames"]): string[] {
  return ["diff-tree", "-r", "-z", format, "--no-abbrev", ...moves, "--no-ext-diff", "--no-textconv"]
    .concat("--ignore-submodules=none", "--diff-algorithm=myers");
}

async function diffTrees(git: Git, base_tree: string, tree: string, run: GitRunOptions) {
  const diff = (format: string, repository = run.repository!, moves?: readonly string[]) =>
    git.run(
      [...diffTreeArgs(format, moves), base_tree, tree],
      { ...run, repository },
    );
  const raw = await diff("--raw");
  const records = splitRecords(raw.stdout);
  const big = await countBig(git, records, run);
  await takeForBinary(run.repository!.git_dir, [...big.keys()]);
  const [moved, stat, lines] = await Promise.all([
    diff("--raw", run.repository!, FIND_MOVES),
    diff("--numstat"),
    // The same once more where all is text: to numstat a NUL makes a file binary, and its lines would count for nothing.
    diff("--numstat", textRepository(run.repository!.git_dir)),
  ]);
  const binaries = new Set(
    splitRecords(stat.stdout).flatMap((record) => record.startsWith("-\t-\t") ? [record.slice(4)] : []),
  );
  const counts = new Map(
    splitRecords(lines.stdout).map((record) => {
      const [, added, deleted, path = ""] = /^(\d+|-)\t(\d+|-)\t(.*)$/s.exec(record) ?? [];
      const count = added === "-" ? big.get(path) : { added: Number(added), deleted: Number(deleted) };
      if (count === undefined) {
        throw new TaskdError("internal", `${ATTEMPTED}: git counts no lines of ${pathText(path)}`);
      }
      return [path, count];
    }),
  );
  const from = readMoves(splitRecords(moved.stdout));
  const changes: RawChange[] = [];
  for (let at = 0; at + 1 < records.length; at += 2) {
    const path = records[at + 1]!;
    if (changes.length >= MAX_CHANGED_FILES) {
      throw new TaskdError("too_large", `${ATTEMPTED}: more than ${MAX_CHANGED_FILES} files are changed`);
    }
    if (changes.length % 10_000 === 9_999) await nextTurn();
    const count = counts.get(path);
    if (count === undefined) throw new TaskdError("internal", `${ATTEMPTED}: git lists ${pathText(path)} once only`);
    const origin = from.get(path);
    changes.push({
      path,
      change: {
        ...toChange(records[at]!, path, { ...count, binary: binaries.has(path) }),
        ...origin === undefined ? {} : { from: origin },
      },
    });
  }
  return { raw: raw.stdout, changes };
}

/** The lines on both sides of changes that are too big for git to compare, by path. */
async function countBig(git: Git, records: readonly RawPath[], run: GitRunOptions) {
  const sides = records.flatMap((record, at) => {
    if (at % 2 === 1) return [];
    const [, mode_before, mode_after, before = "", after = ""] = /^:(\d+) (\d+) (\w+) (\w+) /.exec(record) ?? [];
    const hasBlob = (mode: string | undefined, oid: string) => mode !== GITLINK && !/^0+$/.test(oid);
    const oids = [hasBlob(mode_before, before) ? before : "", hasBlob(mode_after, after) ? after : ""] as const;
    return [{ path: records[at + 1]!, oids }];
  });
  const known = (list: typeof sides) => [...new Set(list.flatMap(({ oids }) => oids))].filter((oid) => oid !== "");
  const sizes = await blobSizes(git, known(sides), run);
  const big = sides.filter(({ oids }) => oids.some((oid) => (sizes.get(oid) ?? 0) >= BIG_FILE_BYTES));
  const blobs = await readBlobs(git, known(big), { head_bytes: 0, run });
  const linesOf = (oid: string) => blobs.get(oid)?.lines ?? 0;
  return new Map(
    big.map(({ path, oids: [before, after] }) => [path, { added: linesOf(after), deleted: linesOf(before) }]),
  );
}

/** What git takes for renamed and copied, by where it went. */
function readMoves(records: readonly RawPath[]): Map<RawPath, MovedFrom> {
  const found = new Map<RawPath, MovedFrom>();
  for (let at = 0; at + 1 < records.length; at += 2) {
    const [, letter, similarity] = / ([RC])(\d+)$/.exec(records[at]!) ?? [];
    if (letter === undefined) continue;
    const kind = letter === "R" ? "renamed" : "copied";
    found.set(records[at + 2]!, { kind, path: pathText(records[at + 1]!), similarity: Number(similarity) });
    at++;
  }
  return found;
}

/** Adds what git does not look for: exact copies of files that did not change. */
async function findCopies(git: Git, base_tree: string, changes: readonly RawChange[], run: GitRunOptions) {
  const added = changes.map(({ change }) => change).filter(({ status, from, added, binary, mode_after }) =>
    status === "added" && from === undefined && (added > 0 || binary) && mode_after !== GITLINK
  );
  const origins = new Map<string, string | undefined>(added.map(({ oid_after }) => [oid_after, undefined]));
  if (origins.size === 0) return;
  const { stdout } = await git.run(["ls-tree", "-r", "-z", base_tree], run);
  for (const record of splitRecords(stdout)) {
    const tab = record.indexOf("\t");
    const oid = record.slice(record.lastIndexOf(" ", tab) + 1, tab);
    if (!origins.has(oid)) continue;
    const path = pathText(record.slice(tab + 1));
    // Of several files with that content, one with a name for secrets.
    if (origins.get(oid) === undefined || isCredentials(path)) origins.set(oid, path);
  }
  for (const change of added) {
    const path = origins.get(change.oid_after);
    if (path !== undefined) change.from = { kind: "copied", path, similarity: 100 };
  }
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

function scanFlags(scan: Scan, { omitted, left_out }: Pick<BuiltTree, "omitted" | "left_out">): Flag[] {
  const nested = new Set(scan.nested_git.map(pathText));
  // What lies below a flagged .git is part of it.
  const rest = omitted.map(pathText).filter((path) => !prefixes(path).some((prefix) => nested.has(prefix)));
  const flags = (category: Flag["category"], paths: Iterable<string>): Flag[] =>
    Array.from(paths, (path) => ({ category, path }));
  return [
    ...flags("nested_git", nested),
    ...flags("nested_git", rest),
    ...flags("special_file", scan.special.map(pathText)),
    ...flags("unscanned", scan.opaque.map(pathText)),
    ...left_out.map((path): Flag => ({
      category: "left_out",
      path: pathText(path),
      detail: scan.too_large.get(path)!,
    })),
  ];
}

function prefixes(path: string): string[] {
  const parts = path.split("/");
  return parts.map((_, at) => parts.slice(0, at + 1).join("/"));
}

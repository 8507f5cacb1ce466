/**
 * Scans a hostile work tree before git reads it: what git skips without a word (pipes, sockets, devices, every
 * `.git`) is found here, and what would block git forever is refused.
 *
 * Names that are no UTF-8 cannot be looked up from here: a tree that has one is looked over once more, by `find`.
 */

import type { Clock } from "../../lib/clock.ts";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import { fileErrorCode, look } from "../../lib/fs.ts";
import { runProcess } from "../../lib/process.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { isGitName } from "../../lib/text/git_name.ts";
import { isUtf8, pathText, type RawPath, rawPath, splitRecords } from "./_records.ts";

/** What was found; paths are relative to the tree. */
export interface Scan {
  special: RawPath[];
  /** Entries that git or a file system reads as `.git`. */
  nested_git: RawPath[];
  /** Directories that could not be read, because their paths are too long. */
  opaque: RawPath[];
  /** Files of more than `max_file_bytes`, with their size as it appears: a file with holes takes git as long. */
  too_large: Map<RawPath, string>;
  /** Files below names that are no UTF-8, with at most twice the size that they appear to have. */
  unnamed_bytes: Map<RawPath, number>;
}

/** A million entries is more than any real work tree has, dependencies included. */
const MAX_ENTRIES = 1_000_000;
/** Files that git opens while it walks: a pipe in their place would make it wait for a writer. */
const READ_BY_GIT = new Set([".gitignore", ".gitattributes", ".gitmodules"]);
const FIND_PATH = "/usr/bin/find";
const FIND_DEADLINE_MS = 600_000;
const MAX_FIND_BYTES = 256 << 20;
/** Powers of two between which a size is known: from a block to more than `max_file_bytes` may be. */
const LEAST_BITS = 12;
const SIZE_BITS = 30;
/** Bytes of the longest path that Linux and git open. */
const MAX_PATH_BYTES = 4_095;

interface ScanOptions {
  max_file_bytes: number;
  clock: Clock;
  signal?: AbortSignal | undefined;
}

/**
 * Walks the tree; links are not followed.
 *
 * @throws {TaskdError} `denied` for a directory that cannot be read, `too_large` for a tree that is too large to look
 * over, `invalid_request` for a pipe, device or too large a file where git would read one; as `runProcess` does.
 */
export async function scanWorkTree(work_tree: string, options: ScanOptions): Promise<Scan> {
  const { max_file_bytes, signal } = options;
  const scan: Scan = { special: [], nested_git: [], opaque: [], too_large: new Map(), unnamed_bytes: new Map() };
  const pending = [""];
  let entries = 0;
  let unnamed = false;
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    signal?.throwIfAborted();
    const prefix = directory === "" ? "" : `${directory}/`;
    for (const entry of await list(work_tree, directory, scan)) {
      if (++entries > MAX_ENTRIES) throw tooMany();
      if (entry.name.includes("\ufffd")) {
        unnamed = true;
        continue;
      }
      const path = `${prefix}${entry.name}`;
      if (isGitName(entry.name)) scan.nested_git.push(rawPath(path));
      else if (entry.isDirectory) pending.push(path);
      if (entry.isDirectory || entry.isSymlink) continue;
      // 0 for a file that is gone: nothing may write to the tree, and git reads none that is not there.
      const size = entry.isFile ? look(`${work_tree}/${path}`)?.size ?? 0 : undefined;
      if (size !== undefined && size <= max_file_bytes) continue;
      note(scan, rawPath(path), size === undefined ? undefined : formatBytes(size));
    }
  }
  if (unnamed) await findUnnamed(work_tree, scan, options);
  for (const found of [scan.special, scan.nested_git, scan.opaque]) found.sort();
  return scan;
}

/** Adds what lies at or below names that are no UTF-8, by walks of `find`, which looks at no content. */
async function findUnnamed(work_tree: string, scan: Scan, { max_file_bytes, clock, signal }: ScanOptions) {
  const find = async (...test: string[]): Promise<RawPath[]> => {
    const attempted = "Cannot collect the changes: cannot look over the work tree";
    const { code, stdout, stderr } = await runProcess(FIND_PATH, {
      args: [".", ...test, ...test.at(-1) === "-print0" ? [] : ["-print0"]],
      cwd: work_tree,
      deadline_ms: FIND_DEADLINE_MS,
      max_bytes: MAX_FIND_BYTES,
      clock,
      signal,
      attempted,
    });
    if (code !== 0) throw new TaskdError("denied", `${attempted}: ${JSON.stringify(stderr.slice(0, 1_000))}`);
    const paths = splitRecords(stdout).map((path) => path.slice(2));
    if (!test.includes("-size") && paths.length > MAX_ENTRIES) throw tooMany();
    return paths.filter((path) => !isUtf8(path) || path.includes("\xef\xbf\xbd"));
  };
  const names = await find();
  const in_git = (path: RawPath) => pathText(path).split("/").slice(0, -1).some(isGitName);
  for (const path of names) {
    if (isGitName(pathText(path).split("/").at(-1)!) && !in_git(path)) scan.nested_git.push(path);
    if (path.length > MAX_PATH_BYTES) scan.opaque.push(path);
  }
  for (const path of await find("!", "-type", "f", "!", "-type", "d", "!", "-type", "l")) {
    if (!in_git(path)) note(scan, path, undefined);
  }
  for (const path of await find("-type", "f", "-size", `+${max_file_bytes}c`)) {
    if (!in_git(path)) note(scan, path, `more than ${formatBytes(max_file_bytes)}`);
  }
  // A file is listed once for each power of two that it is beyond.
  const powers = Array.from({ length: SIZE_BITS - LEAST_BITS }, (_, at) => 2 ** (LEAST_BITS + at));
  for (const path of await find("-type", "f", ...powers.flatMap((size) => ["-size", `+${size}c`, "-print0"]))) {
    scan.unnamed_bytes.set(path, 2 * (scan.unnamed_bytes.get(path) ?? 2 ** LEAST_BITS));
  }
}

/** Notes a file that is left out: for its size, or as a pipe, socket or device. */
function note(scan: Scan, path: RawPath, size: string | undefined): void {
  if (size === undefined) scan.special.push(path);
  else scan.too_large.set(path, size);
  if (!READ_BY_GIT.has(path.slice(path.lastIndexOf("/") + 1).toLowerCase())) return;
  const what = size === undefined ? "no file" : `a file of ${size}`;
  throw new TaskdError("invalid_request", `Cannot collect the changes: ${JSON.stringify(pathText(path))} is ${what}`, {
    hint: "A task that puts a pipe, device or large file in place of a file that git reads is refused",
  });
}

function tooMany(): TaskdError {
  return new TaskdError("too_large", `Cannot collect the changes: the work tree has over ${MAX_ENTRIES} entries`);
}

async function list(work_tree: string, directory: string, scan: Scan): Promise<Deno.DirEntry[]> {
  try {
    return await Array.fromAsync(Deno.readDir(directory === "" ? work_tree : `${work_tree}/${directory}`));
  } catch (error) {
    if (directory !== "" && (error as { code?: string }).code === "ENAMETOOLONG") {
      scan.opaque.push(rawPath(directory));
      return [];
    }
    const attempted = `Cannot collect the changes: cannot read ${JSON.stringify(directory || ".")}`;
    throw new TaskdError(fileErrorCode(error), `${attempted}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Folders that untrusted programs have filled: made fit to keep, copied. No link is ever followed and no
 * special file opened.
 *
 * Nothing may write to a folder meanwhile; the sandbox that did has ended.
 */

import { join } from "@std/path/join";
import type { Clock } from "../../lib/clock.ts";
import { type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { fsyncTree, withFileError } from "../../lib/fs.ts";
import { inParallel } from "../../lib/in_parallel.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { runProcess } from "../../lib/process.ts";

const MAX_ENTRIES = 2_000_000;
const MAX_DEPTH = 100;
/** Characters of a path that are kept: in any script less than the 4,096 bytes that systems take. */
const MAX_PATH_LENGTH = 1_300;
const PARALLEL = 16;

/** The block size of most file systems: every file takes at least one block. */
const BLOCK_BYTES = 4_096;

/** Copies a tree; with these flags of GNU's and macOS's, blocks are shared where the file system can do that. */
const CP_PATH = "/bin/cp";
const CP_ARGS = Deno.build.os === "darwin" ? ["-cRPp"] : ["-RPp", "--reflink=auto"];
/** Tens of gigabytes on a slow disk. */
const COPY_DEADLINE_MS = 30 * 60_000;
const MAX_COPY_OUTPUT_BYTES = 64 << 10;
const COMPLAINTS: readonly (readonly [RegExp, ErrorCode])[] = [
  [/No space left|Disk quota exceeded/, "no_space"],
  [/Permission denied|Read-only file system|Operation not permitted/, "denied"],
  [/No such file|Not a directory/, "not_found"],
];

export interface CopyOptions {
  clock: Clock;
  signal?: AbortSignal | undefined;
}

/** Calls `visit` for each entry of a tree; for a folder before its contents. */
async function walk(root: string, visit: (path: string, info: Deno.FileInfo) => Promise<void>): Promise<void> {
  const folders = [{ path: root, depth: 0 }];
  let entries = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const { path: parent, depth } = folder;
    const names: string[] = [];
    for await (const { name } of Deno.readDir(parent)) names.push(name);
    entries += names.length;
    if (entries > MAX_ENTRIES) throw new TaskdError("too_large", `${root} has more than ${MAX_ENTRIES} entries`);
    await inParallel(names, PARALLEL, async (name) => {
      const path = join(parent, name);
      const info = await Deno.lstat(path);
      if (info.isDirectory && (depth + 1 >= MAX_DEPTH || path.length - root.length > MAX_PATH_LENGTH)) {
        throw new TaskdError("too_large", `${root} has more than ${MAX_DEPTH} levels, or too long paths`);
      }
      await visit(path, info);
      if (info.isDirectory) folders.push({ path, depth: depth + 1 });
    });
  }
}

/** Sets the mode bits that the owner needs and clears set-user-id, set-group-id and the sticky bit. */
async function settleMode(path: string, info: Deno.FileInfo, needed: number): Promise<void> {
  const mode = info.mode === null ? needed : info.mode & 0o7777;
  const next = mode & 0o777 | needed;
  if (next !== mode) await Deno.chmod(path, next);
}

/**
 * Makes a folder fit to be kept: pipes, sockets and devices are removed, permission bits that a copy could not live
 * with are put right, everything is on the disk.
 *
 * @returns Bytes that a copy of it takes: whole blocks, and for each name of a file all of its length, so that neither
 * holes nor hard links nor empty files make it look smaller.
 * @throws {TaskdError} `too_large` when it has too many entries or levels; `not_found` for names that are not UTF-8;
 * `no_space`, `denied`, `unavailable`.
 */
export async function settleTree(root: string): Promise<number> {
  let blocks = 0;
  return await withFileError(`Cannot keep ${root}`, async () => {
    await Deno.chmod(root, 0o700);
    await walk(root, async (path, info) => {
      if (!info.isDirectory && !info.isFile && !info.isSymlink) return await Deno.remove(path);
      if (!info.isSymlink) await settleMode(path, info, info.isDirectory ? 0o700 : 0o600);
      blocks += info.isFile ? Math.max(1, Math.ceil(info.size / BLOCK_BYTES)) : 1;
    });
    await fsyncTree(root);
    return blocks * BLOCK_BYTES;
  });
}

/**
 * Copies a settled folder into `target`, which is an empty one. Blocks are shared where the file system can; a change
 * to the copy never reaches the original. Links are copied as they are, and owners and times too.
 *
 * `cp` does it: a process whose permissions are for some paths cannot make links.
 *
 * @throws {TaskdError} `not_found`, `denied`, `no_space`, `timed_out` or `unavailable`; the signal's reason.
 */
export async function copyTree(source: string, target: string, options: CopyOptions): Promise<void> {
  const attempted = `Cannot copy ${source}`;
  const { code, stderr } = await runProcess(CP_PATH, {
    args: [...CP_ARGS, "--", `${source}/.`, `${target}/`],
    env: { PATH: "/usr/bin:/bin", LC_ALL: "C" },
    deadline_ms: COPY_DEADLINE_MS,
    max_bytes: MAX_COPY_OUTPUT_BYTES,
    on_excess: "cut",
    clock: options.clock,
    attempted,
    signal: options.signal,
  });
  if (code === 0) return;
  const complaint = sanitizeLine(stderr.trim().split("\n").at(-1)!).slice(0, 300);
  throw new TaskdError(
    COMPLAINTS.find(([pattern]) => pattern.test(stderr))?.[1] ?? "unavailable",
    `${attempted}: ${complaint}`,
  );
}

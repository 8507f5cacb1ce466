/**
 * What more than one module needs of the file system: durable writes, strict block clones, and what a file error means.
 *
 * A durable write is temp file, fsync, rename, fsync of the directory: after it has returned, a crash of the machine
 * leaves the new content; at any moment before, the old or the new, never a part of one.
 */

import { randomHex, systemRandom } from "./clock.ts";
import { inParallel } from "./in_parallel.ts";
import { parentOf } from "./real_path.ts";
import { type ErrorCode, machineError, messageOf, TaskdError } from "./errors.ts";

export type FileErrorCode = Extract<
  ErrorCode,
  "not_found" | "already_exists" | "denied" | "no_space" | "unavailable"
>;

const ERRNO: Readonly<Record<string, FileErrorCode>> = {
  ENOENT: "not_found",
  ENOTDIR: "not_found",
  EEXIST: "already_exists",
  EACCES: "denied",
  EPERM: "denied",
  ELOOP: "denied",
  EISDIR: "denied",
};

/** What `error`, thrown by a file call, means; `unavailable` when it is none of the known ones. */
export function fileErrorCode(error: unknown): FileErrorCode {
  if (error instanceof Deno.errors.NotCapable) return "denied";
  const errno = error instanceof Error ? (error as Error & { code?: unknown }).code : undefined;
  if (typeof errno === "string" && Object.hasOwn(ERRNO, errno)) return ERRNO[errno]!;
  return machineError(error)?.code as FileErrorCode | undefined ?? "unavailable";
}

const DENIED_HINT = "Check the owner and mode of the path, and that its file system is mounted writable";

/** `error`, thrown by a file call, as an error for people; `attempted` begins its message: `Cannot write /a/b`. */
export function fileError(error: unknown, attempted: string): TaskdError {
  if (error instanceof TaskdError) return error;
  const code = fileErrorCode(error);
  const is_directory = (error as { code?: unknown } | undefined)?.code === "EISDIR";
  const denied = is_directory ? "Move the directory away" : DENIED_HINT;
  const hint = machineError(error)?.hint ?? (code === "denied" ? denied : undefined);
  return new TaskdError(code, `${attempted}: ${messageOf(error)}`, { cause: error, hint });
}

/** What `work` gives, now or later; what it throws becomes a {@linkcode fileError}. */
export function withFileError<T>(attempted: string, work: () => T): T {
  const refuse = (error: unknown): never => {
    throw fileError(error, attempted);
  };
  try {
    const result = work();
    return result instanceof Promise ? result.catch(refuse) as T : result;
  } catch (error) {
    return refuse(error);
  }
}

/**
 * Makes the names in a directory durable: files created, renamed or removed there before the call. Throws the system's
 * errors as they are.
 */
export async function fsyncDirectory(path: string): Promise<void> {
  const directory = Deno.openSync(path);
  try {
    // Asynchronous, because a slow disk may take long: timers, lease renewals among them, go on meanwhile.
    await directory.sync();
  } finally {
    directory.close();
  }
}

/** Forces a file's bytes to disk. Not a checkout that SQLite has open in this process. Throws the system's errors as they are. */
export async function fsyncFile(path: string): Promise<void> {
  using file = Deno.openSync(path, { write: true });
  await file.sync();
}

/**
 * Makes a directory (0700) and those above it that are missing; their names are durable when this returns, as far as
 * this process may open the directories that they are in. Throws the system's errors as they are.
 */
export function makeDirectories(path: string): void {
  const missing: string[] = [];
  // Not through isThere: a dangling link is for mkdir to refuse.
  for (let above = path; above !== "/" && !isDirectory(above); above = parentOf(above)) missing.push(above);
  Deno.mkdirSync(path, { recursive: true, mode: 0o700 });
  for (const made of missing) {
    try {
      using parent = Deno.openSync(parentOf(made));
      parent.syncSync();
    } catch (error) {
      // Permissions may cover the directory alone.
      if (!(error instanceof Deno.errors.NotCapable)) throw error;
    }
  }
}

/**
 * The names in a folder; none where there is no folder.
 *
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export function namesIn(folder: string): string[] {
  try {
    return Array.from(Deno.readDirSync(folder), ({ name }) => name);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return [];
    throw fileError(error, `Cannot look into ${folder}`);
  }
}

/** Whether a folder has that name or a link leads to one; what cannot be inspected counts as none. */
export function isDirectory(path: string): boolean {
  return look(path, Deno.statSync)?.isDirectory ?? false;
}

/** Whether a file has that name or a link leads to one; what cannot be inspected counts as none. */
export function isFile(path: string): boolean {
  return look(path, Deno.statSync)?.isFile ?? false;
}

/** What has that name; undefined also for what cannot be inspected. */
export function look(
  path: string,
  inspect: (path: string) => Deno.FileInfo = Deno.lstatSync,
): Deno.FileInfo | undefined {
  try {
    return inspect(path);
  } catch {
    return undefined;
  }
}

/** Files and directories that {@linkcode fsyncTree} handles at the same time. */
const PARALLEL_SYNCS = 16;

/**
 * Makes everything below a directory durable that other programs have written there: contents, names, and the
 * directory itself, but not its own name. Links and special files are not followed. Throws the system's errors as they
 * are.
 */
export async function fsyncTree(directory: string): Promise<void> {
  const folders = [directory];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    const entries = await Array.fromAsync(Deno.readDir(folder));
    for (const { name, isDirectory } of entries) if (isDirectory) folders.push(`${folder}/${name}`);
    await inParallel(entries.filter(({ isFile }) => isFile), PARALLEL_SYNCS, async ({ name }) => {
      using file = await Deno.open(`${folder}/${name}`);
      await file.sync();
    });
    await fsyncDirectory(folder);
  }
}

/** Writes all of `bytes` to a file or a connection; a call of `write` may take fewer. */
export async function writeAll(file: Pick<Deno.FsFile, "write">, bytes: Uint8Array): Promise<void> {
  for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
}

/** {@linkcode writeAll} without leaving the event loop's turn: faster for a few kilobytes, which only reach the page cache. */
export function writeAllSync(file: Deno.FsFile, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length;) done += file.writeSync(bytes.subarray(done));
}

/** Reads until `bytes` is full or the file is over; a call of `readSync` may give fewer. Returns how many there were. */
export function fillSync(file: Pick<Deno.FsFile, "readSync">, bytes: Uint8Array): number {
  let done = 0;
  while (done < bytes.length) {
    const count = file.readSync(bytes.subarray(done));
    if (count === null) break;
    done += count;
  }
  return done;
}

/**
 * Removes a file that may be gone already.
 *
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export function removeIfPresent(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (fileErrorCode(error) !== "not_found") throw fileError(error, `Cannot remove ${path}`);
  }
}

/**
 * Removes a file or a folder of few levels that may be gone already; `removeTree` is for what a stranger wrote.
 *
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export async function removeFolder(path: string): Promise<void> {
  try {
    await Deno.remove(path, { recursive: true });
  } catch (error) {
    if (fileErrorCode(error) !== "not_found") throw fileError(error, `Cannot remove ${path}`);
  }
}

export function discard(path: string): void {
  try {
    removeIfPresent(path);
  } catch {
    // A sweep finds it later.
  }
}

/**
 * Releases the lock on `file` and closes it. Closing is not enough: a process that is being started at that very
 * moment has a copy of every descriptor until it runs its program, and with the copy the lock.
 */
export function unlockAndClose(file: Deno.FsFile): void {
  try {
    file.unlockSync();
  } finally {
    file.close();
  }
}

/** Whether `path` still names the open `file`: a person may have removed a lock file before it was locked. */
export function isStillAt(file: Deno.FsFile, path: string): boolean {
  try {
    const [mine, there] = [file.statSync(), Deno.lstatSync(path)];
    return mine.ino === there.ino && mine.dev === there.dev;
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return false;
    throw error;
  }
}

/** What has that name, a link itself; undefined when nothing has. Throws the file system's other errors as they are. */
export function lstatIfPresent(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return undefined;
    throw error;
  }
}

/**
 * Whether anything has that name, a dangling link included. What cannot be inspected counts as not
 * there: for callers whose next step fails with the reason.
 */
export function isThere(path: string): boolean {
  return look(path) !== undefined;
}

/**
 * Whether anything has that name, a dangling link included: `exists` of `@std/fs` follows links.
 *
 * @throws {TaskdError} When the path cannot be inspected.
 */
export function exists(path: string): boolean {
  return withFileError(`Cannot inspect ${path}`, () => lstatIfPresent(path) !== undefined);
}

/** Makes the new, empty file `path` (0600), for SQLite to fill: its own errors name no reason. */
export function createEmptyFile(path: string): void {
  withFileError(
    `Cannot write ${path}`,
    () => Deno.openSync(path, { write: true, createNew: true, mode: 0o600 }).close(),
  );
}

/**
 * Replaces or creates the file at `path` durably. Not for a database that SQLite has open.
 *
 * @param mode Permission bits of the file, for example `0o600`.
 * @throws {TaskdError} `no_space`, `denied`, `not_found` (the directory) or `unavailable`; the old file is then as it was.
 */
export async function writeFileAtomic(path: string, bytes: Uint8Array, mode: number): Promise<void> {
  const temporary = `${path}.${randomHex(systemRandom, 8)}.tmp`;
  try {
    // Loaded here: the command line imports this file and writes nothing.
    const { dirname } = await import("node:path/posix");
    const file = Deno.openSync(temporary, { write: true, createNew: true, mode });
    try {
      await writeAll(file, bytes);
      await file.sync();
    } finally {
      file.close();
    }
    Deno.renameSync(temporary, path);
    await fsyncDirectory(dirname(path));
  } catch (error) {
    discard(temporary);
    throw fileError(error, `Cannot write ${path}`);
  }
}

/** How {@linkcode writeFileAtomic} names what it has not finished. */
const UNFINISHED = /\.[0-9a-f]{16}\.tmp$/;

/**
 * Removes what calls of {@linkcode writeFileAtomic} have left in `directory` whose process was killed. Only for a directory
 * that no process writes to now; a missing directory is no error.
 *
 * @returns The names of what was removed.
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export function removeUnfinished(directory: string): string[] {
  try {
    const names = Array.from(Deno.readDirSync(directory)).filter(({ name, isFile }) => isFile && UNFINISHED.test(name))
      .map(({ name }) => name);
    for (const name of names) removeIfPresent(`${directory}/${name}`);
    return names;
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return [];
    throw fileError(error, `Cannot clear ${directory}`);
  }
}

export interface CloneOptions {
  /** Absolute path of `cp`; by default where the system keeps it. Spell it as `--allow-run` does. */
  cp_path?: string;
}

const DARWIN = Deno.build.os === "darwin";

/** Where `cp` is, most usual place first. */
const CP_PATHS = DARWIN ? ["/bin/cp"] : ["/usr/bin/cp", "/bin/cp"];

/** Runs `cp` so that it clones or fails; undefined when there is no `cp` that may be run. */
async function strictCopy(source: string, target: string, options: CloneOptions): Promise<string | undefined> {
  const how = DARWIN ? "-c" : "--reflink=always";
  for (const command of options.cp_path === undefined ? CP_PATHS : [options.cp_path]) {
    try {
      const { success, stderr } = await new Deno.Command(command, {
        args: [how, "--", source, target],
        env: { LC_ALL: "C" },
        stdin: "null",
        stdout: "null",
        stderr: "piped",
      }).output();
      return success ? "" : new TextDecoder().decode(stderr).trim() || "cp failed without a word";
    } catch (error) {
      if (!["not_found", "denied"].includes(fileErrorCode(error))) throw error;
    }
  }
  return undefined;
}

const COMPLAINTS: readonly (readonly [RegExp, FileErrorCode])[] = [
  [/No space left|Disk quota exceeded/, "no_space"],
  [/Permission denied|Read-only file system|Operation not permitted/, "denied"],
  [/No such file/, "not_found"],
];

/**
 * Makes the new file `target` share the blocks of `source`, or fails: it never copies bytes. It works in a subprocess,
 * so no descriptor of `source` is closed in this process, which would drop SQLite's locks on it. The clone is not yet
 * durable. The mode of `target` is that of `source`, less the umask.
 *
 * @throws {TaskdError} `already_exists` when `target` does, `not_found`, `no_space`, `denied`, or `unavailable` when the
 * file system cannot clone or there is no `cp` that may be run.
 */
export async function cloneFile(source: string, target: string, options: CloneOptions = {}): Promise<void> {
  const attempted = `Cannot clone ${source} to ${target}`;
  if (exists(target)) throw new TaskdError("already_exists", `${attempted}: the target exists`);
  const { dirname } = await import("node:path/posix");
  // cp itself would write over a target that has come up meanwhile; a link does not.
  const temporary = `${dirname(target)}/${temporaryName()}`;
  try {
    const complaint = await strictCopy(source, temporary, options);
    if (complaint !== "") {
      const code = COMPLAINTS.find(([pattern]) => pattern.test(complaint ?? ""))?.[1] ?? "unavailable";
      throw new TaskdError(code, `${attempted}: ${complaint ?? "no cp that this process may run"}`);
    }
    Deno.linkSync(temporary, target);
  } catch (error) {
    throw fileError(error, attempted);
  } finally {
    discard(temporary);
  }
}

/** As temporary files of a store are named, so that what a killed process leaves is swept with them. */
function temporaryName(): string {
  return `.${randomHex(systemRandom, 8)}.tmp`;
}

/** File systems that never share blocks (ext2-4, tmpfs), by the magic numbers of statfs(2): these need no probe. */
const NEVER_CLONE: ReadonlySet<number> = new Set([0xef53, 0x01021994]);

const probes = new Map<string, Promise<boolean>>();

/**
 * Whether files in `directory` can share blocks with each other. Asked once per directory and process, by a clone of
 * a small file there; false when that cannot be tried (nothing may be written or run).
 */
export function clonable(directory: string, options: CloneOptions = {}): Promise<boolean> {
  let device: number;
  try {
    device = Deno.lstatSync(directory).dev;
  } catch {
    return Promise.resolve(false);
  }
  // The device is part of the name: another file system may be mounted here later.
  const name = JSON.stringify([device, directory, options.cp_path]);
  return probes.getOrInsertComputed(name, () => probeClone(directory, options));
}

/** Bytes that this user may still write in the file system of `directory`; needs `--allow-sys=statfs` and reading. */
export async function freeBytes(directory: string): Promise<number> {
  return (await fileSystemBytes(directory)).free;
}

/** The same, and all that the file system has; needs the same. */
export async function fileSystemBytes(directory: string): Promise<{ free: number; total: number }> {
  const { statfsSync } = await import("node:fs");
  const { bavail, blocks, bsize } = statfsSync(directory);
  return { free: bavail * bsize, total: blocks * bsize };
}

async function neverClones(directory: string): Promise<boolean> {
  if (DARWIN) return false;
  try {
    // Loaded here: node's modules cost a command line a third of its start, and few of those who import this file clone.
    const { statfsSync } = await import("node:fs");
    return NEVER_CLONE.has(statfsSync(directory).type);
  } catch {
    // Without --allow-sys=statfs a probe answers instead.
    return false;
  }
}

async function probeClone(directory: string, options: CloneOptions): Promise<boolean> {
  if (await neverClones(directory)) return false;
  const source = `${directory}/${temporaryName()}`;
  const target = `${source}2`;
  try {
    // A few whole blocks: some file systems keep the smallest files outside of blocks.
    Deno.writeFileSync(source, new Uint8Array(16_384), { createNew: true, mode: 0o600 });
    return await strictCopy(source, target, options) === "";
  } catch {
    return false;
  } finally {
    for (const path of [target, source]) discard(path);
  }
}

/**
 * The text of a small file of a person's.
 *
 * @throws {TaskdError} `not_found`, `denied`, `too_large`.
 */
export function readTextOf(path: string, max_bytes: number): string {
  return withFileError(`Cannot read ${path}`, () => {
    using file = Deno.openSync(path);
    const bytes = new Uint8Array(max_bytes + 1);
    const length = fillSync(file, bytes);
    if (length > max_bytes) {
      throw new TaskdError("too_large", `Cannot read ${path}: it has more than ${max_bytes} bytes`);
    }
    return new TextDecoder().decode(bytes.subarray(0, length));
  });
}

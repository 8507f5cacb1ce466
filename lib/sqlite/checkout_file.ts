/**
 * Every byte of access to a checkout goes through this module. POSIX drops all of a
 * process's locks on a file when the process closes any descriptor of it, so a
 * stray open and close of a checkout, or of its -shm, silently takes SQLite's locks
 * away and lets the next client delete the -wal. Here one descriptor is opened
 * before the first connection and closed after the last; the -wal has no locks and
 * is opened freely; the -shm is never touched; everything else is stat.
 *
 * Nothing else in this process may open a checkout while a {@linkcode CheckoutFile}
 * of it exists.
 */

import { passing, TaskdError } from "../errors.ts";
import { fileError, fsyncFile, isStillAt, lstatIfPresent } from "../fs.ts";
import { Connection } from "./connection.ts";
import { DATABASE_HEADER_BYTES, type DatabaseHeader, lockPage, parseDatabaseHeader } from "./header.ts";

/** One page of the smallest size: no database is shorter. */
export const MIN_DATABASE_BYTES = 512;

export interface FileStamp {
  size: number;
  /** Nanoseconds since 1970 in decimal digits; Deno reports whole milliseconds. */
  mtime_ns: string;
}

/** What SQLite answers to a checkpoint, in frames. */
export interface CheckpointAnswer {
  log: number;
  checkpointed: number;
}

/** Something else than SQLite has replaced a checkout under a session, or a part of it: it no longer is the branch's. */
export class CheckoutOverwritten extends TaskdError {
  constructor(path: string, what: string) {
    super("capture_failed", `${path} ${what}`, {
      hint:
        "Close the session; save the file first if you need what is in it, then check the branch out with --force: " +
        "what was flushed is safe",
    });
  }
}

/** Far above the ticks of any file system, and above {@linkcode backdate}'s users' own margins. */
const BACKDATE_MS = 2_000;

/** Size and time of the file at `path`; undefined when there is none. */
export function stampFile(path: string): FileStamp | undefined {
  try {
    const { size, mtime } = Deno.statSync(path);
    return { size, mtime_ns: `${mtime?.getTime() ?? 0}000000` };
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return undefined;
    throw error;
  }
}

/**
 * Sets the time of a file that no process is writing back, so that every later write sets another one: file times are
 * coarse, and a write in the same tick would not show. Throws what {@linkcode fileError} makes of a
 * file that went away.
 */
export function backdate(path: string, now_ms: number): void {
  const time = new Date(now_ms - BACKDATE_MS);
  try {
    Deno.utimeSync(path, time, time);
  } catch (error) {
    throw fileError(error, `Cannot set the time of ${path}`);
  }
}

/** Whether something may be in the -wal beside `path`. */
export function hasWal(path: string): boolean {
  return (stampFile(`${path}-wal`)?.size ?? 0) > 0;
}

/**
 * A database's header; undefined when it has none. Opens and closes the file: no connection of this process may have it
 * open.
 */
export function readHeader(path: string): DatabaseHeader | undefined {
  using file = new OpenFile(path);
  return file.header();
}

export function readChangeCounter(path: string): number | undefined {
  return readHeader(path)?.change_counter;
}

/** What `stat` counts blocks in, and no file system has smaller ones. */
const SECTOR_BYTES = 512;
/** Where the header has the two versions that state the journal mode, and their value without WAL. */
const JOURNAL_MODE_OFFSET = 18;
const ROLLBACK_MODE = 1;
const WAL_MODE = 2;

/**
 * Gives a finished image, which no connection has open, the rollback journal mode, durably: SQLite then opens it where
 * nothing can be written. https://sqlite.org/fileformat2.html#file_format_version_numbers
 */
export function leaveWalMode(path: string): void {
  using file = Deno.openSync(path, { write: true });
  file.seekSync(JOURNAL_MODE_OFFSET, Deno.SeekMode.Start);
  file.writeSync(new Uint8Array([ROLLBACK_MODE, ROLLBACK_MODE]));
  file.syncDataSync();
}

/** Refuses anything but a plain file: a symlink could lead anywhere, and opening a FIFO would never return. */
export function requirePlainFile(path: string): Deno.FileInfo {
  let info: Deno.FileInfo;
  try {
    info = Deno.lstatSync(path);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) throw new TaskdError("not_found", `There is no file ${path}`, { cause });
    throw fileError(cause, `Cannot inspect ${path}`);
  }
  if (!info.isFile) {
    throw new TaskdError("denied", `Cannot use ${path}: it is not a plain file`, {
      hint: "Move it away; the checkout command makes a new one",
    });
  }
  return info;
}

/**
 * The same of a database and of what SQLite opens beside it.
 *
 * @throws {TaskdError} `not_found` or `denied`.
 */
export function requirePlainDatabase(path: string): Deno.FileInfo {
  const info = requirePlainFile(path);
  for (const suffix of ["-wal", "-shm", "-journal"]) {
    passing(["not_found"], () => requirePlainFile(path + suffix));
  }
  return info;
}

/**
 * Copies the main file of a database that no process writes to, without SQLite. Opens and closes the file: no
 * connection of this process may have it open.
 *
 * @throws {TaskdError} `busy` when it was written to meanwhile, `denied`, `no_space` or `unavailable`.
 */
export async function copyStill(from: string, to: string): Promise<void> {
  const attempted = `Cannot copy ${from}`;
  const before = JSON.stringify(stampFile(from));
  try {
    await Deno.copyFile(from, to);
  } catch (error) {
    throw fileError(error, attempted);
  }
  if (hasWal(from) || JSON.stringify(stampFile(from)) !== before) {
    throw new TaskdError("busy", `${attempted}: it changed while it was copied`, { hint: "Try again" });
  }
}

/**
 * Copies the main file and the log as they are, durably, without SQLite. Opens and closes both: no connection of this
 * process may have them open.
 */
export async function copyRaw(from: string, to: string): Promise<void> {
  try {
    for (const suffix of hasWal(from) ? ["", "-wal"] : [""]) {
      await Deno.copyFile(from + suffix, to + suffix);
      await fsyncFile(to + suffix);
    }
  } catch (error) {
    throw fileError(error, `Cannot copy ${from}`);
  }
}

/** The bytes of a file, under the same condition. */
export async function* readWhole(path: string): AsyncGenerator<Uint8Array> {
  yield* (await Deno.open(path)).readable;
}

/** An open checkout: raw reads beside SQLite connections, without ever losing a lock. */
export class CheckoutFile implements Disposable {
  readonly path: string;
  readonly #main: OpenFile;
  readonly #busy_timeout_ms: number;
  #wal: OpenFile | undefined;
  /** The index of the log that the connections share. */
  #shm: string | undefined;
  /** Kept open: closing it would drop their locks. */
  #shm_file: Deno.FsFile | undefined;
  #connections: Connection[] = [];

  private constructor(path: string, main: OpenFile, busy_timeout_ms: number) {
    this.path = path;
    this.#main = main;
    this.#busy_timeout_ms = busy_timeout_ms;
  }

  /**
   * Opens the plain file at `path`; throws `not_found`, `denied` or `not_a_database`.
   *
   * @param options.min_bytes 0 for raw reads alone.
   */
  static open(path: string, options: { busy_timeout_ms: number; min_bytes?: number }): CheckoutFile {
    const { size } = requirePlainDatabase(path);
    const { min_bytes = MIN_DATABASE_BYTES } = options;
    // SQLite would take it for an empty database, and a session would then store that as the branch's content.
    if (size < min_bytes) {
      throw new TaskdError("not_a_database", `${path} has ${size} bytes, too few for a database`, {
        hint: "Check the branch out again with --force",
      });
    }
    return new CheckoutFile(path, new OpenFile(path), options.busy_timeout_ms);
  }

  connect(): Connection {
    const connection = new Connection(this.path, { busy_timeout_ms: this.#busy_timeout_ms });
    this.#connections.push(connection);
    return connection;
  }

  /** The database header in the main file; throws `not_a_database`. */
  header(): DatabaseHeader {
    return this.#main.header() ?? notADatabase(this.path);
  }

  mainSize(): number {
    return this.#main.size;
  }

  /** Fills `into` from `offset` of the main file; returns the bytes read, fewer only at its end. */
  readMain(offset: number, into: Uint8Array): number {
    return this.#main.readAt(offset, into);
  }

  /** The same of the -wal; 0 when there is none. */
  readWal(offset: number, into: Uint8Array): number {
    this.#wal ??= passing(["not_found"], () => new OpenFile(`${this.path}-wal`));
    return this.#wal?.readAt(offset, into) ?? 0;
  }

  /** Forces what any process wrote to the main file to disk. */
  syncMain(): void {
    this.#main.sync();
  }

  /** The same of the -wal, while other work goes on. */
  async syncWal(): Promise<void> {
    await this.#wal?.syncData();
  }

  /** Calls `onWrite` once any process writes to the -wal, until then it can be left; undefined where no more can be watched. */
  watchWal(onWrite: () => void): (() => void) | undefined {
    try {
      const watcher = Deno.watchFs(`${this.path}-wal`, { recursive: false });
      (async () => {
        for await (const { kind } of watcher) if (kind === "modify") return onWrite();
      })().catch(onWrite);
      return () => watcher.close();
    } catch {
      return undefined;
    }
  }

  /** Bytes of the -wal file, stale tail included. */
  walSize(): number {
    return stampFile(`${this.path}-wal`)?.size ?? 0;
  }

  /**
   * Throws `capture_failed` when the checkout, its -wal or its -shm was removed or replaced under the open file: programs
   * that open it from then on and those that have it open no longer see each other's locks and commits.
   */
  assertInPlace(): void {
    const found = identityAt(this.path);
    if (found === undefined || found !== this.#main.identity) {
      throw new CheckoutOverwritten(this.path, found === undefined ? "was removed" : "was replaced");
    }
    if (this.#wal && identityAt(`${this.path}-wal`) !== this.#wal.identity) {
      throw new CheckoutOverwritten(`${this.path}-wal`, "was removed or replaced");
    }
    this.noteShm();
    if (this.#shm !== undefined && identityAt(`${this.path}-shm`) !== this.#shm) {
      throw new CheckoutOverwritten(`${this.path}-shm`, "was removed or replaced");
    }
  }

  /** Notes which -shm the connections have open, once they have one. */
  noteShm(): void {
    if (this.#connections.length > 0) this.#shm ??= identityAt(`${this.path}-shm`);
  }

  /**
   * Whether parts of the -shm have no place on the disk. SQLite extends it by a byte for each 4 KiB; where blocks are
   * smaller the rest are holes, and a store to one on a disk that is full ends the process (SIGBUS).
   */
  get shm_has_holes(): boolean {
    const { size = 0, blocks } = lstatIfPresent(`${this.path}-shm`) ?? {};
    return Deno.build.os === "linux" && blocks !== null && blocks !== undefined && blocks * SECTOR_BYTES < size;
  }

  /**
   * Gives every part of the -shm its place on the disk. Only behind the write barrier: what is past the index's header is
   * written by who has the write lock alone, so a byte that was read is put back as it was.
   *
   * @throws {TaskdError} `no_space`
   */
  reserveShm(): void {
    try {
      const file = this.#shm_file ??= Deno.openSync(`${this.path}-shm`, { read: true, write: true });
      // One that was put in its place is not the connections'.
      if (identityOf(file.statSync()) !== this.#shm) return;
      const byte = new Uint8Array(1);
      for (let offset = SECTOR_BYTES; offset < file.statSync().size; offset += SECTOR_BYTES) {
        file.seekSync(offset, Deno.SeekMode.Start);
        if (file.readSync(byte) !== 1) return;
        file.seekSync(offset, Deno.SeekMode.Start);
        file.writeSync(byte);
      }
    } catch (error) {
      throw fileError(error, `Cannot make room for ${this.path}-shm`);
    }
  }

  /** Checkpoints what no reader needs, without blocking. */
  checkpointPassive(connection: Connection): CheckpointAnswer {
    return checkpointAnswer(connection.get("PRAGMA wal_checkpoint(PASSIVE)"));
  }

  /** Answers as a checkpoint does and makes none, also while another process does. */
  askCheckpoint(connection: Connection): CheckpointAnswer {
    return checkpointAnswer(connection.get("PRAGMA wal_checkpoint(NOOP)"));
  }

  /** Closes connections first, the descriptor last. */
  close(): void {
    const guard = this.#guardLog();
    try {
      for (const connection of this.#connections) connection.close();
      guard?.close();
    } finally {
      this.#connections = [];
      this.#wal?.[Symbol.dispose]();
      this.#wal = undefined;
      this.#shm_file?.close();
      this.#shm_file = undefined;
      this.#main[Symbol.dispose]();
    }
  }

  /**
   * The last connection that is closed folds the log as its own -shm has it, and removes the -wal by name: where those were
   * replaced, that is commits of others. Beside a connection that only reads none is the last, and that one may not lock
   * the file for it: https://sqlite.org/wal.html#the_wal_file
   */
  #guardLog(): Connection | undefined {
    try {
      if (this.#connections.length > 0) this.assertInPlace();
      return undefined;
    } catch {
      if (identityAt(this.path) !== this.#main.identity) return undefined;
    }
    const guard = new Connection(this.path, { mode: "ro", busy_timeout_ms: 0 });
    try {
      guard.pin();
    } catch {
      // It has its lock on the file, whatever it can read there.
    }
    return guard;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function checkpointAnswer(row: Record<string, unknown> | undefined): CheckpointAnswer {
  return { log: Number(row?.log ?? -1), checkpointed: Number(row?.checkpointed ?? -1) };
}

class OpenFile implements Disposable {
  /** Kept: the runtime checks the path's permission at each call on an open file, which costs more than the call. */
  readonly identity: string;
  readonly #file: Deno.FsFile;
  /** Where the next read begins; NaN when unknown. */
  #position = 0;

  /** Throws `not_found` when the file went away, as one that another command replaces, and {@linkcode fileError}'s. */
  constructor(path: string) {
    try {
      this.#file = Deno.openSync(path, { read: true });
    } catch (error) {
      throw fileError(error, `Cannot open ${path}`);
    }
    this.identity = identityOf(this.#file.statSync());
  }

  get size(): number {
    return this.#file.statSync().size;
  }

  header(): DatabaseHeader | undefined {
    const bytes = new Uint8Array(DATABASE_HEADER_BYTES);
    return this.readAt(0, bytes) === bytes.length ? parseDatabaseHeader(bytes) : undefined;
  }

  readAt(offset: number, into: Uint8Array): number {
    // Idle sessions read nothing but the start of an empty log.
    if (offset !== this.#position) this.#file.seekSync(offset, Deno.SeekMode.Start);
    this.#position = NaN;
    let done = 0;
    while (done < into.length) {
      const count = this.#file.readSync(done === 0 ? into : into.subarray(done));
      if (count === null) break;
      done += count;
    }
    this.#position = offset + done;
    return done;
  }

  sync(): void {
    this.#file.syncSync();
  }

  async syncData(): Promise<void> {
    await this.#file.syncData();
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}

function notADatabase(path: string): never {
  throw new TaskdError("not_a_database", `${path} is not an SQLite database`);
}

/** Writes a file beside a database, or an empty one that keeps a name; with `create` none may be there. */
export function writeWhole(path: string, bytes: Uint8Array<ArrayBuffer>, { create = false } = {}): void {
  Deno.writeFileSync(path, bytes, { mode: 0o600, createNew: create });
}

/** What is left in a file that {@linkcode RetiredFile.retire} ended; SQLite answers "file is not a database". */
const RETIRED = "This database was replaced or removed. Open it again by its path.\n".padEnd(MIN_DATABASE_BYTES);

/**
 * A file that is about to be replaced or removed, while its lock is held. A connection that was opened before, and reads
 * first when the lock is gone, would write to a file that has no name any more, beside the log of the new one: it has
 * to find no database there.
 */
export class RetiredFile {
  readonly #file: Deno.FsFile;

  constructor(path: string) {
    this.#file = Deno.openSync(path, { write: true });
  }

  get inode(): number | null {
    return this.#file.statSync().ino;
  }

  isAt(path: string): boolean {
    return isStillAt(this.#file, path);
  }

  /** Ends the content, once the file has no name any more: one with a further name, as in a backup of links, is left. */
  retire(): void {
    if (this.#file.statSync().nlink !== 0) return;
    this.#file.truncateSync(0);
    this.#file.writeSync(new TextEncoder().encode(RETIRED));
  }

  close(): void {
    this.#file.close();
  }
}

/** Which file it is: its device and number there. */
function identityOf({ dev, ino }: Deno.FileInfo): string {
  return `${dev}:${ino}`;
}

function identityAt(path: string): string | undefined {
  try {
    const info = lstatIfPresent(path);
    return info?.isFile ? identityOf(info) : undefined;
  } catch (error) {
    throw fileError(error, `Cannot inspect ${path}`);
  }
}

/**
 * A database image that no connection of this process has open: cache entries, temporary files. It reads in WAL mode, as
 * every stored one is, also where {@linkcode leaveWalMode} was called.
 */
export class ImageFile implements Disposable {
  readonly page_size: number;
  readonly page_count: number;
  readonly #file: OpenFile;

  private constructor(file: OpenFile, page_size: number, page_count: number) {
    this.#file = file;
    this.page_size = page_size;
    this.page_count = page_count;
  }

  /** Opens the image at `path`; throws `not_a_database` or `corrupt`. */
  static open(path: string): ImageFile {
    requirePlainFile(path);
    const file = new OpenFile(path);
    try {
      const { page_size } = file.header() ?? notADatabase(path);
      const { size } = file;
      if (size % page_size !== 0) throw new TaskdError("corrupt", `${path} does not end at a page's end`);
      return new ImageFile(file, page_size, size / page_size);
    } catch (error) {
      file[Symbol.dispose]();
      throw error;
    }
  }

  readPages(first: number, count: number, into: Uint8Array): void {
    const bytes = into.subarray(0, count * this.page_size);
    if (this.#file.readAt((first - 1) * this.page_size, bytes) < bytes.length) {
      throw new TaskdError("corrupt", "A database image is shorter than it was");
    }
    const modes = bytes.subarray(JOURNAL_MODE_OFFSET, JOURNAL_MODE_OFFSET + 2);
    if (first === 1 && modes.every((mode) => mode === ROLLBACK_MODE)) modes.fill(WAL_MODE);
    const lock = lockPage(this.page_size);
    // The content of the lock page is undefined: images are compared without it.
    if (lock >= first && lock < first + count) {
      into.fill(0, (lock - first) * this.page_size, (lock - first + 1) * this.page_size);
    }
  }

  close(): void {
    this.#file[Symbol.dispose]();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

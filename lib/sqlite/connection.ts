/**
 * The one wrapper round node:sqlite's connections: every statement is prepared,
 * because only prepared statements carry SQLite's result code, and every failure
 * becomes an error with a stable code. Connections never create a file.
 */

import { DatabaseSync } from "node:sqlite";
import { type ErrorCode, hasCode, TaskdError } from "../errors.ts";
import { lstatIfPresent } from "../fs.ts";
import type { UriOptions } from "./header.ts";
import { openName } from "./open_name.ts";

/** How often, and in how many milliseconds, the write lock is asked for before SQLite's own wait begins. */
const WRITE_LOCK = { tries: 200, pause_ms: 0.05 };

/**
 * The race for the shared index was lost again and again: https://sqlite.org/rescode.html#protocol. Busy, for ten
 * seconds already: SQLite itself retries that long and blocks the thread.
 */
const SQLITE_PROTOCOL = 15;

// Primary result codes, https://sqlite.org/rescode.html.
const RESULT_CODES: Record<number, ErrorCode> = {
  3: "denied", // SQLITE_PERM
  5: "busy", // SQLITE_BUSY
  6: "busy", // SQLITE_LOCKED
  8: "denied", // SQLITE_READONLY
  10: "unavailable", // SQLITE_IOERR
  11: "corrupt", // SQLITE_CORRUPT
  13: "no_space", // SQLITE_FULL
  14: "not_found", // SQLITE_CANTOPEN
  [SQLITE_PROTOCOL]: "busy",
  26: "not_a_database", // SQLITE_NOTADB
};

// More precise extended codes. The -shm cannot grow: the first sign of a full disk. A file ends early: it was cut.
const EXTENDED_CODES: Record<number, ErrorCode> = {
  522: "corrupt", // SQLITE_IOERR_SHORT_READ
  4874: "no_space", // SQLITE_IOERR_SHMSIZE
};

// exec() and backup() give no result code, only its text: https://sqlite.org/c3ref/errcode.html.
const MESSAGES: readonly (readonly [RegExp, ErrorCode])[] = [
  [/unable to open/, "not_found"],
  [/disk I\/O error/, "unavailable"],
  [/database or disk is full/, "no_space"],
  [/(database|table) is locked|locking protocol/, "busy"],
  [/readonly database/, "denied"],
  [/not a database/, "not_a_database"],
  [/malformed/, "corrupt"],
];

const HINTS: Partial<Record<ErrorCode, string>> = {
  busy: "Another process keeps the database locked; let it finish and try again",
  not_a_database: "Name a file that SQLite can open; an encrypted one is not supported",
  no_space: "Free space on the disk, then try again",
  unavailable:
    "The disk may be full, or fail, or the file may not grow: check its free space, the kernel's log (dmesg), " +
    "and ulimit -f",
};

/** What SQLite could not open although the database is there: the file itself, or one beside it. */
const BESIDE_HINT = "Check that the disk has room for another file, that its directory may be written, and that the " +
  "process may open more files (ulimit -n)";

/**
 * SQLite's failure as a {@linkcode TaskdError}.
 *
 * @param options.opened The database itself is there, or has been opened: what cannot be opened is not missing.
 */
export function sqliteError(error: unknown, attempted: string, options: { opened?: boolean } = {}): TaskdError {
  if (error instanceof TaskdError) return error;
  const { errcode, message } = error as { errcode?: number; message?: string };
  const known: ErrorCode =
    (errcode === undefined ? undefined : EXTENDED_CODES[errcode] ?? RESULT_CODES[errcode & 0xff]) ??
      MESSAGES.find(([pattern]) => pattern.test(message ?? ""))?.[1] ?? "capture_failed";
  const beside = options.opened === true && known === "not_found";
  const code = beside ? "unavailable" : known;
  const hint = beside ? BESIDE_HINT : HINTS[code];
  return new TaskdError(code, `${attempted}: ${message ?? String(error)}`, { cause: error, hint });
}

export class Connection {
  readonly #db: DatabaseSync;
  readonly #path: string;
  readonly #busy_timeout_ms: number;

  /**
   * Opens an existing file; a busy lock is waited for at most `busy_timeout_ms`. The runtime's connections are defensive,
   * which makes PRAGMA writable_schema do nothing; `defensive: false` is for what needs it.
   */
  constructor(path: string, options: UriOptions & { busy_timeout_ms: number; defensive?: false }) {
    this.#path = path;
    const { busy_timeout_ms, defensive, ...uri } = options;
    this.#busy_timeout_ms = busy_timeout_ms;
    // Of a plain path too, where SQLite gets to see no URI.
    const readOnly = uri.mode === "ro";
    try {
      // The types do not know `defensive` yet.
      const how = { timeout: busy_timeout_ms, readOnly, ...(defensive === undefined ? {} : { defensive }) };
      this.#db = new DatabaseSync(openName(path, { mode: "rw", ...uri }), how);
    } catch (error) {
      throw sqliteError(error, `Cannot open ${path}`, { opened: lstatIfPresent(path) !== undefined });
    }
    try {
      this.run("PRAGMA trusted_schema=OFF");
    } catch (error) {
      this.#db.close();
      throw error;
    }
  }

  run(sql: string): void {
    this.get(sql);
  }

  /** Runs one statement and returns its first row. */
  get(sql: string): Record<string, unknown> | undefined {
    try {
      return this.#db.prepare(sql).get() as Record<string, unknown> | undefined;
    } catch (error) {
      throw sqliteError(error, `Cannot run ${sql} on ${this.#path}`, { opened: true });
    }
  }

  /** Ends an open transaction, if there is one; never throws, closing does the same. */
  rollback(): void {
    try {
      this.#db.exec("ROLLBACK");
    } catch {
      // No transaction was open.
    }
  }

  /**
   * Takes a read snapshot that lasts until {@linkcode rollback}. BEGIN alone takes none, and reading a table would need a
   * schema that this library can read.
   */
  pin(): void {
    this.run("BEGIN");
    try {
      this.get("PRAGMA user_version");
    } catch (error) {
      this.rollback();
      throw error;
    }
  }

  /**
   * Begins a transaction that holds the write lock. SQLite's own wait sleeps ever longer, up to 100 ms at a time, and so
   * hardly ever meets the gap between two transactions of a writer that never pauses: at first the lock is asked for
   * all the time.
   */
  beginImmediate(options: { wait?: boolean } = {}): void {
    this.run("PRAGMA busy_timeout=0");
    try {
      for (let tries = 0; tries < WRITE_LOCK.tries; tries++) {
        if (this.#began()) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WRITE_LOCK.pause_ms);
      }
    } finally {
      this.run(`PRAGMA busy_timeout=${this.#busy_timeout_ms}`);
    }
    if (options.wait === false) throw new TaskdError("busy", `Another process writes to ${this.#path}`);
    this.run("BEGIN IMMEDIATE");
  }

  /** Whether another connection has the write lock at this moment. */
  get write_locked(): boolean {
    this.run("PRAGMA busy_timeout=0");
    try {
      return !this.#began();
    } finally {
      this.rollback();
      this.run(`PRAGMA busy_timeout=${this.#busy_timeout_ms}`);
    }
  }

  #began(): boolean {
    try {
      this.run("BEGIN IMMEDIATE");
      return true;
    } catch (error) {
      if (!hasCode(error, "busy") || hasWaitedLong(error)) throw error;
      return false;
    }
  }

  close(): void {
    this.#db.close();
  }
}

function hasWaitedLong({ cause }: TaskdError): boolean {
  return (cause as { errcode?: number } | undefined)?.errcode === SQLITE_PROTOCOL;
}

export function sqliteVersion(): string {
  using db = new DatabaseSync(":memory:");
  return String((db.prepare("SELECT sqlite_version() AS version").get() as { version: string }).version);
}

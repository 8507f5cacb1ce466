/**
 * A database file taken away from every other connection: what replaces or removes a file holds it meanwhile, so that no
 * application is left with one that is gone.
 *
 * A connection in WAL mode holds a shared lock on the file for as long as it is open; one in another mode while it
 * reads or writes. In exclusive locking mode SQLite takes the lock that excludes both, before it opens the log:
 * https://sqlite.org/pragma.html#pragma_locking_mode. Taken by another name, the file has no log for SQLite to fold when
 * it is given up: whatever comes of the operation, file and log stay as they are.
 */

import { hasCode, TaskdError } from "../errors.ts";
import { discard, fileError } from "../fs.ts";
import {
  CheckoutFile,
  MIN_DATABASE_BYTES,
  requirePlainDatabase,
  RetiredFile,
  stampFile,
  writeWhole,
} from "./checkout_file.ts";
import { Connection } from "./connection.ts";
import { logEnd } from "./log_place.ts";
import { rawImage } from "./raw_image.ts";
import type { DatabaseImage, WalMark } from "./wal_tail.ts";

/** How long a lock is waited for, in SQLite and thereby blocking: a transaction that is being committed ends by then. */
const BUSY_TIMEOUT_MS = 50;

/** A file, and the connection that has the lock of it until this is disposed of. */
class Locked implements Disposable {
  readonly path: string;
  readonly #connection: Connection;
  readonly #old: RetiredFile;

  protected constructor(path: string, connection: Connection) {
    this.path = path;
    this.#connection = connection;
    // Descriptors may be opened under the lock, and closed only after it.
    try {
      this.#old = new RetiredFile(path);
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /** Whether the file still has its name, and is locked therefore against all that comes by it. */
  isAt(): boolean {
    return this.#old.isAt(this.path);
  }

  /** The lock may be on the file that had the name before: another process replaced it at that moment. */
  protected requireStill(inode: number | null): this {
    if (this.#old.inode === inode && this.isAt()) return this;
    this[Symbol.dispose]();
    throw new TaskdError("busy", `Cannot take ${this.path}: it was replaced just now`, { hint: "Try again" });
  }

  /** Ends the content of the file, once another has its name or none: what still has it open finds no database. */
  retire(): void {
    this.#old.retire();
  }

  /** Gives the file up. */
  [Symbol.dispose](): void {
    try {
      this.#connection.close();
    } finally {
      this.#old.close();
    }
  }
}

export class LockedDatabase extends Locked {
  #file: CheckoutFile | undefined;

  /**
   * Takes the file.
   *
   * @param by A name on the same file system that nothing has: the file is linked there for a moment. Without it SQLite
   * folds the log when the file is given up.
   * @throws {TaskdError} `busy` when another connection has it open; what SQLite reports of a file that it cannot open.
   */
  static open(path: string, by?: string): LockedDatabase {
    const { size, ino } = requirePlainDatabase(path);
    if (size < MIN_DATABASE_BYTES) {
      throw new TaskdError("not_a_database", `${path} has ${size} bytes, too few for a database`);
    }
    try {
      // What a transaction without WAL has left unfinished SQLite has to take back first.
      if (by === undefined || (stampFile(`${path}-journal`)?.size ?? 0) > 0) {
        return new LockedDatabase(path, lock(path)).requireStill(ino);
      }
      try {
        Deno.linkSync(path, by);
        const linked = Deno.lstatSync(by).ino;
        return new LockedDatabase(path, lock(by)).requireStill(linked);
      } finally {
        for (const suffix of ["", "-wal"]) discard(by + suffix);
      }
    } catch (error) {
      throw fileError(error, `Cannot open ${path}`);
    }
  }

  /** What file and log hold, readable until the file is given up. */
  image(): DatabaseImage {
    return rawImage(this.#open());
  }

  /** By which the content is known again later: the change counter of the file's header, and where its log ends. */
  standing(): { change_counter: number; log: WalMark | undefined } {
    const file = this.#open();
    const { change_counter, page_size } = file.header();
    return { change_counter, log: logEnd(file, page_size) };
  }

  #open(): CheckoutFile {
    return this.#file ??= CheckoutFile.open(this.path, { busy_timeout_ms: BUSY_TIMEOUT_MS });
  }

  override [Symbol.dispose](): void {
    try {
      super[Symbol.dispose]();
    } finally {
      this.#file?.close();
    }
  }
}

/**
 * The same lock of a file that SQLite finds to be no database, which another program may have open nevertheless: one that
 * reads its first page from a log. The content stays as it is.
 *
 * Where something lies beside a file that looks as if a crash had left a rollback journal, SQLite takes the lock before
 * it reads the first page, and in exclusive locking mode keeps it, whatever it finds then. A journal without a header is
 * removed, and nothing is taken back: https://sqlite.org/lockingv3.html#hot_journals.
 */
export class LockedFile extends Locked {
  /**
   * @param by A name on the same file system that nothing has: the file is linked there for a moment. Without it what lies
   * beside the file by its own name is SQLite's to remove.
   * @throws {TaskdError} `busy` when another connection has a lock of it.
   */
  static open(path: string, by?: string): LockedFile {
    const { ino } = requirePlainDatabase(path);
    try {
      if (by !== undefined) Deno.linkSync(path, by);
      return new LockedFile(path, lockUnread(by ?? path)).requireStill(ino);
    } catch (error) {
      throw fileError(error, `Cannot open ${path}`);
    } finally {
      if (by !== undefined) { for (const suffix of ["", "-journal"]) discard(by + suffix); }
    }
  }
}

function lockUnread(path: string): Connection {
  const journal = `${path}-journal`;
  const alone = (stampFile(journal)?.size ?? 0) === 0;
  if (alone) writeWhole(journal, Uint8Array.of(1));
  const connection = new Connection(path, { busy_timeout_ms: BUSY_TIMEOUT_MS });
  try {
    connection.run("PRAGMA locking_mode=EXCLUSIVE");
    connection.run("BEGIN EXCLUSIVE");
    // Of an empty file, which SQLite takes for a database without content.
    connection.run("ROLLBACK");
    return connection;
  } catch (error) {
    if (hasCode(error, "not_a_database", "corrupt")) return connection;
    connection.close();
    if (alone && stampFile(journal)?.size === 1) discard(journal);
    throw error;
  }
}

/** A connection that has the lock until it is closed. */
function lock(path: string): Connection {
  const connection = new Connection(path, { busy_timeout_ms: BUSY_TIMEOUT_MS, defensive: false });
  try {
    // Without its log the file may be shorter than it says: a full disk ends the folding of a log halfway. SQLite takes
    // that for damage, and with this alone for what it is.
    connection.run("PRAGMA writable_schema=ON");
    connection.run("PRAGMA locking_mode=EXCLUSIVE");
    connection.run("BEGIN EXCLUSIVE");
    connection.run("COMMIT");
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/**
 * Opens a database image of any origin, for reading and nothing
 * else: no locks, no -wal, no code that its schema brings along.
 */

import { DatabaseSync } from "node:sqlite";
import { TaskdError } from "../errors.ts";
import { openName, urisWork } from "./open_name.ts";
import { exists } from "../fs.ts";

/** SQLite's primary result codes that classify a file; https://sqlite.org/rescode.html. */
const SQLITE_CORRUPT = 11;
const SQLITE_CANTOPEN = 14;
const SQLITE_NOTADB = 26;

/** What an authorizer answers. */
const SQLITE_OK = 0;
const SQLITE_DENY = 1;

const OPTIONS = { readOnly: true, readBigInts: true, returnArrays: true, defensive: true };

/** A method of Deno's DatabaseSync that its types do not list yet. */
interface Authorizing {
  setAuthorizer(
    callback: (action: number, a: string | null, b: string | null, c: string | null, inside: string | null) => number,
  ): void;
}

/** An image until it is disposed of; nothing is left beside it then. */
export interface OpenedImage extends Disposable {
  /** Statements answer arrays, with integers as bigint. */
  db: DatabaseSync;
}

/**
 * Opens a whole image that no process changes, such as a cache entry. Views and triggers cannot run, also not from
 * inside a virtual table.
 *
 * @param options.subqueries Whether statements may have some, which SQLite takes for views until their names are known.
 * @throws {TaskdError} `not_found`, `not_a_database` or `corrupt`.
 */
export function openImage(path: string, options: { subqueries?: boolean } = {}): OpenedImage {
  const immutable = urisWork();
  // Without `immutable` SQLite makes these for an image in WAL mode and, read-only, does not remove them.
  const made = immutable ? [] : [`${path}-wal`, `${path}-shm`].filter((name) => !exists(name));
  return attempt(path, () => {
    const name = openName(path, { mode: "ro", immutable: true });
    const db = new DatabaseSync(name, OPTIONS) as DatabaseSync & Authorizing;
    const close = () => {
      db.close();
      for (const name of made) if (exists(name)) Deno.removeSync(name);
    };
    try {
      db.exec("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON");
      // The last argument names the view or trigger that asks.
      db.setAuthorizer((_action, _a, _b, _c, inside) => inside === null ? SQLITE_OK : SQLITE_DENY);
      db.prepare("SELECT count(*) FROM sqlite_schema").get(); // the first read of the file
      if (options.subqueries) {
        const views = db.prepare("SELECT name FROM pragma_table_list WHERE type = 'view'").all() as unknown as [
          string,
        ][];
        const names = new Set(views.map(([name]) => name.toLowerCase()));
        const isView = (name: string | null) => name !== null && names.has(name.toLowerCase());
        db.setAuthorizer((_action, _a, _b, _c, inside) => isView(inside) ? SQLITE_DENY : SQLITE_OK);
      }
    } catch (error) {
      close();
      throw error;
    }
    return { db, [Symbol.dispose]: close };
  });
}

/** Runs `work` on the image at `path` and gives SQLite's errors their code. */
export function attempt<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw imageError(path, error);
  }
}

function imageError(path: string, error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof TaskdError) return error;
  const errcode = (error as { errcode?: unknown }).errcode;
  const code = typeof errcode === "number" ? errcode & 0xff : undefined;
  const failed = `Cannot read the database ${path}: ${error.message}`;
  if (code === SQLITE_NOTADB) return new TaskdError("not_a_database", failed, { cause: error });
  if (code === SQLITE_CORRUPT) return new TaskdError("corrupt", failed, { cause: error });
  if (code === SQLITE_CANTOPEN || error.message.includes("unable to open database file")) {
    return new TaskdError("not_found", failed, { cause: error });
  }
  return error;
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** One text for a name in all the letters that SQLite takes for the same: those of ASCII, and no others. */
export function nameKey(name: string): string {
  return name.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

export function isSameName(one: string, other: string): boolean {
  return nameKey(one) === nameKey(other);
}

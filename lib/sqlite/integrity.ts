/**
 * Asks SQLite whether a database image is sound.
 */

import type { DatabaseSync } from "node:sqlite";
import { TaskdError } from "../errors.ts";
import { attempt, openImage, quoteName } from "./image.ts";

const MAX_PROBLEMS = 100;

/**
 * Runs `PRAGMA integrity_check` on an image that no process changes. Reads all of it in one synchronous call. Tables
 * that need functions or collations which only the application has are left out: SQLite cannot check those here.
 *
 * @param path A whole SQLite file; a -wal beside it is ignored.
 * @returns What is wrong, at most 100 lines; empty when nothing is. A file so damaged
 * that SQLite stops reading is one line.
 * @throws {TaskdError} `not_found`.
 */
export function integrityCheck(path: string): string[] {
  try {
    using image = openImage(path);
    return attempt(path, () => check(image.db));
  } catch (error) {
    if (error instanceof TaskdError && error.code !== "not_found") return [error.message];
    throw error;
  }
}

function check(db: DatabaseSync): string[] {
  const lines = (what: string | number) =>
    db.prepare(`PRAGMA integrity_check(${what})`).all().flatMap((row) => Object.values(row).map(String))
      .filter((line) => line !== "ok");
  try {
    return lines(MAX_PROBLEMS);
  } catch (error) {
    if (!isUnknownToSqlite(error)) throw error;
  }
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type='table'").all();
  return tables.flatMap((row) => {
    try {
      return lines(quoteName(String(Object.values(row)[0])));
    } catch (error) {
      if (!isUnknownToSqlite(error)) throw error;
      return [];
    }
  }).slice(0, MAX_PROBLEMS);
}

/** SQLITE_ERROR: `unknown function`, `no such collation sequence`. */
function isUnknownToSqlite(error: unknown): boolean {
  return ((error as { errcode?: number }).errcode ?? 0) % 256 === 1;
}

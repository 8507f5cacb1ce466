/**
 * Asks SQLite whether a database image is sound.
 */

import { TaskdError } from "../errors.ts";
import { attempt, openImage } from "./_image.ts";

const MAX_PROBLEMS = 100;

/**
 * Runs `PRAGMA integrity_check` on an image that no process changes. Reads all of it in one synchronous call.
 *
 * @param path A whole SQLite file; a -wal beside it is ignored.
 * @returns What is wrong, at most 100 lines; empty when nothing is. A file so damaged
 * that SQLite stops reading is one line.
 * @throws {TaskdError} `not_found`.
 */
export function integrityCheck(path: string): string[] {
  try {
    const image = openImage(path);
    try {
      const rows = attempt(path, () => image.db.prepare(`PRAGMA integrity_check(${MAX_PROBLEMS})`).all());
      const lines = rows.flatMap((row) => Object.values(row).map(String));
      return lines.length === 1 && lines[0] === "ok" ? [] : lines;
    } finally {
      image.close();
    }
  } catch (error) {
    if (error instanceof TaskdError && error.code !== "not_found") return [error.message];
    throw error;
  }
}

/**
 * The answer of one query on a database image of any origin. Nothing that the schema brings along runs, and only a SELECT
 * can: the query stands inside of one. What does not end by itself is ended with the process.
 */

import { createHash } from "node:crypto";
import { attempt, openImage } from "./image.ts";
import { readValues, showValue, valuesSql } from "./row_values.ts";
import type { JsonValue } from "./diff_result.ts";

const MAX_COLUMNS = 50;
const MAX_NAME_LENGTH = 200;
const MAX_SHOWN_ROWS = 20;
/** UTF-16 units of the JSON of the rows that are shown. */
const MAX_SHOWN_LENGTH = 8 << 10;
const VALUE_BYTES = 256;
/** Of the query, among the tables that it may name. */
const NAME = '"answer of a check"';

/** What a query returns: the first rows, and the number and a digest of all of them. */
export interface QueryAnswer {
  columns: string[];
  rows: JsonValue[][];
  count: number;
  /** SHA-256 over each row as JSON and a newline, in the order in which they came. */
  sha256: string;
}

/**
 * Runs `sql`, one SELECT.
 *
 * @throws {Error} SQLite's own, also for what it meets in the middle of the rows.
 */
export function queryAnswer(path: string, sql: string): QueryAnswer {
  using image = openImage(path, { subqueries: true });
  const { db } = image;
  return attempt(path, () => {
    db.exec("PRAGMA temp_store=MEMORY");
    const [encoding] = db.prepare("PRAGMA encoding").get() as unknown as [string];
    const query = sql.trim().replace(/;$/, "");
    const names = db.prepare(`SELECT * FROM (${query}\n)`).columns().map(({ name }) => name);
    if (names.length > MAX_COLUMNS) throw new Error(`more than ${MAX_COLUMNS} columns`);
    const columns = names.map((_, index) => `c${index}`);
    const from = `WITH ${NAME}(${columns.join(", ")}) AS (${query}\n)`;
    const hash = createHash("sha256");
    const rows: JsonValue[][] = [];
    let [count, length] = [0, 0];
    const select = `${from} SELECT ${valuesSql(columns).join(", ")} FROM ${NAME}`;
    const found = db.prepare(select).iterate();
    for (const row of found as Iterable<unknown> as Iterable<unknown[]>) {
      const values = readValues(row, { from: 0, count: columns.length, encoding })
        .map((value) => showValue(value, { most: VALUE_BYTES }));
      const json = JSON.stringify(values);
      hash.update(`${json}\n`);
      if (count++ >= MAX_SHOWN_ROWS) continue;
      length += json.length;
      if (length <= MAX_SHOWN_LENGTH && rows.length === count - 1) rows.push(values);
    }
    // Deno 2.9's iterate() takes an error of SQLite for the end of the rows.
    const [all] = db.prepare(`${from} SELECT count(*) FROM ${NAME}`).get() as unknown as [bigint];
    if (Number(all) !== count) db.prepare(`${select} LIMIT 1 OFFSET ${count}`).get();
    if (Number(all) !== count) throw new Error(`SQLite stops at row ${count + 1} of ${all}`);
    return { columns: names.map((name) => name.slice(0, MAX_NAME_LENGTH)), rows, count, sha256: hash.digest("hex") };
  });
}

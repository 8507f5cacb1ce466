/**
 * The process that opens what a sandbox left of a database. The file is hostile data: this process may read and write
 * the one folder that it was put into, and its end ends all that SQLite was led to do.
 *
 * In the folder are `base.db`, which the store wrote, and `result.db`, with `result.db-wal` where there was one. When it
 * is done, `result.db` is a whole, sound database without a log, in the journal mode of `base.db`, and one line of JSON
 * on the standard output lists what differs.
 *
 * Everything it imports lies in this folder or in lib/: it runs without packages.
 */

import { DatabaseSync } from "node:sqlite";
import { DATABASE_HEADER_BYTES, type DatabaseHeader, parseDatabaseHeader } from "../../lib/sqlite/header.ts";
import { integrityCheck } from "../../lib/sqlite/integrity.ts";
import { type ComparedTable, diffRows } from "../../lib/sqlite/row_diff.ts";
import {
  MAX_LISTED,
  MAX_NAME_LENGTH,
  MAX_ROWS,
  MAX_SAMPLE_LENGTH,
  type Report,
  type SchemaDifference,
} from "./inspection_report.ts";
import { messageOf } from "../../lib/errors.ts";

const BASE = "base.db";
const RESULT = "result.db";
/** What SQLite may allocate in all. */
const MAX_MEMORY_BYTES = 512 << 20;
const MAX_PROBLEMS = 3;
const COMPARE_BYTES = 1 << 20;
/** The bytes of the header that change without the content: journal mode, change counter, version numbers. */
const VOLATILE: readonly (readonly [start: number, end: number])[] = [[18, 20], [24, 28], [92, 100]];
/** The bytes of the header that are settings: cache size, encoding, user_version, vacuum mode, application_id. */
const SETTINGS: readonly (readonly [start: number, end: number])[] = [[48, 52], [56, 72]];

class Refusal extends Error {}

async function inspect(): Promise<Report> {
  new DatabaseSync(":memory:").exec(`PRAGMA hard_heap_limit=${MAX_MEMORY_BYTES}`);
  const base_header = headerOf(BASE);
  settle(base_header.write_version === 2);
  const found = integrityCheck(RESULT);
  if (found.length > 0) {
    // A collation that SQLite does not know here is a problem of both.
    const known = new Set(integrityCheck(BASE));
    const problems = found.filter((line) => !known.has(line));
    if (problems.length > 0) throw new Refusal(`it is damaged: ${problems.slice(0, MAX_PROBLEMS).join("; ")}`);
  }
  if (sameContent()) return unchanged();
  // A reviewer must see what an application reads through an index, or relies on for its next key.
  const tables = await diffRows(BASE, RESULT, { rows: MAX_ROWS, internal: true });
  const schema = schemaDifferences();
  return {
    ok: true,
    changed: true,
    tables: bounded(tables.slice(0, MAX_LISTED)),
    more_tables: Math.max(0, tables.length - MAX_LISTED),
    schema: schema.slice(0, MAX_LISTED),
    more_schema: Math.max(0, schema.length - MAX_LISTED),
    other_changes: tables.length + schema.length === 0 || !sameSettings(),
  };
}

function unchanged(): Report {
  return { ok: true, changed: false, tables: [], more_tables: 0, schema: [], more_schema: 0, other_changes: false };
}

function headerOf(path: string): DatabaseHeader {
  const header = parseDatabaseHeader(firstBytes(path));
  if (header === undefined) throw new Refusal("it is no SQLite database");
  return header;
}

function firstBytes(path: string): Uint8Array {
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(DATABASE_HEADER_BYTES);
  return bytes.subarray(0, file.readSync(bytes) ?? 0);
}

/** Folds the log into the file and gives it the journal mode that the store's file had. */
function settle(wal: boolean): void {
  headerOf(RESULT);
  const db = new DatabaseSync(RESULT, { enableForeignKeyConstraints: false });
  try {
    db.exec("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA synchronous=OFF");
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    const mode = wal ? "wal" : "delete";
    const { journal_mode } = db.prepare(`PRAGMA journal_mode=${mode}`).get() as { journal_mode: string };
    if (journal_mode !== mode) throw new Refusal(`its journal mode stays ${journal_mode}`);
  } finally {
    db.close();
  }
  for (const suffix of ["-wal", "-shm", "-journal"]) {
    try {
      Deno.removeSync(RESULT + suffix);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

/** Whether both hold the same pages, except what changes with every access. */
function sameContent(): boolean {
  using a = Deno.openSync(BASE);
  using b = Deno.openSync(RESULT);
  if (a.statSync().size !== b.statSync().size) return false;
  const [left, right] = [new Uint8Array(COMPARE_BYTES), new Uint8Array(COMPARE_BYTES)];
  for (let first = true;; first = false) {
    const [length, other] = [fill(a, left), fill(b, right)];
    if (length !== other) return false;
    if (length === 0) return true;
    if (first) { for (const [start, end] of VOLATILE) for (const page of [left, right]) page.fill(0, start, end); }
    for (let index = 0; index < length; index++) if (left[index] !== right[index]) return false;
  }
}

/** Whether no setting of the file was changed: beside a changed row, nothing else would show it. */
function sameSettings(): boolean {
  const [before, after] = [firstBytes(BASE), firstBytes(RESULT)];
  return SETTINGS.every(([start, end]) =>
    before.subarray(start, end).every((byte, index) => byte === after[start + index])
  );
}

function fill(file: Deno.FsFile, bytes: Uint8Array): number {
  let length = 0;
  while (length < bytes.length) {
    const count = file.readSync(bytes.subarray(length));
    if (count === null) break;
    length += count;
  }
  return length;
}

/** Definitions of both sides, by what they define. */
function schemaDifferences(): SchemaDifference[] {
  const [before, after] = [definitions(BASE), definitions(RESULT)];
  const differences: SchemaDifference[] = [];
  for (const key of [...new Set([...before.keys(), ...after.keys()])].sort()) {
    const [old, now] = [before.get(key), after.get(key)];
    if (old === now) continue;
    const change = old === undefined ? "added" : now === undefined ? "removed" : "changed";
    const [type = "", name = ""] = key.split("\0");
    differences.push({ type: type.slice(0, MAX_NAME_LENGTH), name: name.slice(0, MAX_NAME_LENGTH), change });
  }
  return differences;
}

function definitions(path: string): Map<string, string> {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    const rows = db.prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema").all();
    return new Map(rows.map(({ type, name, tbl_name, sql }) => [`${type}\0${name}`, `${tbl_name}\0${sql}`]));
  } finally {
    db.close();
  }
}

/** With names cut, and without rows once those before have taken the room. */
function bounded(tables: ComparedTable[]): ComparedTable[] {
  let left = MAX_SAMPLE_LENGTH;
  return tables.map(({ rows, ...table }) => {
    const cut = { ...table, table: table.table.slice(0, MAX_NAME_LENGTH) };
    if (rows === undefined) return cut;
    left -= JSON.stringify(rows).length;
    return left < 0 ? cut : { ...cut, rows };
  });
}

async function report(): Promise<Report> {
  try {
    return await inspect();
  } catch (error) {
    return { ok: false, problem: messageOf(error).slice(0, 1_000) };
  }
}

/** Inspects the databases of the folder, prints the report, and returns the exit status. */
export async function runInspector(): Promise<number> {
  console.log(JSON.stringify(await report()));
  return 0;
}

if (import.meta.main) await runInspector();

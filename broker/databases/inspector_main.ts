/**
 * The process that opens what a sandbox left of a database. The file is hostile data: this process may read and write
 * the one folder that it was put into, and its end ends all that SQLite was led to do.
 *
 * In the folder are `base.db`, which the store wrote, and `result.db`, with `result.db-wal` where there was one. When it
 * is done, `result.db` is a whole, sound database without a log, in the journal mode of `base.db`, and one line of JSON
 * on the standard output lists what differs; the file `changeset` is the tree of hashes over all of it. With a query on
 * the standard input, which names one of the two files, the line is its answer.
 *
 * It runs without packages.
 */

import { DatabaseSync } from "node:sqlite";
import { DATABASE_HEADER_BYTES, type DatabaseHeader, parseDatabaseHeader } from "../../lib/sqlite/header.ts";
import { integrityCheck } from "../../lib/sqlite/integrity.ts";
import type { DefinitionDiff, TableDiff } from "../../lib/sqlite/diff_result.ts";
import { compareDatabases } from "../../lib/sqlite/row_diff.ts";
import { type ColumnSpread, RowSpread } from "../../lib/sqlite/row_spread.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { ChangesetWriter } from "./changeset_file.ts";
import { pageLeaf } from "../task/page_proof.ts";
import {
  CHANGESET,
  MAX_LISTED,
  MAX_NAME_LENGTH,
  MAX_ROWS,
  MAX_SAMPLE_LENGTH,
  MAX_SPREAD_LENGTH,
  MAX_TEXT_LENGTH,
  type Report,
  type SchemaDifference,
} from "./inspection_report.ts";
import { messageOf } from "../../lib/errors.ts";
import { fillSync, removeIfPresent } from "../../lib/fs.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { queryAnswer } from "../../lib/sqlite/query_answer.ts";
import type { CheckAnswer } from "../task/database_schema.ts";

const BASE = "base.db";
/** Of the SHA-256 of a name that is cut, in hex. */
const DIGEST_CHARS = 32;
const RESULT = "result.db";
/** What SQLite may allocate in all. */
const MAX_MEMORY_BYTES = 512 << 20;
const MAX_PROBLEMS = 3;
const COMPARE_BYTES = 1 << 20;
/** The bytes of the header that change without the content: journal mode, change counter, version numbers. */
const VOLATILE: readonly (readonly [start: number, end: number])[] = [[18, 20], [24, 28], [92, 100]];
class Refusal extends Error {}

async function inspect(): Promise<Report> {
  const base_header = headerOf(BASE);
  settle(base_header.write_version === 2);
  const found = integrityCheck(RESULT);
  if (found.length > 0) {
    // A collation that SQLite does not know here is a problem of both.
    const known = new Set(integrityCheck(BASE));
    const problems = found.filter((line) => !known.has(line));
    if (problems.length > 0) throw new Refusal(`it is damaged: ${problems.slice(0, MAX_PROBLEMS).join("; ")}`);
  }
  if (sameContent()) {
    return { ok: true, changed: false, tables: [], more_tables: 0, schema: [], more_schema: 0, other_changes: false };
  }
  const tree = new ChangesetWriter(CHANGESET);
  const spreads = new Spreads();
  // Its soundness was asked for, of all of it.
  const { tables, definitions, settings, other_pages, problems } = await compareDatabases(BASE, RESULT, {
    rows: MAX_ROWS,
    check: false,
    onPage: (page) => tree.add(pageLeaf(page)),
    onPair: (table, plan, pair) => spreads.of(table).add(plan, pair),
  });
  // No comparison of what such names stand for is complete, also where the base had them already.
  const odd = problems.filter(({ side }) => side === "after").map(({ problem }) => problem);
  if (odd.length > 0) throw new Refusal(odd.slice(0, MAX_PROBLEMS).join("; "));
  for (const definition of definitions) tree.add(canonicalJson({ definition: { ...definition } }));
  // Their pages end where they could not be read on.
  for (const { table, unread } of tables) if (unread !== undefined) tree.add(canonicalJson({ table, unread }));
  tree.add(canonicalJson({ settings: settings.map((setting) => ({ ...setting })) }));
  // Every change of a definition counts this one up.
  const own = settings.filter(({ setting }) => setting !== "schema_version" || definitions.length === 0);
  const room = { left: MAX_SAMPLE_LENGTH };
  return {
    ok: true,
    changed: true,
    changeset: tree.finish(),
    tables: boundedTables(tables.slice(0, MAX_LISTED), { left: MAX_SAMPLE_LENGTH }).map((bounded, at) => {
      const spread = spreads.take(tables[at]!.table);
      return spread === undefined ? bounded : { ...bounded, spread };
    }),
    more_tables: Math.max(0, tables.length - MAX_LISTED),
    schema: definitions.slice(0, MAX_LISTED).map((definition) => boundedDefinition(definition, room)),
    more_schema: Math.max(0, definitions.length - MAX_LISTED),
    settings: own.map(({ setting, before, after }) => ({ setting, before: cutText(before), after: cutText(after) })),
    other_pages: other_pages.slice(0, MAX_LISTED).map(cutName),
    other_changes: own.length + other_pages.length > 0 || tables.length + definitions.length === 0,
  };
}

/** Where the rows of the tables fall, one table after the other, as far as there is room. */
class Spreads {
  readonly #finished = new Map<string, ColumnSpread[]>();
  #current: { table: string; spread: RowSpread } | undefined;
  #left = MAX_SPREAD_LENGTH;

  of(table: string): RowSpread {
    if (this.#current?.table !== table) {
      this.#finish();
      this.#current = { table, spread: new RowSpread() };
    }
    return this.#current.spread;
  }

  take(table: string): ColumnSpread[] | undefined {
    this.#finish();
    return this.#finished.get(table);
  }

  #finish(): void {
    const found = this.#current?.spread.finish()?.map((spread) => ({ ...spread, column: cut(spread.column) }));
    if (found !== undefined && (this.#left -= JSON.stringify(found).length) >= 0) {
      this.#finished.set(this.#current!.table, found);
    }
    this.#current = undefined;
  }
}

function headerOf(path: string): DatabaseHeader {
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(DATABASE_HEADER_BYTES);
  const header = parseDatabaseHeader(bytes.subarray(0, file.readSync(bytes) ?? 0));
  if (header === undefined) throw new Refusal("it is no SQLite database");
  return header;
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
  for (const suffix of ["-wal", "-shm", "-journal"]) removeIfPresent(RESULT + suffix);
}

/** Whether both hold the same pages, except what changes with every access. */
function sameContent(): boolean {
  using a = Deno.openSync(BASE);
  using b = Deno.openSync(RESULT);
  if (a.statSync().size !== b.statSync().size) return false;
  const [left, right] = [new Uint8Array(COMPARE_BYTES), new Uint8Array(COMPARE_BYTES)];
  for (let first = true;; first = false) {
    const [length, other] = [fillSync(a, left), fillSync(b, right)];
    if (length !== other) return false;
    if (length === 0) return true;
    if (first) { for (const [start, end] of VOLATILE) for (const page of [left, right]) page.fill(0, start, end); }
    for (let index = 0; index < length; index++) if (left[index] !== right[index]) return false;
  }
}

/** Two names stay two: an acknowledgement goes by them. */
function cut(text: string): string {
  if (text.length <= MAX_NAME_LENGTH) return text;
  const digest = sha256Hex(text).slice(0, DIGEST_CHARS);
  return `${text.slice(0, MAX_NAME_LENGTH - DIGEST_CHARS - 1)}…${digest}`;
}
const cutText = (text: string) => text.slice(0, MAX_TEXT_LENGTH);

function cutName<T extends { name?: string }>(named: T): T {
  return named.name === undefined ? named : { ...named, name: cut(named.name) };
}

/** With names cut, and without its SQL once those before have taken the room. */
function boundedDefinition(diff: DefinitionDiff, room: { left: number }): SchemaDifference {
  const { before, after, ...definition } = cutName(diff);
  const named = {
    ...definition,
    type: cut(diff.type),
    table: cut(diff.table),
    ...(diff.table_before === undefined ? {} : { table_before: cut(diff.table_before) }),
  };
  room.left -= JSON.stringify([before, after]).length;
  if (room.left < 0) return named;
  return { ...named, ...(before === undefined ? {} : { before }), ...(after === undefined ? {} : { after }) };
}

/** Pages of rows are asked for by name: those of a table whose name is cut have to be acknowledged as unread. */
function unreadOf({ table, unread }: TableDiff): { unread?: string } {
  if (unread !== undefined) return { unread: cutText(unread) };
  return table.length <= MAX_NAME_LENGTH ? {} : { unread: `its name has more than ${MAX_NAME_LENGTH} characters` };
}

/** With names cut, and without rows once those before have taken the room. */
function boundedTables(tables: TableDiff[], room: { left: number }): TableDiff[] {
  return tables.map(({ rows, columns, ...table }) => {
    const counts = {
      ...table,
      table: cut(table.table),
      ...unreadOf(table),
      ...(columns === undefined ? {} : { columns: columns.slice(0, MAX_LISTED).map(cutName) }),
    };
    if (rows === undefined) return counts;
    room.left -= JSON.stringify(rows).length;
    return room.left < 0 ? counts : { ...counts, rows };
  });
}

async function report(): Promise<Report> {
  try {
    return await inspect();
  } catch (error) {
    return { ok: false, problem: messageOf(error).slice(0, 1_000) };
  }
}

function answer({ path, sql }: { path: string; sql: string }): CheckAnswer {
  try {
    return queryAnswer(path, sql);
  } catch (error) {
    return { error: cutText(messageOf(error)) };
  }
}

export async function runInspector(): Promise<number> {
  new DatabaseSync(":memory:").exec(`PRAGMA hard_heap_limit=${MAX_MEMORY_BYTES}`);
  const query = await new Response(Deno.stdin.readable).text();
  console.log(JSON.stringify(query === "" ? await report() : answer(JSON.parse(query))));
  return 0;
}

if (import.meta.main) await runInspector();

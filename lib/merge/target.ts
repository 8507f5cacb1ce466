/**
 * The database that a merge changes: an ordinary SQLite connection to a file that others have open. Values go in and come
 * out with their type and bytes; constraints fail, whatever their own conflict clause says, and no foreign key acts.
 */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import { hasCode, messageOf, TaskdError } from "../errors.ts";
import { sqliteError } from "../sqlite/connection.ts";
import { openName } from "../sqlite/open_name.ts";
import type { Pair, PairPlan } from "../sqlite/row_pairs.ts";
import { nameKey, quoteName } from "../sqlite/image.ts";
import { computedDefault, defaultOf } from "../sqlite/side.ts";
import type { JsonValue } from "../sqlite/diff_result.ts";
import { isText, readValues, showValue, type Value, valuesSql } from "../sqlite/row_values.ts";

/** Bytes of a value that a conflict shows. */
export const SHOWN_BYTES = 4_096;
/** Prepared statements that are kept. */
const MAX_STATEMENTS = 500;
/** SQLITE_CONSTRAINT, a primary result code. */
const CONSTRAINT = 19;

/** How a row is found. */
export type Locator = { rowid: bigint } | { key: readonly string[]; values: readonly Value[] };

/** A table as the target has it. */
export interface TargetTable {
  name: string;
  /** Columns that can be written. */
  columns: readonly string[];
  /** Columns that compute themselves. */
  generated: readonly string[];
  /** SQL of the rowid. */
  rowid: string | undefined;
}

export interface TargetRow {
  rowid: bigint | undefined;
  values: Value[];
}

export interface ForeignKey {
  child: string;
  parent: string;
  from: string[];
  to: string[];
  /** It names no columns of its parent: they are those of the primary key. */
  implied: boolean;
}

/** A row breaks a constraint of the target. */
export class ConstraintBroken extends Error {}

export class Target implements Disposable {
  readonly path: string;
  readonly #db: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();
  #encoding: string | undefined;

  /** @param options.image It is an image that no process changes, and is only read. */
  constructor(path: string, options: { busy_timeout_ms: number; image?: boolean }) {
    this.path = path;
    try {
      const more = { readBigInts: true, returnArrays: true } as object;
      const name = openName(path, options.image ? { mode: "ro", immutable: true } : { mode: "rw" });
      const readOnly = options.image === true;
      this.#db = new DatabaseSync(name, { timeout: options.busy_timeout_ms, readOnly, ...more });
    } catch (error) {
      throw sqliteError(error, `Cannot open ${path}`, { opened: true });
    }
    // What foreign keys and triggers of the source did stands in its rows: here they are checked, and do nothing.
    this.run("PRAGMA foreign_keys=OFF");
    this.run("PRAGMA legacy_alter_table=ON");
    this.run("PRAGMA trusted_schema=OFF");
    this.run("PRAGMA temp_store=MEMORY");
  }

  get encoding(): string {
    return this.#encoding ??= String(this.query("PRAGMA encoding")[0]![0]);
  }

  /** Runs one statement and returns its rows. */
  query(sql: string, values: readonly (Value | string)[] = []): unknown[][] {
    try {
      return this.#prepare(sql).all(...values.map(bound)) as unknown as unknown[][];
    } catch (error) {
      throw this.#failed(error, sql);
    }
  }

  run(sql: string, values: readonly (Value | string)[] = []): void {
    this.query(sql, values);
  }

  /** Runs a definition, which is not kept. */
  define(sql: string): void {
    try {
      this.#db.prepare(sql).run();
    } catch (error) {
      throw this.#failed(error, sql);
    }
    // What was prepared may mean another table now.
    this.#statements.clear();
  }

  /** Why SQLite would not run a statement: it is compiled, with the triggers that it fires, and not run. */
  refused(sql: string): string | undefined {
    try {
      this.#db.prepare(sql);
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  /** Does work of which nothing stays. */
  probe<T>(work: () => T): T {
    this.run("SAVEPOINT probe");
    try {
      return work();
    } finally {
      this.#statements.clear();
      this.run("ROLLBACK TO probe");
      this.run("RELEASE probe");
    }
  }

  /** A view or trigger that something is missing for, with what SQLite says; it looks when a table gets another name. */
  brokenDefinition(): { name: string; message: string } | undefined {
    let probe = "merge_probe";
    while (this.table(probe) !== undefined) probe += "_";
    this.run("SAVEPOINT definitions_checked");
    try {
      this.run("PRAGMA legacy_alter_table=OFF");
      this.define(`CREATE TABLE main.${probe}(x)`);
      this.#db.exec(`ALTER TABLE main.${probe} RENAME TO ${probe}_`);
    } catch (error) {
      const { message } = error as Error;
      return { name: /^error in \w+ (.+?)(?: after rename)?: /.exec(message)?.[1] ?? "", message };
    } finally {
      this.#statements.clear();
      this.run("ROLLBACK TO definitions_checked");
      this.run("RELEASE definitions_checked");
      this.run("PRAGMA legacy_alter_table=ON");
    }
  }

  #prepare(sql: string): StatementSync {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    if (this.#statements.size >= MAX_STATEMENTS) this.#statements.clear();
    const statement = this.#db.prepare(sql);
    this.#statements.set(sql, statement);
    return statement;
  }

  #failed(error: unknown, sql: string): Error {
    const { errcode } = error as { errcode?: number };
    if (errcode !== undefined && (errcode & 0xff) === CONSTRAINT) return new ConstraintBroken((error as Error).message);
    const failed = sqliteError(error, `Cannot run ${sql.slice(0, 200)} on ${this.path}`, { opened: true });
    if (!hasCode(failed, "capture_failed")) return failed;
    return new TaskdError("conflict", failed.message, {
      cause: error,
      hint: "The definitions of this database ask for something that this program's SQLite does not have",
    });
  }

  /** Begins a transaction that holds the write lock, or with `read` none. */
  begin(kind: "read" | "write"): void {
    this.run(kind === "write" ? "BEGIN IMMEDIATE" : "BEGIN");
  }

  commit(): void {
    this.run("COMMIT");
  }

  rollback(): void {
    try {
      this.#db.exec("ROLLBACK");
    } catch {
      // No transaction was open.
    }
    this.#statements.clear();
  }

  /** A table by its name; undefined where there is none. */
  table(name: string): TargetTable | undefined {
    const found = this.query(
      "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND name = ? COLLATE NOCASE",
      [name],
    );
    if (found.length === 0) return undefined;
    const columns = this.query("SELECT name, hidden FROM pragma_table_xinfo(?)", [name]) as [string, bigint][];
    const taken = new Set(columns.map(([column]) => nameKey(column)));
    return {
      name: String(found[0]![0]),
      columns: columns.filter(([, hidden]) => hidden === 0n).map(([column]) => column),
      generated: columns.filter(([, hidden]) => hidden > 1n).map(([column]) => column),
      rowid: found[0]![1] === 1n ? undefined : ["rowid", "_rowid_", "oid"].find((word) => !taken.has(word)),
    };
  }

  row(table: TargetTable, columns: readonly string[], at: Locator): TargetRow | undefined {
    const select = [table.rowid ?? "NULL", ...valuesSql(columns)].join(", ");
    const [where, values] = whereOf(table, at);
    const [found] = this.query(`SELECT ${select} FROM main.${quoteName(table.name)} WHERE ${where}`, values);
    if (found === undefined) return undefined;
    const decoded = { from: 1, count: columns.length, encoding: this.encoding };
    return { rowid: found[0] as bigint | undefined ?? undefined, values: readValues(found, decoded) };
  }

  /** Rows that have something else than these values in these columns. */
  countWritten({ name }: TargetTable, columns: readonly string[], values: readonly Value[]): number {
    const tests = columns.map((column, i) => `quote(${quoteName(column)}) IS NOT quote(${placeholder(values[i]!)})`);
    return Number(
      this.query(`SELECT count(*) FROM main.${quoteName(name)} WHERE ${tests.join(" OR ")}`, values)[0]![0],
    );
  }

  /** What rows have in columns that nothing was written to. */
  defaults({ name }: TargetTable, columns: readonly string[]): Value[] {
    const found = this.query("SELECT name, type, dflt_value FROM pragma_table_xinfo(?)", [name]) as [
      string,
      string,
      string | null,
    ][];
    return columns.map((column) => {
      const [, type, fallback] = found.find(([each]) => each === column)!;
      return defaultOf({ name: column, type, key: 0, fallback }, this.encoding);
    });
  }

  /** Columns that are added to rows: one without a plain default has NULL, and where it cannot, one value in all of them. */
  filled({ name }: TargetTable, added: PairPlan["added"]): PairPlan["added"] {
    if (added.length === 0) return added;
    const found = this.query('SELECT name, type, dflt_value FROM pragma_table_xinfo(?) WHERE "notnull"', [name]) as [
      string,
      string,
      string | null,
    ][];
    return added.map((column) => {
      const needed = column.fallback === null ? found.find(([each]) => each === column.name) : undefined;
      if (needed === undefined) return column;
      const [, type, fallback] = needed;
      return { ...column, fallback: computedDefault({ name: column.name, type, key: 0, fallback }, this.encoding) };
    });
  }

  isEmpty(table: TargetTable): boolean {
    return this.query(`SELECT 1 FROM main.${quoteName(table.name)} LIMIT 1`).length === 0;
  }

  insert(table: TargetTable, columns: readonly string[], { rowid, values }: TargetRow): void {
    // A rowid that others have since is no one's identity: the row gets a new one.
    const free = rowid !== undefined && table.rowid !== undefined && !this.#hasRowid(table, rowid);
    const names = [...free ? [table.rowid!] : [], ...columns.map(quoteName)];
    const all = [...free ? [rowid] : [], ...values];
    const into = `INSERT OR ABORT INTO main.${quoteName(table.name)}`;
    if (names.length === 0) return this.run(`${into} DEFAULT VALUES`);
    this.run(`${into}(${names.join(", ")}) VALUES(${all.map(placeholder).join(", ")})`, all);
  }

  #hasRowid(table: TargetTable, rowid: bigint): boolean {
    return this.query(`SELECT 1 FROM main.${quoteName(table.name)} WHERE ${table.rowid} = ?`, [rowid]).length > 0;
  }

  update(table: TargetTable, columns: readonly string[], values: readonly Value[], at: Locator): void {
    const set = columns.map((name, i) => `${quoteName(name)} = ${placeholder(values[i]!)}`).join(", ");
    const [where, located] = whereOf(table, at);
    this.run(`UPDATE OR ABORT main.${quoteName(table.name)} SET ${set} WHERE ${where}`, [...values, ...located]);
  }

  delete(table: TargetTable, at: Locator): void {
    const [where, values] = whereOf(table, at);
    this.run(`DELETE FROM main.${quoteName(table.name)} WHERE ${where}`, values);
  }

  /** The foreign keys of all tables. */
  foreignKeys(): ForeignKey[] {
    const tables = this.query("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'");
    return tables.flatMap(([name]) => {
      const child = String(name);
      const rows = this.query('SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq', [
        child,
      ]) as [bigint, string, string, string | null][];
      return [...Map.groupBy(rows, ([id]) => id).values()].map((parts): ForeignKey => {
        const parent = parts[0]![1];
        const to = parts.map(([, , , column]) => column);
        return {
          child,
          parent,
          from: parts.map(([, , column]) => column),
          implied: to.includes(null),
          to: to.includes(null) ? this.primaryKey(parent) : to as string[],
        };
      });
    });
  }

  /** By which a column of a key is compared, as its index has it. */
  collation(table: string, column: string): string {
    const found = this.query(
      "SELECT x.coll FROM pragma_index_list(?) AS i, pragma_index_xinfo(i.name) AS x " +
        'WHERE i."unique" AND x.key AND lower(x.name) = lower(?) LIMIT 1',
      [table, column],
    );
    return String(found[0]?.[0] ?? "BINARY");
  }

  /** Columns of a declared key, in its order. */
  primaryKey(table: string): string[] {
    return this.query("SELECT name FROM pragma_table_xinfo(?) WHERE pk > 0 ORDER BY pk", [table])
      .map(([name]) => String(name));
  }

  [Symbol.dispose](): void {
    this.rollback();
    this.#db.close();
  }
}

export function placeholder(value: Value): string {
  return isText(value) ? "CAST(? AS TEXT)" : typeof value === "number" ? "CAST(? AS REAL)" : "?";
}

function bound(value: Value | string): null | bigint | number | string | Uint8Array {
  return typeof value !== "string" && isText(value) ? value.text : value;
}

export function whereOf(table: TargetTable, at: Locator): [where: string, values: readonly Value[]] {
  if ("rowid" in at) return [`${table.rowid} = ?`, [at.rowid]];
  // Without an affinity of its own the value is compared by that of the column.
  const tests = at.key.map((name, i) => `${quoteName(name)} = +${placeholder(at.values[i]!)}`);
  return [tests.join(" AND "), at.values];
}

/** Where the target has a row, by the identity that it had in the base; its columns have the source's names by now. */
export function locate(plan: PairPlan, { before, after }: Pair): Locator {
  const { by_rowid, key_length, columns_before, columns_after, after: table } = plan;
  const row = (before ?? after)!;
  const key = row.values.slice(0, key_length);
  if (by_rowid && (key_length === 0 || key.includes(null))) return { rowid: row.rowid };
  return { key: (table === undefined ? columns_before : columns_after).slice(0, key_length), values: key };
}

/** A row's key, as people and decisions name it. */
export function keyOf(plan: PairPlan, pair: Pair): Record<string, JsonValue> {
  const at = locate(plan, pair);
  const show = (value: Value) => showValue(value, { most: SHOWN_BYTES });
  if ("rowid" in at) return { [(plan.after ?? plan.before)!.alias ?? "rowid"]: show(at.rowid) };
  return Object.fromEntries(at.key.map((name, i) => [name, show(at.values[i]!)]));
}

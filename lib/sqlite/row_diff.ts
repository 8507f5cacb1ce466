/**
 * What differs between two database images, table by table and row by row. Compares stored
 * types and bytes exactly, runs nothing that the schemas bring along, and keeps no more than the rows shown in
 * memory. Both files must be whole images that no process changes, such as cache entries.
 */

import { nextTurn } from "../clock.ts";
import { TaskdError, throwIfInterrupted } from "../errors.ts";
import type { JsonValue, RowDiff, TableDiff } from "./diff_result.ts";
import { fullTextStorage } from "./_full_text.ts";
import { attempt, type OpenedImage, openImage, quoteName } from "./_image.ts";
import { exactColumnsSql, showValue, splitExact } from "./_row_values.ts";

/** Rows between two breaks, in which aborts and the process's other work get their turn. */
const ROWS_PER_TURN = 10_000;

export interface RowDiffOptions {
  /** Only these tables; absent means all. */
  tables?: string[];
  /** Rows to show of each table, default 0. */
  rows?: number;
  /**
   * Whether SQLite's own tables and those behind virtual tables are compared too; they come last, except the storage of a
   * full-text table, which is counted in its line.
   */
  internal?: boolean;
  /** Ends the comparison with `interrupted`. */
  signal?: AbortSignal | undefined;
}

export interface ComparedTable extends TableDiff {
  /** Of a full-text table, when asked for internal ones: rows that were added, removed or changed in what it is kept in. */
  storage_rows?: number;
}

interface Column {
  name: string;
  type: string;
  primary_key: number;
  /** 0 ordinary, 1 hidden in a virtual table, 2 and 3 generated. */
  hidden: number;
}

interface Table {
  name: string;
  virtual: boolean;
  without_rowid: boolean;
  columns: Column[];
  /** Whether the primary key has an index of its own, that is, is not the rowid. */
  key_index: boolean;
}

/** How rows of the two sides find each other. */
interface Plan {
  /** SQL that yields the key: one integer, or exact texts. */
  key: string[];
  key_columns: string[];
  by_rowid: boolean;
  columns: string[];
}

type Row = (bigint | string)[];

class Side {
  readonly path: string;
  readonly image: OpenedImage;
  readonly encoding: string;
  readonly tables: Map<string, Table>;
  /** Those that SQLite or a virtual table's module writes. */
  readonly internal: Set<string> = new Set();
  /** Those of them that are the storage of a full-text table, with its name. */
  readonly storage: Map<string, string> = new Map();

  constructor(path: string, options: { internal: boolean }) {
    this.path = path;
    this.image = openImage(path);
    try {
      this.encoding = this.#query("PRAGMA encoding")[0]![0] as string;
      this.tables = new Map(this.#readTables(options).map((table) => [table.name, table]));
      if (options.internal) this.#findStorage();
    } catch (error) {
      this.image.close();
      throw error;
    }
  }

  #query(sql: string, ...parameters: string[]): Row[] {
    return attempt(this.path, () => this.image.db.prepare(sql).all(...parameters)) as unknown as Row[];
  }

  #readTables({ internal }: { internal: boolean }): Table[] {
    // What sqlite_schema holds is definitions, not rows.
    const list = this.#query(
      "SELECT name, type, wr, type = 'shadow' OR name LIKE 'sqlite\\_%' ESCAPE '\\' FROM pragma_table_list" +
        " WHERE schema = 'main' AND type IN ('table', 'virtual', 'shadow') AND name <> 'sqlite_schema' ORDER BY name",
    );
    const tables: Table[] = [];
    for (const [name, type, without_rowid, is_internal] of list as [string, string, bigint, bigint][]) {
      if (is_internal === 1n) {
        if (!internal) continue;
        this.internal.add(name);
      }
      const virtual = type === "virtual";
      try {
        const columns = this.#query("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)", name)
          .map(([name, type, pk, hidden]) => ({
            name: String(name),
            type: String(type),
            primary_key: Number(pk),
            hidden: Number(hidden),
          }));
        const key_index = this.#query("SELECT 1 FROM pragma_index_list(?) WHERE origin = 'pk'", name).length > 0;
        tables.push({ name, virtual, without_rowid: without_rowid === 1n, columns, key_index });
      } catch (error) {
        if (!virtual) throw error; // its module may not exist here
      }
    }
    return tables;
  }

  #findStorage(): void {
    const definitions = this.#query("SELECT name, CAST(sql AS TEXT) FROM main.sqlite_schema WHERE type = 'table'");
    for (const [name, sql] of definitions.map((texts) => texts.map(String) as [string, string])) {
      if (!this.tables.get(name)?.virtual) continue;
      for (const table of fullTextStorage(name, sql)) if (this.internal.has(table)) this.storage.set(table, name);
    }
  }

  count(table: string): number {
    return Number(this.#query(`SELECT count(*) FROM main.${quoteName(table)}`)[0]![0]);
  }

  /** The rows in key order; throws `corrupt` rather than end early. */
  *rows(table: Table, plan: Plan): Generator<Row, undefined> {
    const expressions = [...plan.key, ...exactColumnsSql(plan.columns)];
    // A row's key by rowid is unique and sorted already; others may repeat (NULLs), so all columns order them.
    const order = plan.by_rowid ? plan.key[0]! : expressions.map((_, i) => i + 1).join(", ");
    // Not through an index: it could be damaged where the table is not.
    const from = `main.${quoteName(table.name)}${table.virtual ? "" : " NOT INDEXED"}`;
    const sql = `SELECT ${expressions.join(", ")} FROM ${from} ORDER BY ${order}`;
    const statement = attempt(this.path, () => this.image.db.prepare(sql));
    let seen = 0;
    for (const row of statement.iterate() as Iterable<unknown> as Iterable<Row>) {
      seen++;
      yield row;
    }
    // Deno 2.9's iterate() takes an error of SQLite for the end of the rows.
    const expected = this.count(table.name);
    if (seen !== expected) {
      throw new TaskdError(
        "corrupt",
        `Cannot read the database ${this.path}: ${seen} of ${expected} rows of the table ${table.name} can be read`,
      );
    }
  }
}

/**
 * Compares two database images.
 *
 * Rows are paired by primary key, or by rowid where a table has none. A virtual table is compared by what it shows, and left
 * out where it cannot be read. Tables named `sqlite_*` and those in which virtual tables keep their data are left out unless
 * `internal` asks for them; what a full-text table is kept in is then a count of its line (`storage_rows`), unless that
 * table cannot be read. Generated columns follow from the others and are not compared.
 * If the text encodings differ, every table of both sides is `schema`.
 *
 * @returns The tables that differ, by name, internal ones last. Of a changed row, `before` and `after` hold the columns
 * that differ. Text is cut after 200 characters, blobs after 64 bytes.
 * @throws {TaskdError} `not_found`, `not_a_database` or `corrupt`.
 */
export async function diffRows(path_a: string, path_b: string, options: RowDiffOptions = {}): Promise<ComparedTable[]> {
  const { internal = false } = options;
  const a = new Side(path_a, { internal });
  try {
    const b = new Side(path_b, { internal });
    try {
      const all = [...new Set([...a.tables.keys(), ...b.tables.keys()])].sort();
      // Internal on one side alone is no reason to come last.
      const isInternal = (name: string) => [a, b].every((side) => !side.tables.has(name) || side.internal.has(name));
      const names = [...all.filter((name) => !isInternal(name)), ...all.filter(isInternal)];
      const diffs = new Map<string, ComparedTable | undefined>();
      for (const name of names) {
        if (options.tables !== undefined && !options.tables.includes(name)) continue;
        throwIfInterrupted(options.signal);
        const diff = await diffTable(name, a, b, options);
        if (diff === "unreadable") continue;
        const owner = diff && storageOf(diff, a, b);
        if (owner === undefined || !diffs.has(owner)) diffs.set(name, diff);
        else diffs.set(owner, withStorage(diffs.get(owner) ?? unchanged(owner), diff!));
      }
      return [...diffs.values()].filter((diff) => diff !== undefined);
    } finally {
      b.image.close();
    }
  } finally {
    a.image.close();
  }
}

/** The full-text table that `diff` is of the storage of, on each side that has one of the two. */
function storageOf({ table, change }: TableDiff, a: Side, b: Side): string | undefined {
  const owner = a.storage.get(table) ?? b.storage.get(table);
  if (owner === undefined || change === "schema") return undefined;
  const isOn = ({ tables, storage }: Side) => tables.has(owner) ? storage.get(table) === owner : !tables.has(table);
  return [a, b].every(isOn) ? owner : undefined;
}

function withStorage(diff: ComparedTable, { rows_added, rows_removed, rows_changed }: TableDiff): ComparedTable {
  return { ...diff, storage_rows: (diff.storage_rows ?? 0) + rows_added + rows_removed + rows_changed };
}

function unchanged(table: string): TableDiff {
  return { table, change: "changed", rows_added: 0, rows_removed: 0, rows_changed: 0 };
}

async function diffTable(
  name: string,
  a: Side,
  b: Side,
  options: RowDiffOptions,
): Promise<TableDiff | "unreadable" | undefined> {
  const before = a.tables.get(name);
  const after = b.tables.get(name);
  const diff = unchanged(name);
  try {
    if (before === undefined) return { ...diff, change: "added", rows_added: b.count(name) };
    if (after === undefined) return { ...diff, change: "removed", rows_removed: a.count(name) };
    if (a.encoding !== b.encoding || JSON.stringify(before) !== JSON.stringify(after)) {
      return { ...diff, change: "schema" };
    }
    const shown = await mergeRows({ a, b, before, after, diff, options });
    if (diff.rows_added + diff.rows_removed + diff.rows_changed === 0) return undefined;
    return shown.length > 0 ? { ...diff, rows: shown } : diff;
  } catch (error) {
    if ((before ?? after)!.virtual && !options.signal?.aborted) return "unreadable";
    throw error;
  }
}

/** Walks both sides in key order, counts into `diff` and returns the first rows that differ. */
async function mergeRows(
  { a, b, before, after, diff, options }: {
    a: Side;
    b: Side;
    before: Table;
    after: Table;
    diff: TableDiff;
    options: RowDiffOptions;
  },
): Promise<RowDiff[]> {
  const plan = planOf(before);
  const shown: RowDiff[] = [];
  const limit = options.rows ?? 0;
  const show = (change: RowDiff["change"], row_a: Row | undefined, row_b: Row | undefined) => {
    if (shown.length < limit) shown.push(showRow(plan, change, { before: row_a, after: row_b, encoding: a.encoding }));
  };
  const rows_a = a.rows(before, plan);
  const rows_b = b.rows(after, plan);
  try {
    let row_a = rows_a.next().value;
    let row_b = rows_b.next().value;
    for (let turn = 1; row_a !== undefined || row_b !== undefined; turn++) {
      const order = row_a === undefined ? 1 : row_b === undefined ? -1 : compareKeys(row_a, row_b, plan.key.length);
      if (order < 0) {
        diff.rows_removed++;
        show("removed", row_a, undefined);
      } else if (order > 0) {
        diff.rows_added++;
        show("added", undefined, row_b);
      } else if (row_a!.some((value, i) => value !== row_b![i])) {
        diff.rows_changed++;
        show("changed", row_a, row_b);
      }
      if (order <= 0) row_a = rows_a.next().value;
      if (order >= 0) row_b = rows_b.next().value;
      if (turn % ROWS_PER_TURN === 0) {
        await nextTurn();
        throwIfInterrupted(options.signal);
      }
    }
    return shown;
  } finally {
    rows_a.return(undefined);
    rows_b.return(undefined);
  }
}

function planOf(table: Table): Plan {
  const columns = table.columns.filter((column) => column.hidden === 0).map((column) => column.name);
  const key_columns = table.columns.filter((column) => column.primary_key > 0)
    .sort((x, y) => x.primary_key - y.primary_key).map((column) => column.name);
  if (table.without_rowid || table.key_index) {
    return { key: exactColumnsSql(key_columns), key_columns, by_rowid: false, columns };
  }
  if (key_columns.length === 1) {
    return { key: [quoteName(key_columns[0]!)], key_columns, by_rowid: true, columns };
  }
  const taken = new Set(table.columns.map((column) => column.name.toLowerCase()));
  const rowid = ["rowid", "_rowid_", "oid"].find((name) => !taken.has(name));
  if (rowid !== undefined) return { key: [rowid], key_columns: ["rowid"], by_rowid: true, columns };
  // Columns hide every name of the rowid: the whole row is its own key.
  return { key: exactColumnsSql(columns), key_columns: columns, by_rowid: false, columns };
}

function compareKeys(a: Row, b: Row, length: number): number {
  for (let i = 0; i < length; i++) {
    if (a[i] !== b[i]) return a[i]! < b[i]! ? -1 : 1;
  }
  return 0;
}

function showRow(
  plan: Plan,
  change: RowDiff["change"],
  { before, after, encoding }: { before: Row | undefined; after: Row | undefined; encoding: string },
): RowDiff {
  const key_length = plan.key.length;
  const key_parts = (before ?? after)!.slice(0, key_length);
  const keys = plan.by_rowid ? [`I${key_parts[0]}`] : splitExact(key_parts as string[]);
  const key = Object.fromEntries(plan.key_columns.map((name, i) => [name, showValue(keys[i]!, encoding)]));
  const values_before = before && splitExact(before.slice(key_length) as string[]);
  const values_after = after && splitExact(after.slice(key_length) as string[]);
  const side = (values: string[]): Record<string, JsonValue> =>
    Object.fromEntries(
      plan.columns.map((name, i) => [name, i] as const)
        .filter(([, i]) => values_before?.[i] !== values_after?.[i])
        .map(([name, i]) => [name, showValue(values[i]!, encoding)]),
    );
  return {
    change,
    key,
    ...(values_before && { before: side(values_before) }),
    ...(values_after && { after: side(values_after) }),
  };
}

/**
 * One side of a comparison: an image, its definitions and its tables, and statements that read rows of them. Values are
 * SQLite's; nothing that the schema brings along runs.
 */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import { messageOf, TaskdError } from "../errors.ts";
import { attempt, nameKey, type OpenedImage, openImage, quoteName } from "./image.ts";
import { bytesOf, isText, readValues, type Value, valuesSql } from "./row_values.ts";
import { TreeFile } from "./_tree.ts";

export interface Column {
  name: string;
  type: string;
  /** Place in the primary key, from 1; 0 of others. */
  key: number;
  fallback: string | null;
}

export interface StoredTable {
  name: string;
  kind: "table" | "virtual" | "shadow";
  internal: boolean;
  /** As in `sqlite_schema`: the rows are read alike if it is the same. */
  sql: string;
  root: number;
  /** Those whose value is stored, or that a virtual table shows. */
  columns: Column[];
  /** SQL of the rowid; undefined where there is none or no name for it. */
  rowid: string | undefined;
  /** The column that is the rowid. */
  alias: string | undefined;
  /** Columns of the primary key, in its order. */
  key: string[];
  /**
   * SQL that reads the table and no index, which could be damaged where the table is not. Without rowids, `NOT INDEXED`
   * would let SQLite take one that has all columns.
   */
  from: string;
}

export interface Entry {
  type: string;
  name: string;
  table: string;
  root: number;
  /** Type, name and table as they are stored, and the SQL. */
  values: Value[];
}

export interface StoredRow {
  rowid: bigint;
  values: Value[];
}

export interface Span {
  low: bigint;
  high: bigint;
}

type Answer = (bigint | string | null)[];

export class Side implements Disposable {
  readonly path: string;
  readonly encoding: string;
  readonly entries: Entry[];
  /** By the keys of their names. */
  readonly tables: Map<string, StoredTable>;
  readonly file: TreeFile;
  readonly #image: OpenedImage;

  constructor(path: string) {
    this.path = path;
    this.#image = openImage(path);
    try {
      this.encoding = this.query("PRAGMA encoding")[0]![0] as string;
      this.entries = this.#readEntries();
      this.tables = new Map(this.#readTables().map((table) => [nameKey(table.name), table]));
      this.file = new TreeFile(path);
    } catch (error) {
      this.#image[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Names that hold bytes which are no text. SQLite finds what they name by those bytes, and a string does not keep
   * them: two may look alike, and nothing distinguishes what they name.
   */
  get odd_names(): string[] {
    const names = [
      ...this.entries.flatMap(({ name, table }) => [name, table]),
      ...[...this.tables.values()].flatMap(({ name, columns }) => [name, ...columns.map((column) => column.name)]),
    ];
    return [...new Set(names)].filter((name) => name.includes("\ufffd") || !name.isWellFormed());
  }

  /** A table by its name, in any case. */
  table(name: string): StoredTable | undefined {
    return this.tables.get(nameKey(name));
  }

  query(sql: string, ...parameters: string[]): Answer[] {
    return attempt(this.path, () => this.#image.db.prepare(sql).all(...parameters)) as unknown as Answer[];
  }

  #prepare(sql: string): StatementSync {
    return attempt(this.path, () => this.#image.db.prepare(sql));
  }

  #readEntries(): Entry[] {
    const columns = ["type", "name", "tbl_name", "sql"];
    const rows = this.query(`SELECT rootpage, ${valuesSql(columns).join(", ")} FROM main.sqlite_schema ORDER BY rowid`);
    return rows.map((row) => {
      const values = readValues(row, { from: 1, count: columns.length, encoding: this.encoding });
      const [type, name, table] = values.map((value) => nameOf(value));
      return { type: type!, name: name!, table: table!, root: Number(row[0] ?? 0), values };
    });
  }

  #readTables(): StoredTable[] {
    const entries = new Map(this.entries.filter(({ type }) => type === "table").map((entry) => [entry.name, entry]));
    // What sqlite_schema holds is definitions.
    const list = this.query(
      "SELECT name, type, wr, name LIKE 'sqlite\\_%' ESCAPE '\\' FROM pragma_table_list" +
        " WHERE schema = 'main' AND type IN ('table', 'virtual', 'shadow') AND name <> 'sqlite_schema' ORDER BY name",
    );
    return (list as [string, StoredTable["kind"], bigint, bigint][]).map(([name, kind, without_rowid, own]) => {
      const entry = entries.get(name);
      const shape = { name, kind, internal: own === 1n || kind === "shadow", root: entry?.root ?? 0 };
      const sql = entry === undefined ? "" : nameOf(entry.values[3]!);
      try {
        return { ...shape, sql, ...this.#readColumns(name, kind, without_rowid === 1n) };
      } catch (error) {
        if (kind !== "virtual") throw error; // its module may not exist here
        return {
          ...shape,
          sql,
          columns: [],
          rowid: undefined,
          alias: undefined,
          key: [],
          from: `main.${quoteName(name)}`,
        };
      }
    });
  }

  #readColumns(name: string, kind: StoredTable["kind"], without_rowid: boolean) {
    const all = this.query("SELECT name, type, pk, hidden, CAST(dflt_value AS TEXT) FROM pragma_table_xinfo(?)", name);
    const columns = all.filter(([, , , hidden]) => hidden === 0n || hidden === 3n && kind !== "virtual")
      .map(([name, type, key, , fallback]) => ({
        name: String(name),
        type: String(type),
        key: Number(key),
        fallback: fallback === null ? null : String(fallback),
      }));
    const key = columns.filter((column) => column.key > 0).sort((x, y) => x.key - y.key).map(({ name }) => name);
    const [key_index] = this.query("SELECT name FROM pragma_index_list(?) WHERE origin = 'pk'", name);
    const alias = without_rowid || key_index !== undefined || key.length !== 1 ? undefined : key[0];
    const taken = new Set(all.map(([column]) => nameKey(String(column))));
    const rowid = without_rowid
      ? undefined
      : alias === undefined
      ? ["rowid", "_rowid_", "oid"].find((word) => !taken.has(word))
      : quoteName(alias);
    const table = `main.${quoteName(name)}`;
    const by = kind === "virtual" ? "" : without_rowid ? ` INDEXED BY ${quoteName(String(key_index))}` : " NOT INDEXED";
    return { columns, rowid, alias, key, from: `${table}${by}` };
  }

  /** Not everything that a definition asks for is there: collations are an application's. */
  #canRun(sql: string): boolean {
    try {
      this.#prepare(sql);
      return true;
    } catch {
      return false;
    }
  }

  /**
   * The rows of a table in order of the rowid, where it has one, else of `order`; throws `corrupt` rather than end early.
   *
   * @param options.skip Rows to leave out, of those that have no rowid.
   */
  *rows(
    table: StoredTable,
    { columns, order = [], span, skip = 0, sorted = false }: {
      columns: readonly string[];
      /** Rows are stored in the order of their rowids, as they should be. */
      sorted?: boolean;
      order?: readonly string[];
      span?: Span;
      skip?: number;
    },
  ): Generator<StoredRow, undefined> {
    const from = `FROM ${table.from}${span === undefined ? "" : ` WHERE ${table.rowid} BETWEEN ? AND ?`}`;
    const by = table.rowid !== undefined
      ? `${sorted ? "" : "+"}${table.rowid}`
      : order.map((column) => `${quoteName(column)} COLLATE BINARY`).join(", ");
    const select = [table.rowid ?? "0", ...valuesSql(columns)].join(", ");
    const bounds = span === undefined ? [] : [span.low, span.high];
    const offset = skip === 0 ? "" : ` LIMIT -1 OFFSET ${skip}`;
    const statement = this.#prepare(`SELECT ${select} ${from}${by === "" ? "" : ` ORDER BY ${by}`}${offset}`);
    const decoded = { from: 1, count: columns.length, encoding: this.encoding };
    let seen = 0;
    for (const row of statement.iterate(...bounds) as Iterable<unknown> as Iterable<Answer>) {
      seen++;
      yield { rowid: row[0] as bigint, values: readValues(row, decoded) };
    }
    // Deno 2.9's iterate() takes an error of SQLite for the end of the rows.
    const counted = attempt(this.path, () => this.#prepare(`SELECT count(*) ${from}`).get(...bounds));
    const expected = Number((counted as unknown as Answer)[0]) - skip;
    if (seen !== expected) {
      throw new TaskdError(
        "corrupt",
        `Cannot read the database ${this.path}: ${seen} of ${expected} rows of the table ${table.name} can be read`,
      );
    }
  }

  /** Finds rows of a table by rowid, and rowids by key. */
  finder(table: StoredTable, columns: readonly string[]): Finder {
    const from = `FROM main.${quoteName(table.name)} WHERE`;
    const row = this.#prepare(`SELECT ${[table.rowid!, ...valuesSql(columns)].join(", ")} ${from} ${table.rowid} = ?`);
    const by_key = new Map<string, StatementSync | undefined>();
    return {
      row: (rowid) => {
        const found = attempt(this.path, () => row.get(rowid)) as unknown as Answer | undefined;
        if (found === undefined) return undefined;
        return { rowid, values: readValues(found, { from: 1, count: columns.length, encoding: this.encoding }) };
      },
      rowid: (key) => {
        const tests = table.key.map((name, i) => `${quoteName(name)} = ${placeholder(key[i]!)}`).join(" AND ");
        const sql = `SELECT ${table.rowid} ${from} ${tests}`;
        if (!by_key.has(sql)) by_key.set(sql, this.#canRun(sql) ? this.#prepare(sql) : undefined);
        const statement = by_key.get(sql);
        if (statement === undefined) return undefined;
        const answer = attempt(this.path, () => statement.get(...key.map(bound))) as unknown as Answer | undefined;
        return answer?.[0] as bigint | undefined;
      },
    };
  }

  /** What `PRAGMA integrity_check` says of a table and its indexes. */
  check(table: string): string[] {
    try {
      return this.query(`PRAGMA integrity_check(${quoteName(table)})`).map(([line]) => String(line))
        .filter((line) => line !== "ok");
    } catch (error) {
      return [messageOf(error)];
    }
  }

  count(table: StoredTable): number {
    return Number(this.query(`SELECT count(*) FROM ${table.from}`)[0]![0]);
  }

  [Symbol.dispose](): void {
    this.file[Symbol.dispose]();
    this.#image[Symbol.dispose]();
  }
}

export interface Finder {
  row(rowid: bigint): StoredRow | undefined;
  /** Undefined also where the key's collation is not known. */
  rowid(key: readonly Value[]): bigint | undefined;
}

function placeholder(value: Value): string {
  return isText(value) ? "CAST(? AS TEXT)" : "?";
}

function bound(value: Value): null | bigint | number | Uint8Array {
  return isText(value) ? value.text : value;
}

function nameOf(value: Value): string {
  const bytes = bytesOf(value);
  if (bytes === undefined) return value === null ? "" : String(value);
  return new TextDecoder(isText(value) ? value.encoding : "UTF-8", { ignoreBOM: true }).decode(bytes);
}

/** A literal that says all by itself; a word is a text, as is a name in quotes. */
const LITERAL =
  /^(?:(?!current_(?:time|date|timestamp)$)[a-z_]\w*|[+-]?\s*(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|[+-]?\s*0x[\da-f]+|x?'(?:[^']|'')*'|"(?:[^"]|"")*")$/i;

/** What rows have in a column that was added to their table after them; null for a default that is no plain value. */
export function defaultOf({ type, fallback }: Column, encoding: string): Value {
  return fallback === null || !LITERAL.test(fallback) ? null : evaluated(type, fallback, encoding);
}

/** What a row has in a column that it is added without; null too where that takes what is not there. */
export function computedDefault({ type, fallback }: Column, encoding: string): Value {
  if (fallback === null) return null;
  try {
    return evaluated(type, LITERAL.test(fallback) ? fallback : `(${fallback})`, encoding);
  } catch {
    return null;
  }
}

function evaluated(type: string, fallback: string, encoding: string): Value {
  using db = new DatabaseSync(":memory:", { readBigInts: true, returnArrays: true } as object);
  db.exec(`PRAGMA trusted_schema=OFF; PRAGMA encoding='${encoding}'`);
  db.exec(`CREATE TABLE t(x ${type === "" ? "" : quoteName(type)} DEFAULT ${fallback})`);
  db.exec("INSERT INTO t DEFAULT VALUES");
  const row = db.prepare(`SELECT ${valuesSql(["x"]).join(", ")} FROM t`).get() as unknown as unknown[];
  return readValues(row, { from: 0, count: 1, encoding })[0]!;
}

/**
 * Random histories of a database's definitions and rows, for tests of merges. A change is drawn as numbers, and carried out
 * where SQLite does it; where each column comes from is remembered.
 */

import { DatabaseSync } from "node:sqlite";
import fc from "../packages/fast_check.ts";
import { quoteName } from "../../lib/sqlite/image.ts";

/** A database before its histories. */
export const BASE = [
  "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b TEXT, c)",
  "CREATE TABLE k(id TEXT PRIMARY KEY, a, b TEXT, c) WITHOUT ROWID",
  "CREATE TABLE n(a, b TEXT, c)",
  "CREATE TABLE m0(id INTEGER PRIMARY KEY, a, b TEXT)",
  "CREATE INDEX t_a ON t(a)",
  "CREATE VIEW t_view AS SELECT id, b FROM t",
  "CREATE TRIGGER k_trigger AFTER UPDATE OF a ON k BEGIN UPDATE k SET c = 'seen' WHERE id = NEW.id; END",
  ...[1, 2, 3, 4, 5].flatMap((i) => [
    `INSERT INTO t VALUES (${i}, 'a${i}', 'b${i}', ${i})`,
    `INSERT INTO k VALUES ('${i}', 'a${i}', 'b${i}', ${i})`,
    `INSERT INTO n VALUES ('a${i}', 'b${i}', ${i})`,
    `INSERT INTO m0 VALUES (${i}, 'a${i}', 'b${i}')`,
  ]),
];
const VALUES = ["NULL", "0", "1.5", "'x'", "'Y'", "x'00ff'", "9223372036854775807"];
const KINDS = [
  "insert",
  "update",
  "delete",
  "add",
  "drop",
  "rename",
  "index",
  "trigger",
  "view",
  "undefine",
  "table",
] as const;

type Kind = typeof KINDS[number];
/** One change, in numbers that mean something once a database is there. */
export interface Op {
  kind: Kind;
  table: number;
  key: number;
  one: number;
  other: number;
}

/** What a side may touch; everything when absent. */
export interface Bounds {
  tables?: readonly string[];
  /** Keys of rows, from and to. */
  keys?: readonly [number, number];
  kinds?: readonly Kind[];
  /** Begins the names of what it makes. */
  prefix?: string;
}

export const anyOps = fc.array(
  fc.record({ kind: fc.constantFrom(...KINDS), table: fc.nat(9), key: fc.nat(99), one: fc.nat(99), other: fc.nat(99) }),
  { maxLength: 7 },
);

/** Where the columns of a side's tables come from: by table, of each column its name in the base, or `+name`. */
export type Origins = Map<string, Map<string, string>>;

/** A side's history: its statements, and where its columns come from. */
export class History {
  readonly statements: string[] = [];
  readonly origins: Origins = new Map();
  /** Defaults of the columns that it added, as SQL. */
  readonly defaults = new Map<string, string>();
  readonly #db: DatabaseSync;
  readonly #bounds: Bounds;
  /** Tables that lost a column: another one there would look like its new name. */
  readonly #narrowed = new Set<string>();

  constructor(path: string, ops: readonly Op[], bounds: Bounds = {}) {
    using db = this.#db = open(path);
    db.exec("PRAGMA synchronous = OFF");
    this.#bounds = bounds;
    for (const name of tablesOf(db)) {
      this.origins.set(name, new Map(columnsOf(db, name).map((column) => [column, column])));
    }
    for (const op of ops) if (bounds.kinds === undefined || bounds.kinds.includes(op.kind)) this.#do(op);
  }

  #do({ kind, table: number, key: of, one, other }: Op): void {
    const { tables: allowed, keys: [low, high] = [1, 8], prefix = "" } = this.#bounds;
    const tables = tablesOf(this.#db).filter((name) => allowed?.includes(name) ?? true);
    if (kind === "table") return this.#table(`${prefix}m${one % 2}`, other);
    const table = tables[number % tables.length];
    if (table === undefined) return;
    const origins = this.origins.get(table)!;
    const columns = columnsOf(this.#db, table);
    const id = keyOf(this.#db, table);
    const others = columns.filter((column) => column !== id);
    const column = others[one % others.length];
    const key = low + of % (high - low + 1);
    const [into, value] = [quoteName(table), VALUES[other % VALUES.length]!];
    const where = `${id === undefined ? "rowid" : quoteName(id)} = ${key}`;
    const name = `${prefix}${kind}${one % 3}`;
    // A renamed column is known by its place, in a table of as many columns: else it looks like a new one.
    const [plain, is_renamed] = [allowed !== undefined, origins.has("x") || origins.has("Y y")];
    if (column === undefined) return;
    switch (kind) {
      case "insert": {
        const all = [id === undefined ? "rowid" : quoteName(id), ...others.map(quoteName)];
        const values = others.map((_, i) => VALUES[(other + i * one) % VALUES.length]);
        return this.#run(`INSERT INTO ${into}(${all.join(", ")}) VALUES(${[key, ...values].join(", ")})`);
      }
      case "update":
        return this.#run(`UPDATE ${into} SET ${quoteName(column)} = ${value} WHERE ${where}`);
      case "delete":
        return this.#run(`DELETE FROM ${into} WHERE ${where}`);
      case "add": {
        const added = ["d", "E e", "f"][one % 3]!;
        const fallback = ["NULL", "'new'", "7"][other % 3]!;
        const not_null = other % 3 === 2 ? " NOT NULL" : "";
        if (this.#narrowed.has(table) || plain && is_renamed) return;
        return this.#run(`ALTER TABLE ${into} ADD COLUMN ${quoteName(added)}${not_null} DEFAULT ${fallback}`, () => {
          origins.set(added, `+${added}`);
          this.defaults.set(`${table} +${added}`, fallback);
        });
      }
      case "drop":
        if (plain && is_renamed) return;
        return this.#run(`ALTER TABLE ${into} DROP COLUMN ${quoteName(column)}`, () => {
          origins.delete(column);
          this.#narrowed.add(table);
        });
      case "rename": {
        const from = columns[other % columns.length]!;
        const now = ["x", "Y y"][one % 2]!;
        if (plain && (this.#narrowed.has(table) || [...origins.values()].some((from) => from.startsWith("+")))) return;
        return this.#run(`ALTER TABLE ${into} RENAME COLUMN ${quoteName(from)} TO ${quoteName(now)}`, () => {
          origins.set(now, origins.get(from)!);
          origins.delete(from);
        });
      }
      case "index":
        return this.#run(`CREATE ${other % 4 === 0 ? "UNIQUE " : ""}INDEX "${name}" ON ${into}(${quoteName(column)})`);
      case "view":
        return this.#run(`CREATE VIEW "${name}" AS SELECT ${quoteName(column)} FROM ${into}`);
      case "trigger": {
        const set = `UPDATE ${into} SET ${quoteName(column)} = 'fired' WHERE ${
          id === undefined ? "rowid" : quoteName(id)
        }`;
        const when = other % 2 === 0 ? "INSERT" : "UPDATE";
        const row = id === undefined ? "NEW.rowid" : `NEW.${quoteName(id)}`;
        return this.#run(`CREATE TRIGGER "${name}" AFTER ${when} ON ${into} BEGIN ${set} = ${row}; END`);
      }
      case "undefine": {
        const there = this.#db.prepare(
          "SELECT type, name FROM sqlite_schema WHERE type <> 'table' AND sql NOT NULL AND tbl_name <> name AND tbl_name = ? " +
            "UNION ALL SELECT 'view', name FROM sqlite_schema WHERE type = 'view' AND name = ? || '_view' ORDER BY 2",
        ).all(table, table);
        const found = there[one % there.length];
        if (found !== undefined) this.#run(`DROP ${found.type} ${quoteName(String(found.name))}`);
      }
    }
  }

  #table(name: string, other: number): void {
    if (this.#bounds.tables !== undefined && !this.#bounds.tables.includes(name)) return;
    if (tablesOf(this.#db).includes(name)) return this.#run(`DROP TABLE ${name}`, () => this.origins.delete(name));
    const columns = other % 2 === 0 ? ["id", "q"] : ["id", "a", "b", "q"];
    this.#run(`CREATE TABLE ${name}(id INTEGER PRIMARY KEY, ${columns.slice(1).join(", ")})`, () => {
      this.origins.set(name, new Map(columns.map((column) => [column, column])));
    });
  }

  /** Runs it, where SQLite does: names that are taken, columns that others need. */
  #run(sql: string, done = () => {}): void {
    try {
      this.#db.exec(sql);
    } catch {
      return;
    }
    this.statements.push(sql);
    done();
  }
}

export function open(path: string): DatabaseSync {
  return new DatabaseSync(path, { readBigInts: true } as object);
}

export function tablesOf(db: DatabaseSync): string[] {
  return db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all().map(({ name }) =>
    String(name)
  );
}

export function columnsOf(db: DatabaseSync, table: string): string[] {
  return db.prepare("SELECT name FROM pragma_table_info(?)").all(table).map(({ name }) => String(name));
}

export function keyOf(db: DatabaseSync, table: string): string | undefined {
  const found = db.prepare("SELECT name FROM pragma_table_info(?) WHERE pk = 1").get(table);
  return found && String(found.name);
}

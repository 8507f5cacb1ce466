/**
 * Merges of random histories that change definitions and rows on both sides, held against a model: what either side did
 * alone is in the result, whole; or the merge is refused and the target is as it was.
 */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import fc from "../../tests/packages/fast_check.ts";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { quoteName } from "../sqlite/image.ts";
import { hasCode } from "../errors.ts";
import { SourceChanges } from "./source_changes.ts";
import { mergeInto, type MergeOutcome } from "./three_way.ts";

const BASE = [
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
interface Op {
  kind: Kind;
  table: number;
  key: number;
  one: number;
  other: number;
}

/** What a side may touch; everything when absent. */
interface Bounds {
  tables?: readonly string[];
  /** Keys of rows, from and to. */
  keys?: readonly [number, number];
  kinds?: readonly Kind[];
  /** Begins the names of what it makes. */
  prefix?: string;
}

const anyOps = fc.array(
  fc.record({ kind: fc.constantFrom(...KINDS), table: fc.nat(9), key: fc.nat(99), one: fc.nat(99), other: fc.nat(99) }),
  { maxLength: 7 },
);

/** Where the columns of a side's tables come from: by table, of each column its name in the base, or `+name`. */
type Origins = Map<string, Map<string, string>>;

/** A side's history: its statements, and where its columns come from. */
class History {
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

function open(path: string): DatabaseSync {
  return new DatabaseSync(path, { readBigInts: true } as object);
}

function tablesOf(db: DatabaseSync): string[] {
  return db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all().map(({ name }) =>
    String(name)
  );
}

function columnsOf(db: DatabaseSync, table: string): string[] {
  return db.prepare("SELECT name FROM pragma_table_info(?)").all(table).map(({ name }) => String(name));
}

function keyOf(db: DatabaseSync, table: string): string | undefined {
  const found = db.prepare("SELECT name FROM pragma_table_info(?) WHERE pk = 1").get(table);
  return found && String(found.name);
}

/** A table's rows by their key, each with its cells by column: type and text of every value. */
type Rows = Map<string, Map<string, string>>;

/** A database as the model sees it. */
interface Content {
  /** SQL by type and name. */
  definitions: Map<string, string>;
  tables: Map<string, Rows>;
}

/** Reads it; columns go by their origins. */
function contentOf(path: string, origins: Origins): Content {
  using db = open(path);
  const definitions = db.prepare("SELECT type || ' ' || name AS name, sql FROM sqlite_schema WHERE sql NOT NULL").all();
  const tables = tablesOf(db).map((table): [string, Rows] => {
    const from = origins.get(table) ?? new Map<string, string>();
    const columns = columnsOf(db, table);
    const id = keyOf(db, table);
    const cells = columns.map((column, i) => `typeof(${quoteName(column)}) || quote(${quoteName(column)}) AS c${i}`);
    const rows = db.prepare(
      `SELECT ${id === undefined ? "rowid" : quoteName(id)} AS row_key, ${cells.join(", ")} FROM ${quoteName(table)}`,
    ).all();
    return [
      table,
      new Map(rows.map((row) => [
        String(row.row_key),
        new Map(columns.map((column, i) => [from.get(column) ?? column, String(row[`c${i}`])])),
      ])),
    ];
  });
  return {
    definitions: new Map(definitions.map(({ name, sql }) => [String(name), String(sql)])),
    tables: new Map(tables),
  };
}

/** Everything of a database, to be compared as it is. */
function snapshot(path: string): object {
  const { definitions, tables } = contentOf(path, new Map());
  const sorted = <T>(map: Map<string, T>) => [...map].sort(([a], [b]) => a < b ? -1 : 1);
  return [
    sorted(definitions),
    sorted(tables).map(([table, rows]) => [table, sorted(rows).map(([key, row]) => [key, [...row]])]),
  ];
}

/** What a merge of three has to be, where it is not refused: throws where both changed one thing differently. */
function modelOf(
  base: Content,
  ours: Content,
  theirs: Content,
  fallback: (table: string, column: string) => string,
): Content {
  const pick = <T>(what: string, [of_base, of_ours, of_theirs]: readonly [T, T, T]): T => {
    if (of_theirs === of_base) return of_ours;
    if (of_ours !== of_base && of_ours !== of_theirs) throw new Error(`${what} was merged, and both sides changed it`);
    return of_theirs;
  };
  const union = <T>(...maps: (Map<string, T> | undefined)[]) => new Set(maps.flatMap((map) => [...map?.keys() ?? []]));
  const definitions = new Map<string, string>();
  for (const name of union(base.definitions, ours.definitions, theirs.definitions)) {
    const sql = pick(name, [base.definitions.get(name), ours.definitions.get(name), theirs.definitions.get(name)]);
    if (sql !== undefined) definitions.set(name, sql);
  }
  const tables = new Map<string, Rows>();
  for (const table of union(base.tables, ours.tables, theirs.tables)) {
    const name = `table ${table}`;
    if (!definitions.has(name)) continue;
    const from_theirs = theirs.definitions.get(name) !== base.definitions.get(name);
    const sides = [base, ours, theirs].map((side) => side.tables.get(table));
    const shape = from_theirs ? theirs : ours;
    const columns = union(...shape.tables.get(table)?.values() ?? []);
    const rows: Rows = new Map();
    for (const key of union(...sides)) {
      const [b, o, t] = sides.map((side) => side?.get(key));
      if (b !== undefined && (o === undefined || t === undefined)) continue;
      const cell = (row: Map<string, string> | undefined, column: string, other: string) =>
        row === undefined ? other : row.get(column) ?? fallback(table, column);
      rows.set(
        key,
        new Map([...columns].map((column) => {
          if (b !== undefined) {
            const cells = [b, o, t].map((row) => cell(row, column, "")) as [string, string, string];
            return [column, pick(`${table} ${key} ${column}`, cells)];
          }
          // A row that one of them inserted, or both alike.
          const of_ours = cell(o, column, cell(t, column, ""));
          return [column, pick(`${table} ${key} ${column}`, [of_ours, of_ours, cell(t, column, of_ours)])];
        })),
      );
    }
    tables.set(table, rows);
  }
  return { definitions, tables };
}

/** What each definition needs is there: SQLite looks when a table gets another name. */
function brokenDefinition(path: string): string | undefined {
  using db = open(path);
  db.exec("BEGIN; CREATE TABLE probe(x)");
  try {
    db.exec("ALTER TABLE probe RENAME TO probed");
  } catch (error) {
    return (error as Error).message;
  } finally {
    db.exec("ROLLBACK");
  }
}

interface Sides {
  ours: readonly Op[];
  theirs: readonly Op[];
}

/** Three databases, of which two went on, merged; all properties that hold of every merge are asserted. */
function mergeSides(
  { ours: of_ours, theirs: of_theirs }: Sides,
  bounds: { ours?: Bounds; theirs?: Bounds; always?: boolean } = {},
): Promise<boolean> {
  return withDirectory(async (directory) => {
    const [base, ours, theirs] = ["base", "ours", "theirs"].map((name) => `${directory}/${name}`) as [
      string,
      string,
      string,
    ];
    using db = new DatabaseSync(base);
    db.exec("PRAGMA synchronous = OFF");
    for (const statement of BASE) db.exec(statement);
    db.close();
    for (const path of [ours, theirs]) Deno.copyFileSync(base, path);
    const none = new History(base, []);
    const here = new History(ours, of_ours, bounds.ours);
    const there = new History(theirs, of_theirs, bounds.theirs);
    const said = `ours: ${here.statements.join("; ")} | theirs: ${there.statements.join("; ")}`;
    const before = snapshot(ours);
    const whole = [ours, theirs].every((path) => brokenDefinition(path) === undefined);
    const merge = async (from: string, to: string) => {
      using changes = await SourceChanges.read(from, to);
      return await mergeInto(ours, changes).catch((error): Pick<MergeOutcome, "merged"> & { why: unknown } => {
        if (!hasCode(error, "conflict")) throw error;
        return { merged: false, why: error.message };
      });
    };
    const [c_base, c_ours, c_theirs] = [
      contentOf(base, none.origins),
      contentOf(ours, here.origins),
      contentOf(theirs, there.origins),
    ];
    const outcome = await merge(base, theirs);
    if (!outcome.merged) {
      assertEquals(snapshot(ours), before, said);
      assert(!bounds.always, `${said}: ${JSON.stringify(outcome)}`);
      return false;
    }
    const fallback = (table: string, column: string) => {
      const sql = there.defaults.get(`${table} ${column}`) ?? here.defaults.get(`${table} ${column}`) ?? "NULL";
      using memory = new DatabaseSync(":memory:");
      return String(memory.prepare(`SELECT typeof(${sql}) || quote(${sql}) AS value`).get()!.value);
    };
    const model = modelOf(c_base, c_ours, c_theirs, fallback);
    const origins: Origins = new Map([...model.tables.keys()].map((table) => {
      const from_theirs = c_theirs.definitions.get(`table ${table}`) !== c_base.definitions.get(`table ${table}`);
      return [table, (from_theirs ? there : here).origins.get(table)!];
    }));
    const merged = contentOf(ours, origins);
    assertEquals(merged.definitions, model.definitions, said);
    for (const [table, rows] of model.tables) assertEquals(merged.tables.get(table), rows, `${table}: ${said}`);
    assertEquals([...merged.tables.keys()].sort(), [...model.tables.keys()].sort(), said);
    using check = new DatabaseSync(ours);
    assertEquals(check.prepare("PRAGMA integrity_check").get()!.integrity_check, "ok", said);
    check.close();
    if (whole) assertEquals(brokenDefinition(ours), undefined, said);
    const after = snapshot(ours);
    // Merged twice is merged once.
    assertEquals((await merge(base, theirs)).merged, true, said);
    assertEquals(snapshot(ours), after, said);
    // What both did is taken back with the merge; else everything is as it was.
    const alike = [...c_theirs.definitions].some(([name, sql]) =>
      sql !== c_base.definitions.get(name) && sql === c_ours.definitions.get(name)
    ) || [...c_base.definitions.keys()].some((name) =>
      !c_theirs.definitions.has(name) && !c_ours.definitions.has(name)
    ) ||
      "tables" in outcome && outcome.tables.some(({ rows_already }) => rows_already > 0);
    const reverted = await merge(theirs, base);
    if (!reverted.merged) assertEquals(snapshot(ours), after, said);
    else if (!alike) assertEquals(snapshot(ours), before, said);
    assert(reverted.merged || !bounds.always, `${said}, reverted: ${JSON.stringify(reverted)}`);
    return true;
  });
}

const RUNS = scaled({ short: 60, long: 1_000, longest: 10_000 });
const anySides = fc.record({ ours: anyOps, theirs: anyOps });

scaledTest("property: definitions and rows of both sides are merged whole, or nothing is changed", async () => {
  let merged = 0;
  await fc.assert(
    fc.asyncProperty(anySides, async (sides) => {
      if (await mergeSides(sides)) merged++;
    }),
    { numRuns: RUNS },
  );
  assert(merged > RUNS / 5, `${merged} of ${RUNS} were merged`);
});

scaledTest("property: sides that changed different tables are merged, and the merge is taken back", async () => {
  const ours = { tables: ["t", "n", "ours_m0", "ours_m1"], prefix: "ours_" };
  const theirs = { tables: ["k", "m0", "theirs_m0", "theirs_m1"], prefix: "theirs_" };
  await fc.assert(
    fc.asyncProperty(anySides, async (sides) => {
      await mergeSides(sides, { ours, theirs, always: true });
    }),
    { numRuns: RUNS },
  );
});

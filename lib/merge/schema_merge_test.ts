/**
 * Merges of random histories that change definitions and rows on both sides, held against a model: what either side did
 * alone is in the result, whole; or the merge is refused and the target is as it was.
 */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import fc from "../../tests/packages/fast_check.ts";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import {
  anyOps,
  BASE,
  type Bounds,
  columnsOf,
  History,
  keyOf,
  type Op,
  open,
  type Origins,
  tablesOf,
} from "../../tests/support/schema_histories.ts";
import { sql, withDirectory } from "../../tests/support/stores.ts";
import { quoteName } from "../sqlite/image.ts";
import { hasCode } from "../errors.ts";
import { SourceChanges } from "./source_changes.ts";
import { mergeInto, type MergeOutcome, type ThreeWayOptions } from "./three_way.ts";

/** A table's rows by their key, each with its cells by column: type and text of every value. */
type Rows = Map<string, Map<string, string>>;

/** A database as the model sees it. */
interface Content {
  /** SQL by type and name. */
  definitions: Map<string, string>;
  tables: Map<string, Rows>;
  /** Origins of each table's columns. */
  columns: Map<string, string[]>;
}

/** Reads it; columns go by their origins. */
function contentOf(path: string, origins: Origins): Content {
  using db = open(path);
  const definitions = db.prepare("SELECT type || ' ' || name AS name, sql FROM sqlite_schema WHERE sql NOT NULL").all();
  const origin = (table: string) => columnsOf(db, table).map((name) => origins.get(table)?.get(name) ?? name);
  const columns = new Map(tablesOf(db).map((table) => [table, origin(table)]));
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
    columns,
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
    const columns = shape.columns.get(table) ?? [];
    const rows: Rows = new Map();
    for (const key of union(...sides)) {
      const [b, o, t] = sides.map((side) => side?.get(key));
      if (b !== undefined && (o === undefined || t === undefined)) continue;
      const cell = (row: Map<string, string> | undefined, column: string, other: string) =>
        row === undefined ? other : row.get(column) ?? fallback(table, column);
      rows.set(
        key,
        new Map(columns.map((column) => {
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
  return { definitions, tables, columns: new Map() };
}

/** What each definition needs is there: SQLite looks when a table gets another name, and when a trigger is to fire. */
function brokenDefinition(path: string): string | undefined {
  using db = open(path);
  db.exec("BEGIN; CREATE TABLE probe(x)");
  try {
    db.exec("ALTER TABLE probe RENAME TO probed");
    for (const { tbl_name: table } of db.prepare("SELECT tbl_name FROM sqlite_schema WHERE type = 'trigger'").all()) {
      const name = quoteName(String(table));
      const set = columnsOf(db, String(table)).map((column) => `${quoteName(column)} = ${quoteName(column)}`);
      for (
        const statement of [`INSERT INTO ${name} DEFAULT VALUES`, `UPDATE ${name} SET ${set}`, `DELETE FROM ${name}`]
      ) {
        db.prepare(statement);
      }
    }
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
  bounds: { ours?: Bounds; theirs?: Bounds; always?: "merged" | "reverted" } = {},
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
    const had = `${directory}/had`;
    Deno.copyFileSync(ours, had);
    const whole = [ours, theirs].every((path) => brokenDefinition(path) === undefined);
    const merge = async (from: string, to: string, before?: string) => {
      using changes = await SourceChanges.read(from, to, {
        before: before === undefined ? undefined : [{ path: before }],
      });
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
      // A view of a table that is no more keeps SQLite from taking other definitions over.
      assert(bounds.always === undefined || !whole, `${said}: ${JSON.stringify(outcome)}`);
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
    // Also what both did is as it was.
    const reverted = await merge(theirs, base, had);
    assertEquals(snapshot(ours), reverted.merged ? before : after, said);
    assert(reverted.merged || bounds.always !== "reverted" || !whole, `${said}, reverted: ${JSON.stringify(reverted)}`);
    return true;
  });
}

const RUNS = scaled({ short: 25, long: 1_000, longest: 10_000 });
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
      await mergeSides(sides, { ours, theirs, always: "reverted" });
    }),
    { numRuns: RUNS },
  );
});

scaledTest("property: other rows, new columns, triggers and views beside them are never in conflict", async () => {
  const rows = ["insert", "update", "delete"] as const;
  const ours = { keys: [1, 3], kinds: rows } as const;
  const theirs = { keys: [4, 8], kinds: [...rows, "add", "trigger", "view"] } as const;
  await fc.assert(
    fc.asyncProperty(anySides, async (sides) => {
      await mergeSides(sides, { ours, theirs, always: "merged" });
    }),
    { numRuns: RUNS },
  );
});

for (
  const [what, base, ours, theirs, conflict] of [
    ["a view over a dropped table", [], "CREATE VIEW v AS SELECT a FROM m0", "DROP TABLE m0", "v"],
    [
      "a trigger that needs a dropped column",
      [],
      "CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM m0 WHERE b=''; END",
      "ALTER TABLE m0 DROP COLUMN b",
      "r",
    ],
    ["an index of a dropped table", [], "CREATE INDEX i ON m0(a)", "DROP TABLE m0", "i"],
    [
      "an index of a dropped column",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "CREATE INDEX i ON m0(gone)",
      "ALTER TABLE m0 DROP COLUMN gone",
      "i",
    ],
    [
      "a trigger of a dropped table",
      [],
      "CREATE TRIGGER r AFTER INSERT ON m0 BEGIN DELETE FROM t; END",
      "DROP TABLE m0",
      "r",
    ],
    [
      "a key with another name",
      [],
      "INSERT INTO k VALUES ('9',9,9,9)",
      "UPDATE k SET a=0 WHERE id='1'; ALTER TABLE k RENAME COLUMN id TO x",
      undefined,
    ],
    [
      "a rowid with another name",
      [],
      "INSERT INTO t VALUES (9,9,9,9)",
      "UPDATE t SET a=0 WHERE id=1; ALTER TABLE t RENAME COLUMN id TO x",
      undefined,
    ],
    [
      "a column that went, beside rows of the target without a value in it",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "INSERT INTO m0 (a) VALUES (77)",
      "ALTER TABLE m0 DROP COLUMN gone",
      undefined,
    ],
    [
      "a column that went, beside a row of the target with a value in it",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "INSERT INTO m0 (a, gone) VALUES (77, 1)",
      "ALTER TABLE m0 DROP COLUMN gone",
      "m0",
    ],
    [
      "a column that the target dropped, beside other cells and rows of the source",
      ["ALTER TABLE m0 ADD COLUMN gone DEFAULT 5", "INSERT INTO m0 (a) VALUES (71), (72)"],
      "ALTER TABLE m0 DROP COLUMN gone",
      "INSERT INTO m0 (a) VALUES (77); UPDATE m0 SET b='new' WHERE a=71; DELETE FROM m0 WHERE a=72",
      undefined,
    ],
    [
      "a column that the target dropped, and the source wrote to",
      ["ALTER TABLE m0 ADD COLUMN gone", "INSERT INTO m0 (a) VALUES (77)"],
      "ALTER TABLE m0 DROP COLUMN gone",
      "UPDATE m0 SET gone=1",
      "m0",
    ],
    [
      "a column that the target dropped, and the source added a row with",
      ["ALTER TABLE m0 ADD COLUMN gone DEFAULT 5"],
      "ALTER TABLE m0 DROP COLUMN gone",
      "INSERT INTO m0 (a, gone) VALUES (77, NULL)",
      "m0",
    ],
    [
      "a key in other letters, beside other rows of the target",
      ["CREATE TABLE c (x TEXT COLLATE NOCASE PRIMARY KEY, y) WITHOUT ROWID", "INSERT INTO c VALUES ('Tea', 1)"],
      "INSERT INTO c VALUES ('milk', 2)",
      "UPDATE c SET x='tea'",
      undefined,
    ],
    [
      "rows that no name is left for",
      ["CREATE TABLE hidden (rowid, _rowid_, oid)", "INSERT INTO hidden VALUES (4, 5, 6)"],
      "DELETE FROM n",
      "DELETE FROM hidden",
      "hidden",
    ],
    ["a table that both dropped", [], "DROP TABLE m0", "DROP TABLE m0", undefined],
    [
      "a trigger of a dropped view",
      ["CREATE VIEW v AS SELECT a FROM m0"],
      "CREATE TRIGGER r INSTEAD OF INSERT ON v BEGIN SELECT 1; END",
      "DROP VIEW v",
      "r",
    ],
    [
      "a table whose definition speaks of a full-text index",
      ["CREATE TABLE note (id INTEGER PRIMARY KEY, note /* replaces: using fts5, content='x' */)"],
      "INSERT INTO note VALUES (1, 1)",
      "INSERT INTO note VALUES (2, 2)",
      undefined,
    ],
    [
      "an index over another table's rows that the source drops",
      [
        "CREATE TABLE w (id INTEGER PRIMARY KEY, a)",
        "INSERT INTO w VALUES (1, 'red')",
        "CREATE VIRTUAL TABLE f USING fts5(a, content='w', content_rowid='id')",
      ],
      "INSERT INTO w VALUES (2, 'blue')",
      "DROP TABLE f",
      undefined,
    ],
    [
      "a key that a table of the target refers to",
      ["CREATE TABLE p (u)", "CREATE UNIQUE INDEX pu ON p(u)", "INSERT INTO p VALUES ('a')"],
      "CREATE TABLE c (u REFERENCES P(U)); INSERT INTO c VALUES ('a')",
      "DROP INDEX pu",
      "c",
    ],
    [
      "a key, beside another one that a table of the target refers to",
      ["CREATE TABLE p (u UNIQUE, w)", "CREATE UNIQUE INDEX pw ON p(w)"],
      "CREATE TABLE c (u REFERENCES p(u))",
      "DROP INDEX pw",
      undefined,
    ],
    [
      "an empty table that a table of the target refers to",
      ["CREATE TABLE p (id INTEGER PRIMARY KEY)"],
      "CREATE TABLE c (p REFERENCES P); INSERT INTO c VALUES (NULL)",
      "DROP TABLE p",
      "c",
    ],
    [
      "a table that refers to one that the target dropped",
      ["CREATE TABLE p (id INTEGER PRIMARY KEY)"],
      "DROP TABLE p",
      "CREATE TABLE c (p REFERENCES p)",
      "c",
    ],
    [
      "a table that refers to nothing by itself",
      ["CREATE TABLE c (p REFERENCES nowhere, t REFERENCES t(a))"],
      "DELETE FROM n",
      "CREATE TABLE d (p REFERENCES nowhere); CREATE TABLE e (t REFERENCES t(b))",
      undefined,
    ],
    [
      "a column that a trigger sets",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE m0 SET gone=1; END",
      "ALTER TABLE m0 DROP COLUMN gone",
      "r",
    ],
    [
      "a column that a trigger inserts",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "CREATE TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO m0(gone) VALUES (1); END",
      "ALTER TABLE m0 DROP COLUMN gone",
      "r",
    ],
    [
      "a column that a trigger waits for",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      'CREATE TRIGGER r AFTER UPDATE OF a, "Gone" ON m0 BEGIN SELECT 1; END',
      "ALTER TABLE m0 DROP COLUMN gone",
      "r",
    ],
    [
      "a column that a trigger of both waits for",
      ["ALTER TABLE m0 ADD COLUMN gone", "CREATE TRIGGER r AFTER UPDATE OF gone ON m0 BEGIN SELECT 1; END"],
      "DELETE FROM n",
      "ALTER TABLE m0 DROP COLUMN gone",
      undefined,
    ],
    [
      "a column that a trigger of both sets",
      ["ALTER TABLE m0 ADD COLUMN gone", "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE m0 SET gone=1; END"],
      "DELETE FROM n",
      "ALTER TABLE m0 DROP COLUMN gone",
      "r",
    ],
    [
      "a column that a trigger of a view sets",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "CREATE VIEW v AS SELECT 1 AS one; CREATE TRIGGER r INSTEAD OF UPDATE ON v BEGIN UPDATE m0 SET gone=1; END",
      "ALTER TABLE m0 DROP COLUMN gone",
      "r",
    ],
    [
      "a column, beside a trigger that does not need it",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE m0 SET a=1; END",
      "ALTER TABLE m0 DROP COLUMN gone",
      undefined,
    ],
    [
      "a trigger that sets a column which the target dropped",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "ALTER TABLE m0 DROP COLUMN gone",
      "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE m0 SET gone=1; END",
      "r",
    ],
    [
      "a trigger that waits for a column which the target dropped",
      ["ALTER TABLE m0 ADD COLUMN gone"],
      "ALTER TABLE m0 DROP COLUMN gone",
      "CREATE TRIGGER r AFTER UPDATE OF gone ON m0 BEGIN SELECT 1; END",
      "r",
    ],
    [
      "a column, beside triggers with functions of an application",
      ["ALTER TABLE m0 ADD COLUMN gone", "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT app(new.a); END"],
      "CREATE TRIGGER r2 AFTER DELETE ON m0 BEGIN SELECT 1 WHERE app2(old.a) = 'x' COLLATE app3; END",
      "ALTER TABLE m0 DROP COLUMN gone; CREATE TRIGGER r3 AFTER INSERT ON m0 BEGIN SELECT app(1); END",
      undefined,
    ],
    [
      "a column that a trigger sets beside one with a function of an application",
      ["ALTER TABLE m0 ADD COLUMN gone", "CREATE TRIGGER r0 AFTER INSERT ON t BEGIN SELECT app(new.a); END"],
      "CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE m0 SET gone=1; END",
      "ALTER TABLE m0 DROP COLUMN gone",
      "r",
    ],
    [
      "a trigger that worked nowhere",
      ["CREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE m0 SET nowhere=1; END"],
      "CREATE TRIGGER r1 AFTER INSERT ON t BEGIN UPDATE m0 SET nowhere=1; END",
      "CREATE TRIGGER r2 AFTER INSERT ON t BEGIN UPDATE m0 SET nowhere=2; END; CREATE INDEX i ON m0(a)",
      undefined,
    ],
    [
      "a view that was broken before",
      ["CREATE VIEW v AS SELECT 1 FROM nowhere"],
      "DELETE FROM n",
      "CREATE INDEX i ON t(c)",
      undefined,
    ],
  ] as const
) {
  Deno.test(`a merge of ${what} ${conflict === undefined ? "goes in" : "is a conflict, and changes nothing"}`, () =>
    withDirectory(async (directory) => {
      const [base_path, ours_path, theirs_path] = ["base", "ours", "theirs"].map((name) => `${directory}/${name}`) as [
        string,
        string,
        string,
      ];
      sql(base_path, ...BASE, ...base);
      for (const path of [ours_path, theirs_path]) Deno.copyFileSync(base_path, path);
      sql(ours_path, ours);
      sql(theirs_path, theirs);
      const before = snapshot(ours_path);
      using changes = await SourceChanges.read(base_path, theirs_path);
      const { merged, conflicts } = await mergeInto(ours_path, changes);
      assertEquals(
        conflicts.map(({ kind, table }) => [kind, table]),
        conflict === undefined ? [] : [["definition", conflict]],
      );
      assertEquals(merged, conflict === undefined);
      if (!merged) assertEquals(snapshot(ours_path), before);
    }));
}

const FAMILY = ["CREATE TABLE p (id INTEGER PRIMARY KEY)", "CREATE TABLE c (id INTEGER PRIMARY KEY, p)"];

Deno.test("a foreign key that the source adds holds for the target's own rows", async () => {
  const found = await mergedOf({
    base: [...FAMILY, "INSERT INTO p VALUES (1)", "INSERT INTO c VALUES (1, 1)"],
    ours: ["INSERT INTO c VALUES (2, 77), (3, 1)"],
    theirs: [
      "CREATE TABLE c2 (id INTEGER PRIMARY KEY, p REFERENCES p)",
      "INSERT INTO c2 SELECT * FROM c",
      "DROP TABLE c",
      "ALTER TABLE c2 RENAME TO c",
    ],
  }, "PRAGMA foreign_key_check");
  assertEquals(found, [{ kind: "foreign_key", table: "c", key: { id: 2 }, detail: "p refers to no row of p" }]);
});

Deno.test("a key that both sides inserted in other letters is a conflict", async () => {
  const found = await mergedOf({
    base: ["CREATE TABLE c (x TEXT COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID"],
    ours: ["INSERT INTO c VALUES ('tea')"],
    theirs: ["INSERT INTO c VALUES ('Tea')"],
  }, "SELECT * FROM c");
  const [ours, theirs] = [{ x: "tea" }, { x: "Tea" }];
  assertEquals(found, [{ kind: "inserted_twice", table: "c", key: theirs, ours, theirs }]);
});

Deno.test("rows that swap a unique value keep what the target has in columns of its own", async () => {
  for (const options of ["", "WITHOUT ROWID"]) {
    const found = await mergedOf({
      base: [`CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE) ${options}`, "INSERT INTO t VALUES (1, 'a'), (2, 'b')"],
      ours: ["ALTER TABLE t ADD COLUMN c DEFAULT 'none'", "UPDATE t SET c = 'own ' || id"],
      theirs: ["UPDATE t SET u = NULL", "UPDATE t SET u = CASE id WHEN 1 THEN 'b' ELSE 'a' END"],
    }, "SELECT * FROM t ORDER BY id");
    assertEquals(found, [[], [1, "b", "own 1"], [2, "a", "own 2"]]);
  }
});

Deno.test("a row without a key is not taken for another that has its rowid since", async () => {
  const found = await mergedOf({
    base: ["CREATE TABLE t (k TEXT PRIMARY KEY, v, w)", "INSERT INTO t VALUES (NULL, 'a', 0)"],
    ours: ["DELETE FROM t", "INSERT INTO t VALUES ('x', 'other', 0)"],
    theirs: ["UPDATE t SET w = 5"],
  }, "SELECT * FROM t");
  assertEquals(found.map((conflict) => (conflict as { kind: string }).kind), ["changed_twice"]);
});

Deno.test("a row that was decided for the source, and breaks a rule of the target, is a conflict", async () => {
  const found = await mergedOf(
    {
      base: ["CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE)"],
      ours: ["INSERT INTO t VALUES (1, 'a'), (9, 'z')"],
      theirs: ["INSERT INTO t VALUES (1, 'z')"],
    },
    "SELECT * FROM t",
    { prefer: "theirs" },
  );
  const detail = "UNIQUE constraint failed: t.u";
  assertEquals(found, [{ kind: "constraint", table: "t", key: { id: 1 }, detail }]);
});

Deno.test("a row that VACUUM gave another's rowid is not taken for that", async () => {
  const found = await mergedOf({
    base: ["CREATE TABLE t (k, n)", "INSERT INTO t VALUES ('one', 0), ('two', 0), ('three', 0)"],
    ours: ["DELETE FROM t WHERE k = 'one'", "VACUUM"],
    theirs: ["UPDATE t SET n = 1 WHERE k = 'two'"],
  }, "SELECT * FROM t");
  const [base, theirs] = [{ k: "two", n: 0 }, { k: "two", n: 1 }];
  const key = { rowid: 2 };
  assertEquals(found, [{ kind: "changed_twice", table: "t", key, base, ours: { k: "three", n: 0 }, theirs }]);
});

/** Runs statements on three sides, merges, and returns what a query says of the target. */
async function mergedOf(
  sides: { base: string[]; ours: string[]; theirs: string[] },
  query: string,
  options: ThreeWayOptions = {},
) {
  let rows: unknown[] = [];
  await withDirectory(async (directory) => {
    const path = (side: string) => `${directory}/${side}`;
    sql(path("base"), ...sides.base);
    for (const side of ["ours", "theirs"] as const) {
      Deno.copyFileSync(path("base"), path(side));
      sql(path(side), ...sides[side]);
    }
    using changes = await SourceChanges.read(path("base"), path("theirs"));
    const { merged, conflicts, definitions } = await mergeInto(path("ours"), changes, options);
    using db = new DatabaseSync(path("ours"));
    rows = merged ? [definitions, ...db.prepare(query).all().map((row) => Object.values(row))] : conflicts;
  });
  return rows;
}

/** The same, and takes the merge back after more statements on the target. */
async function revertedOf(
  sides: { base: string[]; ours: string[]; theirs: string[]; since?: string[] },
  query: string,
) {
  let rows: unknown[] = [];
  await withDirectory(async (directory) => {
    const path = (side: string) => `${directory}/${side}`;
    sql(path("base"), ...sides.base);
    for (const side of ["ours", "theirs"] as const) {
      Deno.copyFileSync(path("base"), path(side));
      sql(path(side), ...sides[side]);
    }
    Deno.copyFileSync(path("ours"), path("had"));
    using changes = await SourceChanges.read(path("base"), path("theirs"));
    assertEquals((await mergeInto(path("ours"), changes)).conflicts, []);
    sql(path("ours"), ...sides.since ?? []);
    using back = await SourceChanges.read(path("theirs"), path("base"), { before: [{ path: path("had") }] });
    const { merged, conflicts } = await mergeInto(path("ours"), back);
    using db = new DatabaseSync(path("ours"));
    rows = merged ? db.prepare(query).all().map((row) => Object.values(row)) : conflicts;
  });
  return rows;
}

const SCHEMA = "SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY lower(name)";
const NAMES = [
  "CREATE INDEX I ON t(a)",
  "CREATE TRIGGER Tr AFTER INSERT ON t BEGIN SELECT 1; END",
  "CREATE VIEW V AS SELECT a FROM t",
];
const OTHER_CASE = [
  "CREATE INDEX i ON t(b)",
  "CREATE TRIGGER tr AFTER INSERT ON t BEGIN SELECT 2; END",
  "CREATE VIEW v AS SELECT b FROM t",
];

Deno.test("definitions that the source has made anew in another case replace those that were there", async () => {
  const sides = {
    base: ["CREATE TABLE t (a, b)", ...NAMES],
    ours: [],
    theirs: ["DROP INDEX I", "DROP TRIGGER Tr", "DROP VIEW V", ...OTHER_CASE],
  };
  const [definitions, ...found] = await mergedOf(sides, SCHEMA);
  assertEquals((definitions as string[]).toSorted(), ["i", "tr", "v"]);
  assertEquals(found, [...OTHER_CASE.slice(0, 1), sides.base[0], ...OTHER_CASE.slice(1)].map((sql) => [sql]));
  const back = await revertedOf(sides, SCHEMA);
  assertEquals(back, [...NAMES.slice(0, 1), sides.base[0], ...NAMES.slice(1)].map((sql) => [sql]));
});

const TABLE = "CREATE TABLE Tab (id INTEGER PRIMARY KEY AUTOINCREMENT, b)";
const OTHER_TABLE = ["ALTER TABLE Tab RENAME TO x", "ALTER TABLE x RENAME TO tab"];

Deno.test("a table that gets its name in another case keeps its rows, and takes those of both sides", async () => {
  const sides = {
    base: [TABLE, "INSERT INTO Tab VALUES (1, 2), (2, 3)"],
    ours: ["INSERT INTO Tab VALUES (10, 'ours')", "UPDATE Tab SET b = 'our' WHERE id = 2"],
    theirs: [...OTHER_TABLE, "INSERT INTO tab VALUES (5, 5)"],
  };
  const rows = [[1, 2], [2, "our"], [5, 5], [10, "ours"]];
  assertEquals(await mergedOf(sides, "SELECT * FROM tab"), [["tab"], ...rows]);
  assertEquals(await mergedOf({ ...sides, ours: sides.theirs, theirs: sides.ours }, "SELECT * FROM tab"), [
    [],
    ...rows,
  ]);
  const table = "SELECT sql FROM sqlite_schema WHERE name <> 'sqlite_sequence'";
  assertEquals(await mergedOf(sides, table), [["tab"], [TABLE.replace("Tab", '"tab"')]]);
  assertEquals(await revertedOf(sides, "SELECT * FROM tab"), rows.filter(([id]) => id !== 5));
  assertEquals(await revertedOf(sides, table), [[TABLE]]);
});

Deno.test("keys that the source gave away count for a table in another case", async () => {
  const found = await mergedOf(
    { base: [TABLE], ours: OTHER_TABLE, theirs: ["INSERT INTO Tab VALUES (7, 7)"] },
    "SELECT * FROM sqlite_sequence",
  );
  assertEquals(found, [[], ["tab", 7]]);
});

Deno.test("names that differ in the case of other letters than those of ASCII are two", async () => {
  const found = await mergedOf({
    base: ["CREATE TABLE t (a, b)", "CREATE INDEX ä ON t(a)"],
    ours: ["INSERT INTO t VALUES (1, 1)"],
    theirs: ["CREATE INDEX Ä ON t(b)"],
  }, "SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name");
  assertEquals(found, [["Ä"], ["Ä"], ["ä"]]);
});

/** Statements that make a table anew with other columns. */
const rebuilt = (columns: string, from: string) => [
  `CREATE TABLE n (${columns})`,
  `INSERT INTO n SELECT ${from} FROM t`,
  "DROP TABLE t",
  "ALTER TABLE n RENAME TO t",
];

for (const fallback of ["CURRENT_TIMESTAMP", "(1+1)", "(hex(randomblob(8)))"]) {
  for (const rule of ["", "NOT NULL "]) {
    const created = `created TEXT ${rule}DEFAULT ${fallback}`;
    const none = rule === "" ? "NULL" : "'0'";
    const START = ["CREATE TABLE t (id INTEGER PRIMARY KEY, a)", "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')"];

    Deno.test(`a column with ${rule}DEFAULT ${fallback} that went comes back as it was`, async () => {
      const found = await revertedOf({
        base: [
          `CREATE TABLE t (id INTEGER PRIMARY KEY, a, ${created})`,
          `INSERT INTO t VALUES (1, 'a', '2020-01-01'), (2, 'b', ${none}), (3, 'c', '2021-01-01')`,
        ],
        ours: [],
        theirs: ["ALTER TABLE t DROP COLUMN created", "DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (4, 'd')"],
        since: ["UPDATE t SET a = 'mine' WHERE id = 1", "INSERT INTO t VALUES (5, 'mine')"],
      }, "SELECT id, a, created FROM t WHERE id < 5 UNION ALL SELECT id, a, created IS NULL FROM t WHERE id = 5");
      assertEquals(found, [
        [1, "mine", "2020-01-01"],
        [2, "b", rule === "" ? null : "0"],
        [3, "c", "2021-01-01"],
        [5, "mine", rule === "" ? 1 : 0],
      ]);
    });

    Deno.test(`a column with ${rule}DEFAULT ${fallback} comes with the source's values`, async () => {
      const found = await mergedOf({
        base: START,
        ours: ["INSERT INTO t VALUES (5, 'mine')", "UPDATE t SET a = 'mine' WHERE id = 2"],
        theirs: [
          ...rebuilt(`id INTEGER PRIMARY KEY, a, ${created}`, `id, a, iif(id = 1, '2020-01-01', ${none})`),
          "DELETE FROM t WHERE id = 3",
        ],
      }, "SELECT id, a, created FROM t WHERE id < 5 UNION ALL SELECT id, a, created IS NULL FROM t WHERE id = 5");
      const two = rule === "" ? null : "0";
      assertEquals(found, [["t"], [1, "a", "2020-01-01"], [2, "mine", two], [5, "mine", rule === "" ? 1 : 0]]);
    });
  }
}

Deno.test("a unique column that computes its default is a conflict: rows get one value of it", async () => {
  const found = await mergedOf({
    base: ["CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)"],
    ours: [],
    theirs: rebuilt("id INTEGER PRIMARY KEY, u NOT NULL UNIQUE DEFAULT (hex(randomblob(8)))", "id, id"),
  }, "SELECT * FROM t");
  assertEquals(found, [{
    kind: "constraint",
    table: "t",
    detail: "UNIQUE constraint failed: t.u",
  }]);
});

for (const [fallback, value] of [['"a b"', "a b"], ["word", "word"], ["0x1F", 31], [".5", 0.5], ["- 5", -5]] as const) {
  Deno.test(`a column with DEFAULT ${fallback} that is made with its table has that in all rows`, async () => {
    const found = await mergedOf({
      base: ["CREATE TABLE t (id INTEGER PRIMARY KEY)", "INSERT INTO t VALUES (1)"],
      ours: ["INSERT INTO t VALUES (2)"],
      theirs: rebuilt(
        `x DEFAULT ${fallback}, id INTEGER PRIMARY KEY`,
        `${fallback === "word" ? "'word'" : fallback.replace(/"/g, "'")}, id`,
      ),
    }, "SELECT id, x FROM t");
    assertEquals(found, [["t"], [1, value], [2, value]]);
  });
}

const VIEW = ["CREATE TABLE m (a)", "CREATE VIEW v AS SELECT a FROM m"];
const AGAIN = ["DROP VIEW v", "CREATE VIEW v AS SELECT a, 1 AS one FROM m"];
const TRIGGER = "CREATE TRIGGER r INSTEAD OF INSERT ON v BEGIN INSERT INTO m VALUES (new.a); END";

for (
  const [what, sides] of [
    ["that both have", { base: [...VIEW, TRIGGER], ours: [], theirs: [...AGAIN, TRIGGER] }],
    ["of the target's own", { base: VIEW, ours: [TRIGGER], theirs: AGAIN }],
  ] as const
) {
  Deno.test(`a view that the source has made anew keeps the trigger ${what}`, async () => {
    const found = await mergedOf(
      { base: [...sides.base], ours: [...sides.ours], theirs: [...sides.theirs] },
      "SELECT name FROM sqlite_schema WHERE type = 'trigger'",
    );
    assertEquals(found, [["v"], ["r"]]);
  });
}

Deno.test("header fields alone are a change, which the merge names", async () => {
  const sides = { base: ["CREATE TABLE t (a)"], ours: [], theirs: ["PRAGMA user_version = 5"] };
  assertEquals(await mergedOf(sides, "PRAGMA user_version"), [["user_version"], [5]]);
});

Deno.test("keys that the source gave away and took back are not given away again", async () => {
  const found = await mergedOf({
    base: ["CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, a)", "CREATE TABLE o (a)"],
    ours: [],
    theirs: ["INSERT INTO t (a) VALUES (1), (2), (3)", "DELETE FROM t", "INSERT INTO o VALUES (1)"],
  }, "SELECT seq FROM sqlite_sequence WHERE name = 't'");
  assertEquals(found, [[], [3]]);
});

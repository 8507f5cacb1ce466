import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { sql, withDirectory } from "../../tests/support/stores.ts";
import { compareDatabases } from "../sqlite/row_diff.ts";
import { TaskdError } from "../errors.ts";
import { parseResolutions } from "./conflicts.ts";
import { SourceChanges } from "./source_changes.ts";
import { mergeInto, type ThreeWayOptions } from "./three_way.ts";

interface Scene {
  base: string;
  ours: string;
  theirs: string;
  merge(options?: ThreeWayOptions): ReturnType<typeof mergeInto>;
  rows(query: string, side?: "ours" | "theirs" | "base"): unknown[];
}

/** Three copies of one database, of which two went on. */
function scene(
  parts: { base: string[]; ours?: string[]; theirs?: string[] },
  work: (scene: Scene) => Promise<void>,
): Promise<void> {
  return withDirectory(async (directory) => {
    const paths = { base: `${directory}/base`, ours: `${directory}/ours`, theirs: `${directory}/theirs` };
    sql(paths.base, ...parts.base);
    Deno.copyFileSync(paths.base, paths.ours);
    Deno.copyFileSync(paths.base, paths.theirs);
    sql(paths.ours, "PRAGMA journal_mode=WAL", "PRAGMA recursive_triggers=ON", ...parts.ours ?? []);
    sql(paths.theirs, ...parts.theirs ?? []);
    await work({
      ...paths,
      merge: async (options) => {
        using changes = await SourceChanges.read(paths.base, paths.theirs);
        return await mergeInto(paths.ours, changes, options);
      },
      rows: (query, side = "ours") => {
        using db = new DatabaseSync(paths[side], { returnArrays: true } as object);
        return db.prepare(query).all();
      },
    });
  });
}

const T = [
  "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)",
  "INSERT INTO t VALUES (1,'a1','b1'), (2,'a2','b2'), (3,'a3','b3')",
];

Deno.test("other rows and other cells of one row are both kept; what both did is there once", () =>
  scene({
    base: T,
    ours: ["UPDATE t SET a='ours' WHERE id=1", "INSERT INTO t VALUES (4,'new',0)", "UPDATE t SET b='same' WHERE id=3"],
    theirs: ["UPDATE t SET b='theirs' WHERE id=1", "DELETE FROM t WHERE id=2", "UPDATE t SET b='same' WHERE id=3"],
  }, async ({ merge, rows }) => {
    const report = await merge();
    assertEquals([report.merged, report.conflicts], [true, []]);
    assertEquals(report.tables, [{ table: "t", rows_added: 0, rows_removed: 1, rows_changed: 1, rows_already: 1 }]);
    const merged = [[1, "ours", "theirs"], [3, "a3", "same"], [4, "new", 0]];
    assertEquals(rows("SELECT * FROM t"), merged);
    // Merged twice is merged once.
    assertEquals((await merge()).tables, [{
      table: "t",
      rows_added: 0,
      rows_removed: 0,
      rows_changed: 0,
      rows_already: 3,
    }]);
    assertEquals(rows("SELECT * FROM t"), merged);
  }));

Deno.test("each kind of conflict is named, changes nothing, and can be decided", () =>
  scene({
    base: T,
    ours: [
      "UPDATE t SET a='ours' WHERE id=1",
      "UPDATE t SET a='ours' WHERE id=2",
      "DELETE FROM t WHERE id=3",
      "INSERT INTO t VALUES (4,'ours',0)",
    ],
    theirs: [
      "UPDATE t SET a='theirs' WHERE id=1",
      "DELETE FROM t WHERE id=2",
      "UPDATE t SET a='theirs' WHERE id=3",
      "INSERT INTO t VALUES (4,'theirs',0)",
    ],
  }, async ({ merge, rows }) => {
    const before = rows("SELECT * FROM t");
    const report = await merge();
    assertEquals(
      report.conflicts.map(({ kind, key, column, base, ours, theirs }) => [kind, key?.id, column, base, ours, theirs]),
      [
        ["changed_twice", 1, "a", { a: "a1" }, { a: "ours" }, { a: "theirs" }],
        ["changed_and_deleted", 2, undefined, { a: "a2" }, { a: "ours" }, undefined],
        ["deleted_and_changed", 3, undefined, { id: 3, a: "a3", b: "b3" }, undefined, { id: 3, a: "theirs", b: "b3" }],
        ["inserted_twice", 4, undefined, undefined, { a: "ours" }, { a: "theirs" }],
      ],
    );
    assertEquals([report.merged, report.conflicts_total, rows("SELECT * FROM t")], [false, 4, before]);
    assertEquals((await merge({ prefer: "ours" })).merged, true);
    assertEquals(rows("SELECT * FROM t"), before);
    const resolutions = [{ table: "t", key: { id: 1 }, column: "a", take: "ours" as const }];
    assertEquals((await merge({ resolutions, prefer: "theirs", check: true })).merged, false);
    // A decision of another value than the target has by now.
    for (const ours of [{ a: "another" }, null]) {
      const { merged, conflicts } = await merge({ resolutions: [{ ...resolutions[0]!, ours }] });
      assertEquals([merged, conflicts.some(({ column }) => column === "a")], [false, true]);
    }
    assertEquals(rows("SELECT * FROM t"), before);
    assertEquals((await merge({ resolutions, prefer: "theirs" })).merged, true);
    assertEquals(rows("SELECT id, a FROM t"), [[1, "ours"], [3, "theirs"], [4, "theirs"]]);
    for (const take of ["ours", "theirs"] as const) {
      const twice = [...resolutions, { ...resolutions[0]!, take }];
      await assertRejects(() => merge({ resolutions: twice, prefer: "ours" }), TaskdError, 'of ["t",[["id",1]],"a"]');
    }
    const missing = [{ table: "t", key: { id: 9 }, take: "ours" as const }];
    await assertRejects(() => merge({ resolutions: missing, prefer: "ours" }), Error, "nothing is in conflict");
  }));

Deno.test("triggers, foreign keys and conflict clauses of the target do nothing of their own", () =>
  scene({
    base: [
      ...T,
      "CREATE TABLE log(x)",
      "CREATE TABLE child(id INTEGER PRIMARY KEY, t REFERENCES t(id) ON DELETE CASCADE)",
      "CREATE TABLE u(id INTEGER PRIMARY KEY, x UNIQUE ON CONFLICT REPLACE)",
      "INSERT INTO u VALUES (1,'one'), (2,'two')",
      "CREATE TRIGGER z AFTER UPDATE ON t BEGIN INSERT INTO log VALUES('z' || new.id); END",
      "CREATE TRIGGER y AFTER UPDATE ON t BEGIN INSERT INTO log VALUES('y' || new.id); END",
    ],
    ours: ["INSERT INTO u VALUES (3,'three')"],
    theirs: [
      "UPDATE t SET a='theirs' WHERE id=1",
      "UPDATE u SET x = CASE x WHEN 'one' THEN 'swap' ELSE x END",
      "UPDATE u SET x='one' WHERE id=2",
      "UPDATE u SET x='two' WHERE id=1",
    ],
  }, async ({ merge, rows }) => {
    assertEquals((await merge()).conflicts, []);
    assertEquals(rows("SELECT x FROM log ORDER BY x"), [["y1"], ["z1"]]);
    assertEquals(rows("SELECT id, x FROM u ORDER BY id"), [[1, "two"], [2, "one"], [3, "three"]]);
    assertEquals(rows("SELECT name FROM sqlite_schema WHERE type='trigger' ORDER BY rowid"), [["z"], ["y"]]);
  }));

Deno.test("what would break a constraint or refer to nothing is a conflict that names the row", () =>
  scene({
    base: [
      ...T,
      "CREATE TABLE child(id INTEGER PRIMARY KEY, t INTEGER REFERENCES t)",
      "CREATE TABLE u(id INTEGER PRIMARY KEY, x UNIQUE)",
    ],
    ours: ["INSERT INTO child VALUES (7, 2)", "INSERT INTO u VALUES (1,'x')", "DELETE FROM t WHERE id=3"],
    theirs: ["DELETE FROM t WHERE id=2", "INSERT INTO child VALUES (8, 3)"],
  }, async ({ merge, rows, theirs }) => {
    const found = async () => (await merge()).conflicts.map(({ kind, table, key }) => [kind, table, key]);
    assertEquals(await found(), [["foreign_key", "child", { id: 8 }], ["foreign_key", "child", { id: 7 }]]);
    sql(theirs, "INSERT INTO u VALUES (2,'x')");
    assertEquals(await found(), [["constraint", "u", { id: 2 }]]);
    assertEquals(rows("SELECT count(*) FROM t"), [[2]]);
  }));

Deno.test("what refers to a row is found by the type and the collation of the parent's column", () =>
  scene({
    base: [
      "PRAGMA foreign_keys=OFF",
      "CREATE TABLE p(id TEXT PRIMARY KEY COLLATE NOCASE)",
      "INSERT INTO p VALUES ('5'), ('6'), ('X'), ('Y')",
      "CREATE TABLE c(id INTEGER PRIMARY KEY, f REFERENCES p)",
      "CREATE INDEX c_f ON c(f)",
      "INSERT INTO c VALUES (9, 0)",
      "CREATE TABLE w(a, b, f TEXT REFERENCES p(id), PRIMARY KEY(a, b)) WITHOUT ROWID",
    ],
    ours: ["INSERT INTO c VALUES (1, 6), (2, 'y')", "INSERT INTO w VALUES (1, 'x', '6')"],
    theirs: ["INSERT INTO c VALUES (3, 5), (4, 'x')"],
  }, async ({ merge, rows, theirs }) => {
    assertEquals((await merge({ check: true })).conflicts, []);
    sql(theirs, "DELETE FROM p WHERE id IN ('6', 'Y')");
    assertEquals((await merge()).conflicts.map(({ kind, table, key }) => [kind, table, key]), [
      ["foreign_key", "w", { a: 1, b: "x" }],
      ["foreign_key", "c", { id: 1 }],
      ["foreign_key", "c", { id: 2 }],
    ]);
    assertEquals(rows("SELECT count(*) FROM p"), [[4]]);
  }));

Deno.test("definitions are taken where the target's are those of the base, and rows go with them", () =>
  scene({
    base: [
      ...T,
      "CREATE INDEX by_a ON t(a)",
      "CREATE VIEW v AS SELECT a FROM t",
      "CREATE TABLE old(x)",
      "INSERT INTO old VALUES (1)",
    ],
    ours: ["INSERT INTO t VALUES (9,'ours',9)"],
    theirs: [
      "ALTER TABLE t ADD COLUMN c DEFAULT 'd'",
      "UPDATE t SET c='set' WHERE id=1",
      "CREATE TABLE n(k TEXT PRIMARY KEY, v) WITHOUT ROWID",
      "INSERT INTO n VALUES ('k', 1)",
      "DROP INDEX by_a",
      "CREATE UNIQUE INDEX by_b ON t(b)",
      "DROP VIEW v",
      "CREATE VIEW v AS SELECT b FROM t",
      "DROP TABLE old",
      "PRAGMA user_version=7",
    ],
  }, async ({ merge, rows, ours, theirs }) => {
    assertEquals((await merge()).conflicts, []);
    assertEquals(rows("SELECT id, c FROM t"), [[1, "set"], [2, "d"], [3, "d"], [9, "d"]]);
    assertEquals([rows("SELECT * FROM n"), rows("PRAGMA user_version")], [[["k", 1]], [[7]]]);
    sql(ours, "DELETE FROM t WHERE id=9", "PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA journal_mode=DELETE");
    const { tables, definitions } = await compareDatabases(ours, theirs);
    assertEquals([tables, definitions], [[], []]);
  }));

Deno.test("a definition that both changed, and a table that grew and was dropped, are conflicts", () =>
  scene({
    base: [...T, "CREATE VIEW v AS SELECT a FROM t", "CREATE TABLE old(x)"],
    ours: ["DROP VIEW v", "CREATE VIEW v AS SELECT 1", "INSERT INTO old VALUES (1)"],
    theirs: ["DROP VIEW v", "CREATE VIEW v AS SELECT 2", "DROP TABLE old"],
  }, async ({ merge, theirs }) => {
    assertEquals((await merge()).conflicts.map(({ kind, table, ours, theirs }) => [kind, table, ours, theirs]), [
      ["definition", "v", { sql: "CREATE VIEW v AS SELECT 1" }, { sql: "CREATE VIEW v AS SELECT 2" }],
    ]);
    sql(theirs, "DROP VIEW v", "CREATE VIEW v AS SELECT a FROM t");
    assertEquals((await merge()).conflicts.map(({ kind, table }) => [kind, table]), [["definition", "old"]]);
  }));

const VALUES = [
  "NULL",
  "0",
  "1",
  "-1.5",
  "1.0",
  "9223372036854775807",
  "x'00ff'",
  "'a'",
  "'A'",
  "CAST(x'ff00' AS TEXT)",
];
const TABLES = ["t", "k", "w", "n"];
const BASE = [
  "CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)",
  "CREATE TABLE k(id TEXT PRIMARY KEY, a, b)",
  "CREATE TABLE w(id TEXT PRIMARY KEY, a, b) WITHOUT ROWID",
  "CREATE TABLE n(id, a, b)",
  ...[1, 2, 3, 4].flatMap((i) =>
    TABLES.map((table) => `INSERT INTO ${table} VALUES (${table === "t" ? i : `'k${i}'`}, 'a${i}', ${i})`)
  ),
];
const ALL =
  TABLES.map((table) =>
    `SELECT '${table}', ${
      table === "n" ? "rowid" : "id"
    }, quote(a), typeof(a), hex(a), quote(b), typeof(b) FROM ${table}`
  ).join(" UNION ALL ") + " ORDER BY 1, 2";

/** Statements that delete, change and insert a few rows. */
function someChanges(random: SeededRandom): string[] {
  return Array.from({ length: random.between(0, 6) }, () => {
    const table = random.pick(TABLES);
    const key = random.between(1, 6);
    const at = table === "n" ? `rowid=${key}` : table === "t" ? `id=${key}` : `id='k${key}'`;
    const what = random.between(0, 3);
    if (what === 0) return `DELETE FROM ${table} WHERE ${at}`;
    const value = random.pick(VALUES);
    if (what === 1 && table !== "n") {
      return `INSERT OR REPLACE INTO ${table} VALUES (${table === "t" ? key : `'k${key}'`}, ${value}, 'i')`;
    }
    return `UPDATE ${table} SET ${random.pick(["a", "b"])}=${value} WHERE ${at}`;
  });
}

const ROUNDS = scaled({ short: 40, long: 150, longest: 1_000 });

scaledTest("property: a merge into the base gives the source, and a second one changes nothing", async () => {
  const random = new SeededRandom(5);
  for (let round = 0; round < ROUNDS; round++) {
    const theirs = someChanges(random);
    await scene({ base: BASE, theirs }, async ({ merge, rows }) => {
      assertEquals((await merge()).conflicts, [], `${theirs}`);
      assertEquals(rows(ALL), rows(ALL, "theirs"), `${theirs}`);
      const again = await merge();
      assert(again.tables.every((of) => of.rows_added + of.rows_removed + of.rows_changed === 0), `${theirs}`);
      assertEquals(rows(ALL), rows(ALL, "theirs"));
    });
  }
});

scaledTest("property: either side can be merged into the other; a conflict changes nothing", async () => {
  const random = new SeededRandom(6);
  let merges = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const [one, other] = [someChanges(random), someChanges(random)];
    const results: unknown[] = [];
    for (const [ours, theirs] of [[one, other], [other, one]] as const) {
      await scene({ base: BASE, ours: [...ours], theirs: [...theirs] }, async ({ merge, rows }) => {
        const before = rows(ALL);
        const { merged, conflicts_total } = await merge();
        if (merged) merges++;
        else assertEquals(rows(ALL), before);
        results.push(merged ? rows(ALL) : conflicts_total);
      });
    }
    assertEquals(results[0], results[1], `${one} | ${other}`);
  }
  assert(merges > ROUNDS / 2, `${merges} of ${2 * ROUNDS}`);
});

Deno.test("resolutions are read from JSON, and what is wrong with them is said", () => {
  const text = '[{"table":"t","key":{"id":1},"column":"a","take":"ours"}]';
  assertEquals(parseResolutions(text), [{ table: "t", key: { id: 1 }, column: "a", take: "ours" }]);
  for (
    const [bad, why] of [
      ["{", "is not JSON"],
      ["{}", "is no JSON array"],
      ['[{"table":"t","take":"mine"}]', "0.take"],
      ['[{"take":"ours"}]', "0.table"],
      ['[{"table":"t","take":"ours","take":"theirs"}]', "twice"],
    ]
  ) {
    assertThrows(() => parseResolutions(bad!), TaskdError, why);
  }
});

const T3 = ["CREATE TABLE t(id INTEGER PRIMARY KEY, a, b)", "INSERT INTO t VALUES (1,1,1), (2,2,2), (3,3,3)"];

Deno.test("a row that the source deleted is kept for what was written to a column of the target's own", () =>
  scene({
    base: T3,
    ours: ["ALTER TABLE t ADD COLUMN note TEXT DEFAULT 'none'", "UPDATE t SET note='keep me' WHERE id=3"],
    theirs: ["DELETE FROM t WHERE id IN (2, 3)"],
  }, async ({ merge, rows }) => {
    const { merged, conflicts } = await merge();
    assertEquals(merged, false);
    assertEquals(conflicts, [
      { kind: "changed_and_deleted", table: "t", key: { id: 3 }, base: {}, ours: { note: "keep me" } },
    ]);
    assertEquals((await merge({ prefer: "ours" })).merged, true);
    // Nothing was written to the second row: it is only deleted.
    assertEquals(rows("SELECT id, note FROM t"), [[1, "none"], [3, "keep me"]]);
    assertEquals((await merge({ prefer: "theirs" })).merged, true);
    assertEquals(rows("SELECT id FROM t"), [[1]]);
  }));

for (
  const [what, written, shown, kept] of [
    ["changed", "UPDATE t SET b=777 WHERE id=2", [{ id: 2 }, { b: 2 }, { b: 777 }], 777],
    ["added a row with", "INSERT INTO t VALUES (4,4,4)", [undefined, undefined, undefined], 4],
  ] as const
) {
  Deno.test(`a column that the source drops is a conflict where the target has ${what} it`, () =>
    scene({ base: T3, ours: [written], theirs: ["ALTER TABLE t DROP COLUMN b"] }, async ({ merge, rows }) => {
      for (const options of [{}, { prefer: "theirs" }, { check: true }] as const) {
        const { merged, conflicts: [found] } = await merge(options);
        assertEquals([merged, found?.kind, found?.table, found?.column], [false, "definition", "t", "b"]);
        assertEquals([found?.key, found?.base, found?.ours], [...shown]);
      }
      assertEquals(rows("SELECT max(b) FROM t"), [[kept]]);
    }));
}

Deno.test("a column that the source drops goes where the target changed and deleted other things", () =>
  scene({
    base: T3,
    ours: ["UPDATE t SET a=10 WHERE id=1", "DELETE FROM t WHERE id=3"],
    theirs: ["ALTER TABLE t DROP COLUMN b"],
  }, async ({ merge, rows }) => {
    assertEquals((await merge()).merged, true);
    assertEquals(rows("SELECT * FROM t"), [[1, 10], [2, 2]]);
  }));

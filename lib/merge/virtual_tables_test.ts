/**
 * Merges where virtual tables are: those with rows of their own are merged as tables, indexes over another table's rows are
 * made anew where those have changed, and where an index without rows has changed the merge is refused, since nothing of it could be brought.
 */

import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { sql, withDirectory } from "../../tests/support/stores.ts";
import { SourceChanges } from "./source_changes.ts";
import { mergeInto } from "./three_way.ts";

const NOTES = "CREATE TABLE t (id INTEGER PRIMARY KEY, a)";
const byTriggers = (using: string) => [
  NOTES,
  `CREATE VIRTUAL TABLE f USING ${using}`,
  "CREATE TRIGGER filled AFTER INSERT ON t BEGIN INSERT INTO f (rowid, a) VALUES (new.id, new.a); END",
  "INSERT INTO t VALUES (1, 'red')",
];
const REBUILD = "INSERT INTO f (f) VALUES ('rebuild')";
const [GREEN, BLUE] = ["INSERT INTO t VALUES (5, 'green')", "INSERT INTO t VALUES (2, 'blue')"];

interface Case {
  base: string[];
  ours: string[];
  theirs: string[];
  /** Rows of `f` in which each of these words is found afterwards; undefined where the merge is refused. */
  found?: Record<string, number[]>;
}

const CASES: Record<string, Case> = {
  "an index without content that a trigger fills": {
    base: byTriggers("fts5(a, content='')"),
    ours: [GREEN],
    theirs: [BLUE],
  },
  "an index without content in a target that is as it was": {
    base: byTriggers('fts5(a, content="")'),
    ours: [],
    theirs: [BLUE],
  },
  "an index without content that takes removals": {
    base: byTriggers("fts5(a, content='', contentless_delete=1)"),
    ours: [GREEN],
    theirs: ["DELETE FROM f WHERE rowid = 1"],
  },
  "an index without content that the source has made": {
    base: [NOTES],
    ours: [GREEN],
    theirs: byTriggers("fts5(a, content='')").slice(1),
  },
  "an index without content of an older module": { base: byTriggers("fts4(a, content='')"), ours: [], theirs: [BLUE] },
  "an index without content that is as it was": {
    base: [...byTriggers("fts5(a, content='')"), "CREATE TABLE u (b)"],
    ours: [GREEN],
    theirs: ["INSERT INTO u VALUES (1)"],
    found: { red: [1], green: [5] },
  },
  "an index over a table": {
    base: byTriggers("fts5(a, content='t', content_rowid='id')"),
    ours: [GREEN],
    theirs: [BLUE],
    found: { red: [1], green: [5], blue: [2] },
  },
  "an index over a table, of an older module": {
    base: byTriggers("fts4(a, content='t')"),
    ours: [GREEN],
    theirs: [BLUE],
    found: { red: [1], green: [5], blue: [2] },
  },
  "an index over a table that neither has changed": {
    base: [
      ...byTriggers("fts5(a, content=t, content_rowid='id')"),
      "CREATE TABLE u (b)",
      "INSERT INTO f (f) VALUES ('delete-all')",
    ],
    ours: [],
    theirs: ["INSERT INTO u VALUES (1)"],
    found: { red: [] },
  },
  "an index over a table that the source has made anew": {
    base: [...byTriggers("fts5(a, content=[t], content_rowid='id')"), "INSERT INTO f (f) VALUES ('delete-all')"],
    ours: [],
    theirs: [REBUILD],
    found: { red: [1] },
  },
  "an index over a view": {
    base: [
      NOTES,
      "CREATE VIEW v AS SELECT id, a FROM t",
      "CREATE VIRTUAL TABLE f USING fts5(a, content='v', content_rowid='id')",
      "INSERT INTO t VALUES (1, 'red')",
      REBUILD,
    ],
    ours: [GREEN, REBUILD],
    theirs: [BLUE, REBUILD],
    found: { red: [1], green: [5], blue: [2] },
  },
  "an index over a table that the source has made": {
    base: [NOTES, "INSERT INTO t VALUES (1, 'red')"],
    ours: [GREEN],
    theirs: ["CREATE VIRTUAL TABLE f USING fts5(a, content='t', content_rowid='id')", REBUILD],
    found: { red: [1], green: [5] },
  },
  "a table of texts": {
    base: [NOTES, "CREATE VIRTUAL TABLE f USING fts5(a)", "INSERT INTO f VALUES ('red'), ('white')"],
    ours: ["INSERT INTO f VALUES ('green')"],
    theirs: ["UPDATE f SET a = 'blue' WHERE rowid = 2"],
    found: { red: [1], green: [3], blue: [2], white: [] },
  },
  "a table of texts that the source has made": {
    base: [NOTES],
    ours: [GREEN],
    theirs: ["CREATE VIRTUAL TABLE f USING fts5(a)", "INSERT INTO f VALUES ('blue')"],
    found: { blue: [1], green: [] },
  },
  "a table of texts of an older module that the source has made": {
    base: [NOTES],
    ours: [GREEN],
    theirs: ["CREATE VIRTUAL TABLE f USING fts4(a)", "INSERT INTO f VALUES ('blue')"],
    found: { blue: [1] },
  },
};

for (const [name, { base, ours, theirs, found }] of Object.entries(CASES)) {
  Deno.test(`${name}: ${found === undefined ? "refused, and nothing is changed" : "merged"}`, () =>
    withDirectory(async (directory) => {
      const [base_path, ours_path, theirs_path] = ["base", "ours", "theirs"].map((one) => `${directory}/${one}`) as [
        string,
        string,
        string,
      ];
      sql(base_path, ...base);
      for (const path of [ours_path, theirs_path]) Deno.copyFileSync(base_path, path);
      sql(ours_path, "PRAGMA journal_mode = WAL", ...ours);
      sql(theirs_path, ...theirs);
      const schema = () => contentOf(ours_path);
      const before = schema();
      using changes = await SourceChanges.read(base_path, theirs_path);
      const { merged, conflicts } = await mergeInto(ours_path, changes);
      if (found === undefined) {
        assertEquals([merged, conflicts.map(({ table, detail }) => [table, detail])], [
          false,
          [["f", "an index without content has no rows to merge"]],
        ]);
        assertEquals(schema(), before);
        return;
      }
      assertEquals([merged, conflicts], [true, []]);
      using db = new DatabaseSync(ours_path);
      for (const [word, rows] of Object.entries(found)) {
        const ids = db.prepare("SELECT rowid AS id FROM f WHERE f MATCH ? ORDER BY 1").all(word).map(({ id }) => id);
        assertEquals([word, ids], [word, rows]);
      }
      assertEquals(db.prepare("PRAGMA integrity_check").all().map((row) => Object.values(row)), [["ok"]]);
    }));
}

Deno.test("a spatial index that the source has made comes with its rows", () =>
  withDirectory(async (directory) => {
    const [base, theirs] = [`${directory}/base`, `${directory}/theirs`];
    sql(base, NOTES);
    Deno.copyFileSync(base, theirs);
    sql(theirs, "CREATE VIRTUAL TABLE r USING rtree(id, low, high)", "INSERT INTO r VALUES (1, 0, 1), (2, 5, 6)");
    sql(base, "PRAGMA journal_mode = WAL");
    const ours = `${directory}/ours`;
    Deno.copyFileSync(base, ours);
    using changes = await SourceChanges.read(base, theirs);
    assertEquals((await mergeInto(ours, changes)).conflicts, []);
    using db = new DatabaseSync(ours);
    assertEquals(db.prepare("SELECT id FROM r WHERE high > 4").all().map(({ id }) => id), [2]);
  }));

/** Every definition, and every row of the tables that are none of a module's. */
function contentOf(path: string): unknown {
  using db = new DatabaseSync(path);
  return [db.prepare("SELECT sql FROM sqlite_schema").all(), db.prepare("SELECT * FROM t").all()];
}

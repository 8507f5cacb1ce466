/**
 * Merges that are taken back from a target that had some of what they brought: that was its own, and stays.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { sql, withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { SourceChanges } from "./source_changes.ts";
import type { FoundTarget } from "./taken_back.ts";
import { mergeInto, type ThreeWayOptions } from "./three_way.ts";

const T = "CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)";

const ADD_B = "ALTER TABLE t ADD COLUMN b DEFAULT 0";

interface Case {
  base: string[];
  ours: string[];
  theirs: string[];
  decide?: ThreeWayOptions["prefer"];
  /** What the target did after the merge. */
  then?: string[];
  /** Rows of `t` afterwards, where they are others than before the merge. */
  rows?: string[];
}

const CASES: Record<string, Case> = {
  "a row that both inserted": {
    base: [T],
    ours: ["INSERT INTO t VALUES (1, 'x', 0)"],
    theirs: ["INSERT INTO t VALUES (1, 'x', 0)"],
  },
  "a row that both removed": {
    base: [T, "INSERT INTO t VALUES (1, 'x', 0)"],
    ours: ["DELETE FROM t"],
    theirs: ["DELETE FROM t"],
  },
  "a cell that both changed alike": {
    base: [T, "INSERT INTO t VALUES (1, 'x', 0)"],
    ours: ["UPDATE t SET a = 'y'"],
    theirs: ["UPDATE t SET a = 'y', b = 1"],
  },
  "a cell that was decided for the source": {
    base: [T, "INSERT INTO t VALUES (1, 'base', 0)"],
    ours: ["UPDATE t SET a = 'mine'"],
    theirs: ["UPDATE t SET a = 'theirs'"],
    decide: "theirs",
  },
  "a NULL, decided for the source": {
    base: [T, "INSERT INTO t VALUES (1, 'base', 0)"],
    ours: ["UPDATE t SET a = NULL"],
    theirs: ["UPDATE t SET a = 'theirs'"],
    decide: "theirs",
  },
  "a row changed here, removed there": {
    base: [T, "INSERT INTO t VALUES (1, 'base', 0)"],
    ours: ["UPDATE t SET a = 'mine'"],
    theirs: ["DELETE FROM t"],
    decide: "theirs",
  },
  "a row removed here, changed there": {
    base: [T, "INSERT INTO t VALUES (1, 'base', 0)"],
    ours: ["DELETE FROM t"],
    theirs: ["UPDATE t SET a = 'theirs'"],
    decide: "theirs",
  },
  "a row inserted twice": {
    base: [T],
    ours: ["INSERT INTO t VALUES (1, 'mine', 0)"],
    theirs: ["INSERT INTO t VALUES (1, 'theirs', 0)"],
    decide: "theirs",
  },
  "an index and a version that both made": {
    base: [T],
    ours: ["CREATE INDEX i ON t (a)", "PRAGMA user_version = 3"],
    theirs: ["CREATE INDEX i ON t (a)", "PRAGMA user_version = 3", "INSERT INTO t VALUES (1, 'x', 0)"],
  },
  "a table that both made, with a row of each": {
    base: ["CREATE TABLE other (x)"],
    ours: [T, "INSERT INTO t VALUES (1, 'mine', 0)"],
    theirs: [T, "INSERT INTO t VALUES (2, 'theirs', 0)"],
  },
  "a table that both made, with other rows of the same keys": {
    base: ["CREATE TABLE other (x)"],
    ours: [T, "INSERT INTO t VALUES (1, 'mine', 0), (2, 'mine', 1), (3, 'both', 2)"],
    theirs: [T, "INSERT INTO t VALUES (1, 'theirs', 0), (3, 'both', 2), (4, 'theirs', 3)"],
    decide: "theirs",
  },
  "a column that both added, written to by the source": {
    base: ["CREATE TABLE t (id INTEGER PRIMARY KEY, a)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')"],
    ours: [ADD_B, "UPDATE t SET b = 'mine' WHERE id = 2"],
    theirs: [ADD_B, "UPDATE t SET b = 'theirs' WHERE id = 1", "INSERT INTO t VALUES (3, 'z', 'theirs')"],
  },
  "a column that both added, written over": {
    base: ["CREATE TABLE t (id INTEGER PRIMARY KEY, a)", "INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')"],
    ours: [ADD_B, "UPDATE t SET b = 'mine' || id"],
    theirs: [ADD_B, "UPDATE t SET b = 'theirs', a = 'theirs' WHERE id = 1", "DELETE FROM t WHERE id = 2"],
    decide: "theirs",
  },
  "a column that both renamed, written over": {
    base: ["CREATE TABLE t (id INTEGER PRIMARY KEY, a, c)", "INSERT INTO t VALUES (1, 'x', 0)"],
    ours: ["ALTER TABLE t RENAME c TO b", "UPDATE t SET b = 'mine'"],
    theirs: ["ALTER TABLE t RENAME c TO b", "UPDATE t SET b = 'theirs', a = 'theirs'"],
    decide: "theirs",
  },
  "a column that both dropped, beside one written over": {
    base: ["CREATE TABLE t (id INTEGER PRIMARY KEY, a, b, c)", "INSERT INTO t VALUES (1, 'x', 0, 'gone')"],
    ours: ["ALTER TABLE t DROP c", "UPDATE t SET a = 'mine'"],
    theirs: ["ALTER TABLE t DROP c", "UPDATE t SET a = 'theirs'"],
    decide: "theirs",
  },
  "a table that both dropped": {
    base: [T, "CREATE TABLE other (x)", "INSERT INTO other VALUES (1)"],
    ours: ["DROP TABLE other"],
    theirs: ["DROP TABLE other", "INSERT INTO t VALUES (1, 'x', 0)"],
  },
  "a column of the target's own in a row that was removed": {
    base: ["CREATE TABLE t (id INTEGER PRIMARY KEY, a)", "INSERT INTO t VALUES (1, 'x'), (2, 'y')"],
    ours: [ADD_B, "UPDATE t SET b = 'mine'"],
    theirs: ["DELETE FROM t WHERE id = 1", "UPDATE t SET a = 'theirs' WHERE id = 2"],
    decide: "theirs",
  },
  "a row of another key, and one that came since": {
    base: ["CREATE TABLE t (id TEXT PRIMARY KEY, a, b) WITHOUT ROWID", "INSERT INTO t VALUES ('k', 'base', 0)"],
    ours: ["UPDATE t SET a = 'mine'"],
    theirs: ["UPDATE t SET a = 'theirs', b = 1"],
    decide: "theirs",
    then: ["INSERT INTO t VALUES ('since', 'x', 0)"],
    rows: ["k|mine|0", "since|x|0"],
  },
  "a cell that was decided for the target, and is since as the source had it": {
    base: [T, "INSERT INTO t VALUES (1, 'base', 0)"],
    ours: ["UPDATE t SET a = 'mine'"],
    theirs: ["UPDATE t SET a = 'theirs', b = 1"],
    decide: "ours",
    then: ["UPDATE t SET a = 'theirs'"],
    rows: ["1|theirs|0"],
  },
  "a row that was decided for the target, and is since as the source had it": {
    base: [T],
    ours: ["INSERT INTO t VALUES (1, 'mine', 0)"],
    theirs: ["INSERT INTO t VALUES (1, 'theirs', 0), (2, 'theirs', 0)"],
    decide: "ours",
    then: ["UPDATE t SET a = 'theirs'"],
    rows: ["1|theirs|0"],
  },
  "a row that was to go, stayed and is since as the source began": {
    base: [T, "INSERT INTO t VALUES (1, 'base', 0)"],
    ours: ["UPDATE t SET a = 'mine'"],
    theirs: ["DELETE FROM t", "INSERT INTO t VALUES (2, 'theirs', 0)"],
    decide: "ours",
    then: ["DELETE FROM t WHERE id = 1"],
    rows: [],
  },
  "a cell that was decided for the target, in a row that it removed since": {
    base: [T, "INSERT INTO t VALUES (1, 'base', 0), (2, 'base', 0)"],
    ours: ["UPDATE t SET a = 'mine' WHERE id = 1"],
    theirs: ["UPDATE t SET a = 'theirs'"],
    decide: "ours",
    then: ["DELETE FROM t WHERE id = 1"],
    rows: ["2|base|0"],
  },
};

/** Definitions, header fields and rows. */
function contentOf(path: string) {
  using db = new DatabaseSync(path);
  const rows = db.prepare("SELECT id || '|' || ifnull(a, 'NULL') || '|' || b AS row FROM t ORDER BY id").all();
  return {
    schema: db.prepare("SELECT sql FROM sqlite_schema ORDER BY name").all(),
    version: db.prepare("PRAGMA user_version").get(),
    rows: rows.map(({ row }) => String(row)),
  };
}

for (const [name, { base, ours, theirs, decide, then = [], rows }] of Object.entries(CASES)) {
  Deno.test(`what a target had stays once a merge is taken back: ${name}`, () =>
    withDirectory(async (directory) => {
      const path = (side: string) => `${directory}/${side}.db`;
      sql(path("base"), ...base);
      for (const side of ["ours", "theirs"]) Deno.copyFileSync(path("base"), path(side));
      sql(path("ours"), ...ours);
      sql(path("theirs"), ...theirs);
      Deno.copyFileSync(path("ours"), path("had"));
      const before = contentOf(path("ours"));
      const left: string[] = [];
      {
        using changes = await SourceChanges.read(path("base"), path("theirs"));
        const outcome = await mergeInto(path("ours"), changes, { prefer: decide });
        assertEquals([outcome.merged, outcome.conflicts], [true, []]);
        left.push(...outcome.left);
      }
      sql(path("ours"), ...then);
      using changes = await SourceChanges.read(path("theirs"), path("base"), { before: [{ path: path("had"), left }] });
      const { merged, conflicts } = await mergeInto(path("ours"), changes);
      assertEquals([merged, conflicts], [true, []]);
      assertEquals(contentOf(path("ours")), { ...before, ...rows === undefined ? {} : { rows } });
    }));
}

/** Brings a table with a row, and `then` is what the target does with it. */
async function broughtTable(then: string[], ours: string[] = []) {
  return await withDirectory(async (directory) => {
    const path = (side: string) => `${directory}/${side}.db`;
    sql(path("base"), T);
    for (const side of ["ours", "theirs"]) Deno.copyFileSync(path("base"), path(side));
    sql(path("theirs"), "CREATE TABLE brought (x)", "INSERT INTO brought VALUES (1)");
    sql(path("ours"), ...ours);
    Deno.copyFileSync(path("ours"), path("had"));
    {
      using changes = await SourceChanges.read(path("base"), path("theirs"));
      assertEquals((await mergeInto(path("ours"), changes)).conflicts, []);
    }
    sql(path("ours"), ...then);
    using changes = await SourceChanges.read(path("theirs"), path("base"), { before: [{ path: path("had") }] });
    const { merged, conflicts } = await mergeInto(path("ours"), changes);
    using db = new DatabaseSync(path("ours"));
    const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").all();
    return { merged, conflicts, tables: tables.map(({ name }) => String(name)) };
  });
}

Deno.test("a table that came with a merge and has another name since is a conflict", async () => {
  const rename = "ALTER TABLE brought RENAME TO other";
  const { merged, conflicts, tables } = await broughtTable([rename]);
  const [{ kind, table, detail } = {}] = conflicts;
  assertEquals([merged, conflicts.length, kind, table, tables], [false, 1, "definition", "brought", ["other", "t"]]);
  assertMatch(detail!, /no such table/);
  // Where its rows went before, or it is there again, nothing is left of it.
  assertEquals((await broughtTable(["DROP TABLE brought", "CREATE TABLE brought (x)"])).tables, ["t"]);
  // Both had it, with the same row: nothing was brought.
  const same = ["CREATE TABLE brought (x)", "INSERT INTO brought VALUES (1)"];
  assertEquals((await broughtTable([rename], same)).tables, ["other", "t"]);
  assertEquals((await broughtTable([rename], same)).merged, true);
});

/** Cells by row and column. */
type Rows = Map<string, Map<string, string>>;

/** Where there is no column `c`, it is as if all rows had its default. */
function rowsOf(path: string): Rows {
  using db = new DatabaseSync(path);
  assertEquals(db.prepare("PRAGMA integrity_check").get()!.integrity_check, "ok");
  const names = db.prepare("SELECT name FROM pragma_table_info('t')").all().map(({ name }) => String(name));
  const shown = ["id", "a", "b", "c"].map((name) =>
    names.includes(name) ? `quote(${name}) AS ${name}` : `'0' AS ${name}`
  );
  const rows = db.prepare(`SELECT ${shown.join(", ")} FROM t ORDER BY id`).all();
  return new Map(rows.map(({ id, ...cells }) => [String(id), new Map(Object.entries(cells) as [string, string][])]));
}

const same = (one: Map<string, string> | undefined, other: Map<string, string> | undefined) =>
  JSON.stringify(one && [...one]) === JSON.stringify(other && [...other]);

/** What is there once exactly that is undone which made `after` of `before`; undefined where something is in its way. */
function undone(before: Rows, after: Rows, now: Rows): Rows | undefined {
  const result = new Map(now);
  for (const id of new Set([...before.keys(), ...after.keys()])) {
    const [was, brought, has] = [before.get(id), after.get(id), now.get(id)];
    if (same(was, brought) || same(was, has)) continue;
    if (was === undefined || brought === undefined || has === undefined) {
      if (!same(brought, has)) return undefined;
      if (was === undefined) result.delete(id);
      else result.set(id, was);
      continue;
    }
    const row = new Map(has);
    for (const [column, value] of brought) {
      if (was.get(column) === value || was.get(column) === has.get(column)) continue;
      if (has.get(column) !== value) return undefined;
      row.set(column, was.get(column)!);
    }
    result.set(id, row);
  }
  return new Map([...result].sort(([x], [y]) => x < y ? -1 : 1));
}

function withoutC(rows: Rows): Rows {
  return new Map([...rows].map(([id, cells]) => [id, new Map([...cells, ["c", "0"]])]));
}

function someWrites(random: SeededRandom, count: number, columns: readonly string[]): string[] {
  const [id, value] = [() => random.between(1, 4), () => random.pick(["0", "1", "NULL", "'x'"])];
  return Array.from({ length: count }, () => {
    const what = random.between(0, 4);
    if (what === 0) return `DELETE FROM t WHERE id = ${id()}`;
    if (what === 1) return `INSERT OR IGNORE INTO t(id, a, b) VALUES (${id()}, ${value()}, ${value()})`;
    return `UPDATE t SET ${random.pick(columns)} = ${value()} WHERE id = ${id()}`;
  });
}

const RUNS = scaled({ short: 30, long: 1_000, longest: 20_000 });

scaledTest("property: a merge, and each revert of it, is undone exactly as it changed the target", async () => {
  const done = { reverted: 0, refused: 0 };
  for (let seed = 0; seed < RUNS; seed++) {
    const random = new SeededRandom(seed);
    await withDirectory(async (directory) => {
      const path = (side: string) => `${directory}/${side}.db`;
      const table = random.pick([T, "CREATE TABLE t (id TEXT NOT NULL PRIMARY KEY, a, b) WITHOUT ROWID"]);
      const rows = ["INSERT INTO t(id, a, b) VALUES (1, 0, 0), (2, 0, 1), (3, 1, 0)"];
      const kind = random.pick(["rows", "both made the table", "both added a column", "theirs added a column"]);
      const [add, made] = ["ALTER TABLE t ADD COLUMN c DEFAULT 0", kind === "both made the table"];
      const [of_ours, of_theirs] = [kind.startsWith("both added"), kind.endsWith("a column")];
      const columns = (has_c: boolean) => ["a", "b", ...has_c ? ["c"] : []];
      const alike = someWrites(random, random.between(0, 3), columns(of_ours));
      const sides = {
        ours: [...made ? [table, ...rows] : [], ...of_ours ? [add] : [], ...alike],
        theirs: [...made ? [table, ...rows] : [], ...of_theirs ? [add] : [], ...alike],
      };
      sides.ours.push(...someWrites(random, random.between(0, 2), columns(of_ours)));
      sides.theirs.push(...someWrites(random, random.between(1, 4), columns(of_theirs)));
      const started = ["PRAGMA journal_mode = TRUNCATE", ...made ? ["CREATE TABLE other (x)"] : [table, ...rows]];
      sql(path("base"), ...started);
      for (const side of ["ours", "theirs"] as const) {
        Deno.copyFileSync(path("base"), path(side));
        sql(path(side), "BEGIN", ...sides[side], "COMMIT");
      }
      const did = [`seed ${seed}: ${table}`, ...sides.ours, "theirs", ...sides.theirs];
      const found: FoundTarget[] = [{ path: path("had0") }];
      Deno.copyFileSync(path("ours"), path("had0"));
      let before = rowsOf(path("ours"));
      {
        using changes = await SourceChanges.read(path("base"), path("theirs"));
        const prefer = random.pick(["ours", "theirs"] as const);
        did.push(prefer);
        const { merged, left } = await mergeInto(path("ours"), changes, { prefer });
        assert(merged, did.join("; "));
        found[0]!.left = left;
      }
      for (let depth = 1; depth <= 4; depth++) {
        const after = rowsOf(path("ours"));
        const since = someWrites(random, random.between(0, 2), columns(of_ours));
        sql(path("ours"), "BEGIN", ...since, "COMMIT");
        did.push(`depth ${depth}`, ...since);
        const now = rowsOf(path("ours"));
        // A column that goes has nothing to be in conflict about, in rows that are gone.
        const goes = !of_ours && of_theirs && depth % 2 === 1;
        const seen = (rows: Rows) => goes ? withoutC(rows) : rows;
        const expected = undone(seen(before), seen(after), seen(now));
        const [from, to] = depth % 2 === 1 ? ["theirs", "base"] : ["base", "theirs"];
        const next = path(`had${depth}`);
        Deno.copyFileSync(path("ours"), next);
        using changes = await SourceChanges.read(path(from!), path(to!), { before: found });
        const { merged, conflicts } = await mergeInto(path("ours"), changes);
        const said = `${did.join("; ")}: ${JSON.stringify(conflicts)}`;
        assertEquals(rowsOf(path("ours")), merged ? expected : now, said);
        // A column that goes is looked at whole.
        const is_column = !of_ours && of_theirs && conflicts.every(({ kind }) => kind === "definition");
        assert(merged || expected === undefined || is_column, said);
        done[merged ? "reverted" : "refused"]++;
        if (!merged) return;
        found.push({ path: next });
        before = now;
      }
    });
  }
  assert(done.reverted > RUNS && done.refused > RUNS / 10, JSON.stringify(done));
});

/**
 * Merges over random schemas: keys of every kind, types and constraints, generated columns, indexes of a part and of an
 * expression, foreign keys with every action, triggers and full-text tables, with random rows on both sides.
 */

import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { SourceChanges } from "./source_changes.ts";
import type { FoundTarget } from "./taken_back.ts";
import { mergeInto, type ThreeWayOptions } from "./three_way.ts";

interface Table {
  name: string;
  /** Declared type of a column `id` that is its key. */
  type: string;
  /** Columns of its key; none where the rowid is it. */
  key: string[];
  /** Columns that statements write, the key's included. */
  columns: string[];
}

interface Schema {
  statements: string[];
  tables: Table[];
}

const ACTIONS = ["CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"];
const VALUES = ["NULL", "0", "1", "2", "3", "-7", "9223372036854775807", "1.5", "'1'", "'x'", "'X'", "''", "x'00ff'"];
const KEYS = ["1", "2", "3", "4", "5"];

/** A schema of three tables that may refer to each other, and perhaps a full-text one. */
function someSchema(random: SeededRandom): Schema {
  const statements: string[] = [];
  const tables: Table[] = [];
  const maybe = (text: string, one_in = 3) => random.between(1, one_in) === 1 ? text : "";
  for (const name of ["a", "b c", "d"]) {
    const quoted = `"${name}"`;
    const strict = random.between(1, 3) === 1;
    const type = () =>
      random.pick(strict ? ["INTEGER", "REAL", "TEXT", "BLOB", "ANY"] : ["INT", "REAL", "TEXT", "BLOB", ""]);
    const kind = random.pick(["rowid", "autoincrement", "text", "pair", "pair_without_rowid", "none"]);
    const [key, definition] = {
      rowid: [["id"], "id INTEGER PRIMARY KEY"],
      autoincrement: [["id"], "id INTEGER PRIMARY KEY AUTOINCREMENT"],
      text: [["id"], `id TEXT PRIMARY KEY NOT NULL${maybe(" COLLATE NOCASE")}`],
      pair: [["k", "id"], `id ${type()} NOT NULL, k INTEGER NOT NULL`],
      pair_without_rowid: [["k", "id"], "id TEXT NOT NULL, k INTEGER NOT NULL"],
      none: [[], `id ${type()}`],
    }[kind] as [string[], string];
    const parts = [
      definition,
      `u ${type()}${maybe(" UNIQUE")}`,
      `v ${type()}${maybe(" DEFAULT 1")}${maybe(" CHECK (v IS NOT 3)")}`,
      `n ${type()}${maybe(" COLLATE NOCASE")}`,
    ];
    if (random.between(1, 2) === 1) {
      parts.push(`g ${strict ? "ANY" : ""} AS (n || '-g') ${random.pick(["VIRTUAL", "STORED"])}`);
    }
    const columns = [...kind.startsWith("pair") ? ["k"] : [], "id", "u", "v", "n"];
    const [parent] = tables.filter(({ key }) => key.length === 1);
    if (parent !== undefined && random.between(1, 2) === 1) {
      const deferred = maybe(" DEFERRABLE INITIALLY DEFERRED");
      const on = `ON DELETE ${random.pick(ACTIONS)} ON UPDATE ${random.pick(ACTIONS)}${deferred}`;
      // Of another type SQLite would not find the children of a row that goes.
      parts.push(`f ${parent.type} REFERENCES "${parent.name}"(id) ${on}`);
      columns.push("f");
    }
    if (kind.startsWith("pair")) parts.push(`PRIMARY KEY (${key.join(", ")})`);
    const options = [...kind === "pair_without_rowid" ? ["WITHOUT ROWID"] : [], ...strict ? ["STRICT"] : []];
    statements.push(`CREATE TABLE ${quoted}(${parts.join(", ")}) ${options.join(", ")}`);
    if (random.between(1, 2) === 1) {
      const what = random.pick([
        "(v) WHERE v > 0",
        "(n || 'e')",
        "(n COLLATE NOCASE, v DESC)",
        "(u) WHERE n IS NOT NULL",
      ]);
      statements.push(`CREATE ${maybe("UNIQUE ")}INDEX "i ${name}" ON ${quoted} ${what}`);
    }
    tables.push({ name, type: kind === "text" ? "TEXT" : "INTEGER", key, columns });
  }
  if (random.between(1, 2) === 1) {
    const [from, to] = [random.pick(tables), random.pick(tables)];
    const event = random.pick(["INSERT", "UPDATE", "DELETE"]);
    statements.push(
      `CREATE TRIGGER r AFTER ${event} ON "${from.name}" BEGIN UPDATE "${to.name}" SET n = 'fired' WHERE id = '2'; END`,
    );
  }
  if (random.between(1, 2) === 1) {
    statements.push("CREATE VIRTUAL TABLE words USING fts5(n, v)");
    tables.push({ name: "words", type: "", key: [], columns: ["n", "v"] });
  }
  return { statements, tables };
}

/** Statements that insert, change and delete a few rows; some of them SQLite may refuse. */
function someStatements(random: SeededRandom, { tables }: Schema, count: number, inserts: boolean): string[] {
  return Array.from({ length: count }, () => {
    const { name, key, columns } = random.pick(tables);
    const value = (column: string) => random.pick(key.includes(column) || column === "f" ? KEYS : VALUES);
    const at = key.length === 0
      ? `rowid = ${random.between(1, 6)}`
      : key.map((column) => `"${column}" = ${random.pick(KEYS)}`).join(" AND ");
    const what = inserts ? 0 : random.between(0, 3);
    if (what === 0) return `INSERT INTO "${name}"(${columns.join(", ")}) VALUES (${columns.map(value).join(", ")})`;
    if (what === 1) return `DELETE FROM "${name}" WHERE ${at}`;
    const column = random.pick(columns);
    return `UPDATE "${name}" SET ${column} = ${value(column)} WHERE ${at}`;
  });
}

/** Runs them as an application that minds its foreign keys, and returns those that SQLite took. */
function run(path: string, statements: readonly string[]): string[] {
  using db = new DatabaseSync(path);
  db.exec("PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON");
  return statements.filter((statement) => {
    try {
      db.exec(statement);
      return true;
    } catch {
      return false;
    }
  });
}

/** Every row of every table, by value and storage class, without the rowids of rows that have no key of their own. */
function contentOf(path: string, { tables }: Schema): Record<string, string[]> {
  using db = new DatabaseSync(path, { readBigInts: true } as object);
  assertEquals(db.prepare("PRAGMA integrity_check").all().map((row) => row.integrity_check), ["ok"]);
  assertEquals(db.prepare("PRAGMA foreign_key_check").all(), []);
  const content: Record<string, string[]> = {};
  for (const { name } of tables) {
    if (name === "words") db.exec("INSERT INTO words(words, rank) VALUES ('integrity-check', 1)");
    const columns = db.prepare("SELECT name FROM pragma_table_xinfo(?) WHERE hidden <> 1").all(name);
    const shown = columns.map(({ name }) => `typeof("${name}") || quote("${name}")`).join(" || ',' || ");
    content[name] = db.prepare(`SELECT ${shown} AS row FROM "${name}"`).all().map(({ row }) => String(row)).sort();
  }
  return content;
}

async function merge(from: string, to: string, into: string, options: ThreeWayOptions & { before?: FoundTarget } = {}) {
  const { before, ...how } = options;
  using changes = await SourceChanges.read(from, to, { before: before && [before] });
  const outcome = await mergeInto(into, changes, how);
  // Without their log, so that the file can be copied.
  using db = new DatabaseSync(into);
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  return outcome;
}

/** Three sides of a random database: where both began, and what each did. */
async function onSides(
  seed: number,
  work: (sides: {
    schema: Schema;
    /** A fresh copy of a side. */
    copy: (side: "base" | "one" | "other") => string;
    said: string;
  }) => Promise<void>,
): Promise<void> {
  const random = new SeededRandom(seed);
  const schema = someSchema(random);
  await withDirectory(async (directory) => {
    const path = (name: string) => `${directory}/${name}`;
    run(path("base"), ["PRAGMA journal_mode = WAL", ...schema.statements, ...someStatements(random, schema, 20, true)]);
    const did = ["one", "other"].map((side) => {
      Deno.copyFileSync(path("base"), path(side));
      return run(path(side), someStatements(random, schema, random.between(1, 6), false)).join("; ");
    });
    let copies = 0;
    const copy = (side: string) => {
      const to = path(`copy${copies++}`);
      Deno.copyFileSync(path(side), to);
      return to;
    };
    await work({ schema, copy, said: `seed ${seed}: ${schema.statements.join("; ")} | ${did.join(" | ")}` });
  });
}

const RUNS = scaled({ short: 60, long: 1_000, longest: 10_000 });

scaledTest("property: of any schema a merge into the base gives the source, once, and is taken back", async () => {
  for (let seed = 0; seed < RUNS; seed++) {
    await onSides(seed, async ({ schema, copy, said }) => {
      const [base, source, target] = [copy("base"), copy("one"), copy("base")];
      const before = contentOf(target, schema);
      assertEquals((await merge(base, copy("base"), target)).tables, [], said);
      assertEquals(contentOf(target, schema), before, said);
      const { merged, conflicts } = await merge(base, source, target);
      assertEquals([merged, conflicts], [true, []], said);
      const there = contentOf(source, schema);
      assertEquals(contentOf(target, schema), there, said);
      assertEquals((await merge(base, source, target)).merged, true, said);
      assertEquals(contentOf(target, schema), there, said);
      assertEquals((await merge(source, base, target)).merged, true, said);
      assertEquals(contentOf(target, schema), before, said);
    });
  }
});

scaledTest(
  "property: of any schema either side can be merged first; a conflict changes nothing",
  async () => {
    let merges = 0;
    for (let seed = 0; seed < RUNS; seed++) {
      await onSides(1_000_000 + seed, async ({ schema, copy, said }) => {
        const base = copy("base");
        const results: (Awaited<ReturnType<typeof merge>> & { content: unknown })[] = [];
        for (const [mine, theirs] of [["one", "other"], ["other", "one"]] as const) {
          const target = copy(mine);
          const before = contentOf(target, schema);
          const result = await merge(base, copy(theirs), target);
          const content = contentOf(target, schema);
          if (!result.merged) assertEquals(content, before, said);
          else merges++;
          results.push({ ...result, content });
        }
        const [one, other] = results as [typeof results[0], typeof results[0]];
        if (one.merged && other.merged) return assertEquals(one.content, other.content, said);
        // Without a key a row is known by the cells that the source left, which are not the same either way.
        const asked = one.merged ? other.conflicts : other.merged ? one.conflicts : [];
        for (const { kind, key, column } of asked) {
          assertEquals([kind, Object.keys(key ?? {}), column], ["changed_twice", ["rowid"], undefined], said);
        }
      });
    }
    assert(merges > RUNS / 2, `${merges} of ${2 * RUNS}`);
  },
);

scaledTest(
  "property: of any schema a merge that is taken back leaves what was there",
  async () => {
    let taken_back = 0;
    for (let seed = 0; seed < RUNS; seed++) {
      await onSides(2_000_000 + seed, async ({ schema, copy, said }) => {
        for (const prefer of ["ours", "theirs"] as const) {
          const [base, source, target, had] = [copy("base"), copy("other"), copy("one"), copy("one")];
          const before = contentOf(target, schema);
          const { merged, left } = await merge(base, source, target, { prefer });
          if (!merged) continue;
          const back = await merge(source, base, target, { before: { path: had, left } });
          assertEquals([back.merged, back.conflicts], [true, []], `${prefer}, ${said}`);
          assertEquals(contentOf(target, schema), before, `${prefer}, ${said}`);
          taken_back++;
        }
      });
    }
    assert(taken_back > RUNS / 2, `${taken_back} of ${2 * RUNS}`);
  },
);

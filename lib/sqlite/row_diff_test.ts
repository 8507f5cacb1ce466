import { assert, assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { DatabaseSync } from "node:sqlite";
import { TaskdError } from "../errors.ts";
import type { TableDiff } from "./diff_result.ts";
import { integrityCheck } from "./integrity.ts";
import { type ComparedTable, diffRows, type RowDiffOptions } from "./row_diff.ts";

/** Makes two databases from a common start and compares them. */
async function diff(start: string, a: string, b: string, options?: RowDiffOptions): Promise<ComparedTable[]> {
  const dir = await Deno.makeTempDir();
  try {
    for (const [name, sql] of [["a", a], ["b", b]] as const) {
      // Some promises are about what an application cannot write by accident.
      const db = new DatabaseSync(`${dir}/${name}?.db`, { defensive: false } as object);
      db.exec(start);
      db.exec(sql);
      db.close();
    }
    return await diffRows(`${dir}/a?.db`, `${dir}/b?.db`, options);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function changed(table: string, counts: Partial<ComparedTable> = {}): ComparedTable {
  return { table, change: "changed", rows_added: 0, rows_removed: 0, rows_changed: 0, ...counts };
}

Deno.test("diffRows() of equal databases is empty, whatever their pages look like", async () => {
  const start = "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, x'00')";
  assertEquals(await diff(start, "", "DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (2, NULL); VACUUM"), []);
});

Deno.test("diffRows() counts and shows added, removed and changed rows", async () => {
  const diffs = await diff(
    `CREATE TABLE t(id INTEGER PRIMARY KEY, x, y); INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
     CREATE TABLE same(x); INSERT INTO same VALUES (1)`,
    "",
    "DELETE FROM t WHERE id = 1; UPDATE t SET x = 'B' WHERE id = 2; INSERT INTO t VALUES (9, 'z', 2.5)",
    { rows: 10 },
  );
  assertEquals(diffs, [changed("t", {
    rows_added: 1,
    rows_removed: 1,
    rows_changed: 1,
    rows: [
      { change: "removed", key: { id: 1 }, before: { id: 1, x: "a", y: 1 } },
      { change: "changed", key: { id: 2 }, before: { x: "b" }, after: { x: "B" } },
      { change: "added", key: { id: 9 }, after: { id: 9, x: "z", y: 2.5 } },
    ],
  })]);
});

Deno.test("diffRows() distinguishes types, NULLs, and bytes that drivers blur", async () => {
  const pairs = [
    ["NULL", "''"],
    ["1", "1.0"],
    ["1", "'1'"],
    ["'a'", "x'61'"],
    ["x''", "NULL"],
    ["9007199254740992", "9007199254740993"],
    ["0.1", "0.10000000000000002"],
    ["CAST(x'610062' AS TEXT)", "CAST(x'610063' AS TEXT)"],
    ["CAST(x'ff41' AS TEXT)", "CAST(x'fe41' AS TEXT)"],
    ["'a,I1'", "'a'"],
  ] as const;
  const insert = (side: 0 | 1) => pairs.map((pair, i) => `INSERT INTO t VALUES (${i}, ${pair[side]})`).join(";");
  const [table] = await diff("CREATE TABLE t(id INTEGER PRIMARY KEY, x)", insert(0), insert(1), { rows: 100 });
  assertEquals(table?.rows_changed, pairs.length);
  assertEquals(table?.rows?.[5], {
    change: "changed",
    key: { id: 5 },
    before: { x: "9007199254740992" },
    after: { x: "9007199254740993" },
  });
  assertEquals(table?.rows?.[3], {
    change: "changed",
    key: { id: 3 },
    before: { x: "a" },
    after: { x: { hex: "61", bytes: 1 } },
  });
});

Deno.test("diffRows() pairs rows by any kind of primary key", async () => {
  const tables: Record<string, string> = {
    text_key: "k TEXT PRIMARY KEY, v",
    text_nocase: "k TEXT COLLATE NOCASE PRIMARY KEY, v",
    descending: "k INTEGER PRIMARY KEY DESC, v",
    unique_only: "k UNIQUE, v",
    "odd \"na'me": "k INT PRIMARY KEY, v",
  };
  for (const [name, columns] of Object.entries(tables)) {
    const table = `"${name.replaceAll('"', '""')}"`;
    const insert = [3, 1, 2].map((k) => `INSERT INTO ${table} VALUES (${k}, 'v${k}')`).join(";");
    const [found, ...more] = await diff(
      `CREATE TABLE ${table}(${columns}); ${insert}`,
      "",
      `UPDATE ${table} SET v = 'new' WHERE k = 1; DELETE FROM ${table} WHERE k = 2; INSERT INTO ${table} VALUES (7, 7)`,
    );
    assertEquals(more, []);
    // A freed rowid at the end is taken again, so that without a key the last row has changed twice.
    const expected = name === "unique_only" ? { rows_changed: 2 } : { rows_added: 1, rows_removed: 1, rows_changed: 1 };
    assertEquals(found, changed(name, expected));
  }
});

Deno.test("diffRows() reads WITHOUT ROWID tables, composite keys and keys that repeat NULL", async () => {
  const [composite, nulls] = await diff(
    `CREATE TABLE c(a, b TEXT, v, PRIMARY KEY (b, a)) WITHOUT ROWID; INSERT INTO c VALUES (1, 'x', 1), (2, 'x', 2), (1, 'y', 3);
     CREATE TABLE n(k TEXT PRIMARY KEY, v); INSERT INTO n VALUES (NULL, 1), (NULL, 2), ('a', 3)`,
    "",
    "UPDATE c SET v = 9 WHERE a = 1 AND b = 'y'; DELETE FROM n WHERE v = 2; VACUUM",
    { rows: 5 },
  );
  assertEquals(
    composite,
    changed("c", {
      rows_changed: 1,
      rows: [{ change: "changed", key: { b: "y", a: 1 }, before: { v: 3 }, after: { v: 9 } }],
    }),
  );
  assertEquals(
    nulls,
    changed("n", { rows_removed: 1, rows: [{ change: "removed", key: { k: null }, before: { k: null, v: 2 } }] }),
  );
});

Deno.test("diffRows() pairs rows by rowid where there is no key, even if columns hide its name", async () => {
  const diffs = await diff(
    `CREATE TABLE plain(x); INSERT INTO plain VALUES (1), (2);
     CREATE TABLE h1(rowid TEXT, _rowid_ TEXT); INSERT INTO h1 VALUES ('a', 'b');
     CREATE TABLE h3(rowid, oid, _rowid_); INSERT INTO h3 VALUES (1, 1, 1), (1, 1, 1), (2, 2, 2)`,
    "",
    "UPDATE plain SET x = 5 WHERE rowid = 2; UPDATE h1 SET _rowid_ = 'c'; DELETE FROM h3 WHERE oid = 2; INSERT INTO h3 VALUES (1, 1, 1)",
    { rows: 1 },
  );
  assertEquals(diffs.map(({ rows: _, ...rest }) => rest), [
    changed("h1", { rows_changed: 1 }),
    changed("h3", { rows_added: 1, rows_removed: 1 }),
    changed("plain", { rows_changed: 1 }),
  ]);
  assertEquals(diffs[2]?.rows, [{ change: "changed", key: { rowid: 2 }, before: { x: 2 }, after: { x: 5 } }]);
});

Deno.test("diffRows() counts the rows of tables on one side and does not compare changed columns", async () => {
  const diffs = await diff(
    "CREATE TABLE t(x); INSERT INTO t VALUES (1); CREATE TABLE seq(id INTEGER PRIMARY KEY AUTOINCREMENT)",
    "CREATE TABLE old(x); INSERT INTO old VALUES (1), (2)",
    "CREATE TABLE new(x); INSERT INTO new VALUES (3); ALTER TABLE t ADD COLUMN y; INSERT INTO seq VALUES (7); DELETE FROM seq",
  );
  assertEquals(diffs, [
    changed("new", { change: "added", rows_added: 1 }),
    changed("old", { change: "removed", rows_removed: 2 }),
    changed("t", { change: "schema" }),
  ]);
  const encodings = await diff("", "PRAGMA encoding='UTF-16le'; CREATE TABLE t(x)", "CREATE TABLE t(x)");
  assertEquals(encodings, [changed("t", { change: "schema" })]);
});

Deno.test("diffRows() bounds what it shows and can be kept to some tables", async () => {
  const [table, ...more] = await diff(
    "CREATE TABLE t(id INTEGER PRIMARY KEY, text, blob); CREATE TABLE u(x)",
    "",
    `WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 50)
     INSERT INTO t SELECT v, printf('%.*c', 5000, 'ä'), zeroblob(5000) FROM n; INSERT INTO u VALUES (1)`,
    { rows: 2, tables: ["t", "none"] },
  );
  assertEquals([table?.rows_added, table?.rows?.length, more], [50, 2, []]);
  assertEquals(table?.rows?.[0]?.after, {
    id: 1,
    text: `${"ä".repeat(200)}…`,
    blob: { hex: "00".repeat(64), bytes: 5000 },
  });
});

Deno.test("diffRows() shows text of a UTF-16 database", async () => {
  const [table] = await diff(
    "PRAGMA encoding='UTF-16be'; CREATE TABLE t(k TEXT PRIMARY KEY, v)",
    "INSERT INTO t VALUES ('ключ', '🙂')",
    "INSERT INTO t VALUES ('ключ', '🙃')",
    { rows: 1 },
  );
  assertEquals(table?.rows, [{ change: "changed", key: { k: "ключ" }, before: { v: "🙂" }, after: { v: "🙃" } }]);
});

Deno.test("diffRows() reads virtual tables by what they show and leaves their storage out", async () => {
  const diffs = await diff(
    `CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('one'), ('two');
     CREATE VIRTUAL TABLE r USING rtree(id, x0, x1); INSERT INTO r VALUES (1, 2, 3)`,
    "",
    "INSERT INTO f VALUES ('three'); UPDATE r SET x1 = 4",
    { rows: 1 },
  );
  assertEquals(diffs, [
    changed("f", { rows_added: 1, rows: [{ change: "added", key: { rowid: 3 }, after: { x: "three" } }] }),
    changed("r", {
      rows_changed: 1,
      rows: [{ change: "changed", key: { rowid: 1 }, before: { x1: 3 }, after: { x1: 4 } }],
    }),
  ]);
});

Deno.test("diffRows() reports internal tables on request, after all others", async () => {
  const start = `CREATE TABLE a_first(id INTEGER PRIMARY KEY AUTOINCREMENT, x); INSERT INTO a_first(x) VALUES ('one');
     CREATE TABLE z(x); CREATE TABLE zz(x); CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('one');
     CREATE VIRTUAL TABLE r USING rtree(id, x0, x1); INSERT INTO r VALUES (1, 2, 3)`;
  const change = `INSERT INTO z VALUES (1); UPDATE sqlite_sequence SET seq = 900; UPDATE r SET x1 = 4;
     INSERT INTO f(f, rank) VALUES ('rank', 'bm25(0.5)')`;
  const names = (diffs: TableDiff[]) => diffs.map(({ table }) => table);
  assertEquals(names(await diff(start, "", change)), ["r", "z"]);
  const diffs = await diff(start, "", change, { internal: true, rows: 1 });
  assertEquals(names(diffs), ["f", "r", "z", "f_config", "r_node", "sqlite_sequence"]);
  assertEquals(diffs.at(-1)?.rows, [{ change: "changed", key: { rowid: 1 }, before: { seq: 1 }, after: { seq: 900 } }]);
  assertEquals(await diff(start, "", "", { internal: true }), []);
});

Deno.test("diffRows() counts what a full-text table is kept in as a part of its line", async () => {
  const start = "CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('one'), ('two'); CREATE TABLE z(x)";
  const [added, ...others] = await diff(start, "", "INSERT INTO f VALUES ('three')", { internal: true, rows: 9 });
  assertEquals(others, []);
  assertEquals([added?.table, added?.rows_added, added?.rows?.length], ["f", 1, 1]);
  assert(added!.storage_rows! >= 3, "the content, the index and the sizes");
  // An index that leads elsewhere, over rows that are as they were.
  const forged = "UPDATE f_data SET block = x'00' WHERE id = 1; INSERT INTO f_idx VALUES (9, x'61', 1); " +
    "UPDATE f_docsize SET sz = x'05' WHERE id = 1";
  assertEquals(await diff(start, "", forged, { internal: true, rows: 9 }), [changed("f", { storage_rows: 3 })]);
  const dropped = await diff(start, "", "DROP TABLE f", { internal: true });
  assertEquals(dropped.map(({ table, change, rows_removed }) => [table, change, rows_removed]), [
    ["f", "removed", 2],
    ["f_config", "removed", 1],
  ]);
  assert(dropped[0]!.storage_rows! >= 6);
  assertEquals(await diff(start, "", forged), [], "not asked for");
});

Deno.test("diffRows() shows every row of a table that only has the name of full-text storage", async () => {
  const cases = [
    // The application's own, which the full-text table indexes.
    "CREATE TABLE f_content(id INTEGER PRIMARY KEY, x, price); CREATE VIRTUAL TABLE f USING fts5(x, content=f_content)",
    "CREATE TABLE f_content(id, price); CREATE VIRTUAL TABLE f USING fts5(x, content='')",
    // There is no such full-text table, or the name is another one.
    "CREATE TABLE f(x); CREATE TABLE f_content(id, price)",
    "CREATE TABLE f_content(id, price); CREATE VIRTUAL TABLE g USING fts5(x)",
    "CREATE VIRTUAL TABLE f USING rtree(id, x0, x1); CREATE TABLE f_content(id, price)",
  ];
  for (const start of cases) {
    const diffs = await diff(start, "", "INSERT INTO f_content(id, price) VALUES (1, 2)", { internal: true, rows: 1 });
    assertEquals(diffs.find(({ table }) => table === "f_content")?.rows?.length, 1, start);
    assert(diffs.every(({ storage_rows }) => storage_rows === undefined), start);
  }
  // It was one on one side alone.
  const own = "CREATE TABLE f_content(id INTEGER PRIMARY KEY, c0); INSERT INTO f_content VALUES (1, 'mine')";
  const diffs = await diff("", own, "CREATE VIRTUAL TABLE f USING fts5(x)", { internal: true });
  assert(diffs.some(({ table, rows_removed }) => table === "f_content" && rows_removed === 1));
});

Deno.test("diffRows() never puts a table last that was an ordinary one", async () => {
  const diffs = await diff(
    "CREATE TABLE z(x)",
    "CREATE TABLE f_data(id INTEGER PRIMARY KEY, block BLOB)",
    "CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO z VALUES (1)",
    { internal: true },
  );
  assertEquals(diffs.slice(0, 3).map(({ table, change, rows_added }) => [table, change, rows_added]), [
    ["f", "added", 0],
    ["f_data", "changed", 2],
    ["z", "changed", 1],
  ]);
});

Deno.test("diffRows() runs no view, not even one that feeds a full-text index", async () => {
  const start = `CREATE TABLE t(x); INSERT INTO t VALUES ('one');
     CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'x' AS x FROM n;
     CREATE VIRTUAL TABLE f USING fts5(x, content='v', content_rowid='id');
     CREATE TABLE g(a, b AS (abs(a)), c INT CHECK (c > 0)); INSERT INTO g(a, c) VALUES (-1, 1)`;
  assertEquals(await diff(start, "", "UPDATE t SET x = 'two'"), [changed("t", { rows_changed: 1 })]);
});

Deno.test("diffRows() agrees with the obvious comparison on random tables", async () => {
  const value = fc.constantFrom("NULL", "0", "1", "-5", "1.5", "'a'", "'b'", "'é'", "x'01'", "''");
  const rows = fc.uniqueArray(fc.tuple(fc.constantFrom("1", "2", "-3", "'a'", "'B'", "'b'", "'é'", "x'00'"), value), {
    selector: ([key]) => key,
    maxLength: 8,
  });
  await fc.assert(
    fc.asyncProperty(rows, rows, fc.constantFrom("", "WITHOUT ROWID"), async (a, b, tail) => {
      const insert = (rows: string[][]) => rows.map(([k, v]) => `INSERT INTO t VALUES (${k}, ${v})`).join(";");
      const [table] = await diff(`CREATE TABLE t(k PRIMARY KEY, v) ${tail}`, insert(a), insert(b));
      const find = (rows: string[][], key: string) => rows.find(([k]) => k === key)?.[1];
      const expected = {
        rows_added: b.filter(([k]) => find(a, k) === undefined).length,
        rows_removed: a.filter(([k]) => find(b, k) === undefined).length,
        rows_changed: a.filter(([k, v]) => find(b, k) !== undefined && find(b, k) !== v).length,
      };
      const any = Object.values(expected).some((count) => count > 0);
      assertEquals(table, any ? changed("t", expected) : undefined);
    }),
    { numRuns: 30 },
  );
});

Deno.test("diffRows() ends when its signal does", async () => {
  const many =
    "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 60000) INSERT INTO t SELECT v FROM n";
  const interrupted = async (done: Promise<unknown>, reason: Error) => {
    const { code, cause } = await assertRejects(() => done, TaskdError);
    assertEquals(code, "interrupted");
    assertStrictEquals(cause, reason);
  };
  const run = (signal: AbortSignal) => diff(`CREATE TABLE t(x); ${many}`, "", "", { signal });
  const [stop, enough] = [new AbortController(), new Error("enough")];
  const done = run(stop.signal);
  stop.abort(enough);
  await interrupted(done, enough);
  const [later, late] = [new AbortController(), new Error("later")];
  setTimeout(() => later.abort(late));
  await interrupted(run(later.signal), late);
});

Deno.test("diffRows() and integrityCheck() name what a file is that they cannot read", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const good = `${dir}/good.db`;
    const db = new DatabaseSync(good);
    db.exec(`CREATE TABLE t(id INTEGER PRIMARY KEY, x);
      WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 3000) INSERT INTO t SELECT v, 'row ' || v FROM n`);
    db.close();
    assertEquals(integrityCheck(good), []);
    await Deno.writeTextFile(`${dir}/text.db`, "not a database ".repeat(100));
    const damaged = await Deno.readFile(good);
    damaged.fill(0xff, 4096, 8192);
    await Deno.writeFile(`${dir}/damaged.db`, damaged);
    const code = async (path: string) => (await assertRejects(() => diffRows(good, path), TaskdError)).code;
    assertEquals(await code(`${dir}/missing.db`), "not_found");
    assertEquals(await code(`${dir}/text.db`), "not_a_database");
    assertEquals(await code(`${dir}/damaged.db`), "corrupt");
    // In its last rows only, so that most can be read before.
    const late = await Deno.readFile(good);
    const at = late.toHex().indexOf(new TextEncoder().encode("row 2999").toHex()) / 2;
    late.fill(0xff, at - at % 4096, at - at % 4096 + 8);
    await Deno.writeFile(`${dir}/damaged.db`, late);
    assertEquals(await code(`${dir}/damaged.db`), "corrupt");
    assertEquals(integrityCheck(`${dir}/text.db`).length, 1);
    assert(integrityCheck(`${dir}/damaged.db`).length > 0);
    await assertRejects(() => Promise.try(() => integrityCheck(`${dir}/missing.db`)), TaskdError, "Cannot");
    // Nothing was left beside the images.
    assertEquals([...Deno.readDirSync(dir)].map((entry) => entry.name).sort(), ["damaged.db", "good.db", "text.db"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("diffRows() needs no more than its directory and leaves nothing in it", async () => {
  const dir = await Deno.makeTempDir();
  try {
    for (const name of ["a", "b"]) {
      const db = new DatabaseSync(`${dir}/${name}.db`);
      db.exec(`PRAGMA journal_mode=wal; CREATE TABLE t(x); INSERT INTO t VALUES ('${name}')`);
      db.close();
      await Deno.chmod(`${dir}/${name}.db`, 0o400);
    }
    const program = `import { diffRows } from ${JSON.stringify(import.meta.resolve("./row_diff.ts"))};
      console.log(JSON.stringify(await diffRows(Deno.args[0] + "/a.db", Deno.args[0] + "/b.db")));`;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-prompt", "--no-check", `--allow-read=${dir}`, `--allow-write=${dir}`, "-", dir],
      cwd: import.meta.dirname!,
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(program));
    await writer.close();
    const stdout = new TextDecoder().decode((await child.output()).stdout);
    assertEquals(JSON.parse(stdout), [changed("t", { rows_changed: 1 })]);
    assertEquals([...Deno.readDirSync(dir)].map((entry) => entry.name).sort(), ["a.db", "b.db"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

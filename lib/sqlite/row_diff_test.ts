import { assert, assertEquals, assertMatch, assertRejects, assertStrictEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { DatabaseSync } from "node:sqlite";
import { TaskdError } from "../errors.ts";
import { sha256Hex } from "../sha256.ts";
import type { DatabaseDiff, RowDiff, TableDiff } from "./diff_result.ts";
import { integrityCheck } from "./integrity.ts";
import {
  compareDatabases,
  type CompareOptions,
  differingRows,
  type RowPageOptions,
  type TablePage,
} from "./row_diff.ts";

/** Makes two databases from a common start and compares them. */
async function diff(start: string, a: string, b: string, options?: CompareOptions): Promise<TableDiff[]> {
  return (await compare(start, a, b, options)).tables;
}

/** The same, with all that is said. */
async function compare(start: string, a: string, b: string, options?: CompareOptions): Promise<DatabaseDiff> {
  const dir = await Deno.makeTempDir();
  try {
    for (const [name, sql] of [["a", a], ["b", b]] as const) {
      // Some promises are about what an application cannot write by accident.
      const db = new DatabaseSync(`${dir}/${name}?.db`, { defensive: false } as object);
      db.exec(start);
      db.exec(sql);
      db.close();
    }
    return await compareDatabases(`${dir}/a?.db`, `${dir}/b?.db`, options);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

function changed(table: string, counts: Partial<TableDiff> = {}): TableDiff {
  return { table, change: "changed", rows_added: 0, rows_removed: 0, rows_changed: 0, ...counts };
}

Deno.test("compareDatabases() of equal databases is empty, whatever their pages look like", async () => {
  const start = "CREATE TABLE t(id INTEGER PRIMARY KEY, x); INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, x'00')";
  assertEquals(await diff(start, "", "DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (2, NULL); VACUUM"), []);
});

Deno.test("compareDatabases() counts and shows added, removed and changed rows", async () => {
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
      { change: "added", key: { id: 9 }, after: { id: 9, x: "z", y: 2.5 } },
      { change: "changed", key: { id: 2 }, before: { x: "b" }, after: { x: "B" } },
    ],
  })]);
});

Deno.test("compareDatabases() distinguishes types, NULLs, and bytes that drivers blur", async () => {
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
    ["0.0", "-0.0"],
  ] as const;
  const insert = (side: 0 | 1) => pairs.map((pair, i) => `INSERT INTO t VALUES (${i}, ${pair[side]})`).join(";");
  const [table] = await diff("CREATE TABLE t(id INTEGER PRIMARY KEY, x)", insert(0), insert(1), { rows: 100 });
  assertEquals(table?.rows_changed, pairs.length);
  assertEquals(table?.rows?.[5], {
    change: "changed",
    key: { id: 5 },
    before: { x: { integer: "9007199254740992" } },
    after: { x: { integer: "9007199254740993" } },
  });
  assertEquals(table?.rows?.[3], {
    change: "changed",
    key: { id: 3 },
    before: { x: "a" },
    after: { x: { hex: "61", bytes: 1 } },
  });
  const shown = (i: number) => [table?.rows?.[i]?.before?.x, table?.rows?.[i]?.after?.x];
  assertEquals(shown(1), [1, { real: "1.0" }]);
  assertEquals(shown(7), ["a\0b", "a\0c"]);
  assertEquals(shown(8), [{ text: "\ufffdA", bytes: 2, hex: "ff41" }, { text: "\ufffdA", bytes: 2, hex: "fe41" }]);
  assertEquals(shown(10), [{ real: "0.0" }, { real: "-0.0" }]);
});

Deno.test("compareDatabases() pairs rows by any kind of primary key", async () => {
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

Deno.test("compareDatabases() reads WITHOUT ROWID tables, composite keys and keys that repeat NULL", async () => {
  const [composite, nulls] = await diff(
    `CREATE TABLE c(a, b TEXT, v, PRIMARY KEY (b, a)) WITHOUT ROWID; INSERT INTO c VALUES (1, 'x', 1), (2, 'x', 2), (1, 'y', 3);
     CREATE TABLE n(k TEXT PRIMARY KEY, v); INSERT INTO n VALUES (NULL, 1), (NULL, 2), ('a', 3)`,
    "",
    "UPDATE c SET v = 9 WHERE a = 1 AND b = 'y'; DELETE FROM n WHERE v = 2; UPDATE n SET v = 7 WHERE v = 1",
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
    changed("n", {
      rows_removed: 1,
      rows_changed: 1,
      rows: [
        { change: "removed", key: { k: null, rowid: 2 }, rowid: { before: 2 }, before: { k: null, v: 2 } },
        { change: "changed", key: { k: null, rowid: 1 }, before: { v: 1 }, after: { v: 7 } },
      ],
    }),
  );
});

Deno.test("compareDatabases() pairs rows by rowid where there is no key, even a hidden one", async () => {
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

Deno.test("compareDatabases() lists changed tables first, then removed, added and internal ones", async () => {
  const diffs = await diff(
    "CREATE TABLE t(x); INSERT INTO t VALUES (1); CREATE TABLE seq(id INTEGER PRIMARY KEY AUTOINCREMENT)",
    "CREATE TABLE old(x); INSERT INTO old VALUES (1), (2)",
    "CREATE TABLE new(x); INSERT INTO new VALUES (3); UPDATE t SET x = 2; INSERT INTO seq VALUES (7); DELETE FROM seq",
  );
  assertEquals(diffs, [
    changed("t", { rows_changed: 1 }),
    changed("old", { change: "removed", rows_removed: 2 }),
    changed("new", { change: "added", rows_added: 1 }),
    changed("sqlite_sequence", { rows_added: 1, internal: true }),
  ]);
});

Deno.test("compareDatabases() compares rows where columns came, went or have another name", async () => {
  const start =
    "CREATE TABLE t(id INTEGER PRIMARY KEY, x, y); INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)";
  const added = "ALTER TABLE t ADD COLUMN role TEXT DEFAULT 'user'; UPDATE t SET role = 'admin' WHERE id = 3;" +
    "UPDATE t SET x = 'B' WHERE id = 2; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (9, 'z', 9, 'root')";
  assertEquals(await diff(start, "", added, { rows: 9 }), [changed("t", {
    rows_added: 1,
    rows_removed: 1,
    rows_changed: 2,
    columns: [{ name: "role", change: "added", values: 2 }],
    rows: [
      { change: "removed", key: { id: 1 }, before: { id: 1, x: "a", y: 1 } },
      { change: "added", key: { id: 9 }, after: { id: 9, x: "z", y: 9, role: "root" } },
      { change: "changed", key: { id: 2 }, before: { x: "b" }, after: { x: "B" } },
      { change: "changed", key: { id: 3 }, before: {}, after: { role: "admin" } },
    ],
  })]);
  const [lost] = await diff(start, "", "ALTER TABLE t DROP COLUMN y; UPDATE t SET x = 'C' WHERE id = 3", { rows: 9 });
  assertEquals(lost?.columns, [{ name: "y", change: "removed", values: 3 }]);
  assertEquals(lost?.rows, [{ change: "changed", key: { id: 3 }, before: { x: "c", y: 3 }, after: { x: "C" } }]);
  const [renamed] = await diff(start, "", "ALTER TABLE t RENAME COLUMN y TO z; UPDATE t SET z = 5 WHERE id = 3", {
    rows: 9,
  });
  assertEquals(renamed?.columns, [{ name: "z", change: "renamed", from: "y", values: 0 }]);
  assertEquals(renamed?.rows, [{ change: "changed", key: { id: 3 }, before: { y: 3 }, after: { z: 5 } }]);
  const encodings = "CREATE TABLE t(x); INSERT INTO t VALUES ('ключ'), (1)";
  assertEquals((await compare("", `PRAGMA encoding='UTF-16le'; ${encodings}`, encodings)).tables, []);
});

Deno.test("compareDatabases() shows definitions with their SQL, settings, and other pages", async () => {
  const start = "CREATE TABLE t(x); CREATE INDEX i ON t(x); CREATE TRIGGER a AFTER DELETE ON t BEGIN SELECT 1; END";
  const { definitions, settings, tables } = await compare(
    start,
    "",
    "DROP TRIGGER a; CREATE TRIGGER a AFTER DELETE ON t BEGIN SELECT 2; END; DROP INDEX i; CREATE VIEW v AS SELECT 1;" +
      "PRAGMA user_version=7; PRAGMA application_id=8",
  );
  assertEquals(tables, []);
  assertEquals(definitions.map(({ type, name, change }) => [type, name, change]), [
    ["index", "i", "removed"],
    ["trigger", "a", "changed"],
    ["view", "v", "added"],
  ]);
  assertEquals([definitions[1]?.before, definitions[1]?.after], [
    "CREATE TRIGGER a AFTER DELETE ON t BEGIN SELECT 1; END",
    "CREATE TRIGGER a AFTER DELETE ON t BEGIN SELECT 2; END",
  ]);
  assertEquals(settings.map(({ setting, after }) => [setting, after]).slice(1), [
    ["user_version", "7"],
    ["application_id", "8"],
  ]);
  const layout = await compare(
    "CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)",
    "",
    "DELETE FROM t WHERE x = 2; INSERT INTO t VALUES (2)",
  );
  assertEquals([layout.tables, layout.definitions], [[], []]);
  const moved = await compare(
    "CREATE TABLE t(x); CREATE TABLE u(x); INSERT INTO u VALUES (1)",
    "",
    "DROP TABLE t; CREATE TABLE t(x); VACUUM",
  );
  assertEquals(moved.other_pages.length > 0, true);
});

Deno.test("a number and a text of the same digits are two keys, also where rowids are exchanged", async () => {
  const { tables } = await compare(
    "CREATE TABLE k(k PRIMARY KEY, v); INSERT INTO k VALUES ('1', 'text'), (1, 'number'), ('2', 'text'), (2.5, 'real')",
    "",
    "UPDATE k SET rowid = 9 WHERE v = 'number'; UPDATE k SET rowid = 2 WHERE k = '1'; UPDATE k SET rowid = 1 WHERE rowid = 9",
    { rows: 9 },
  );
  assertEquals(tables, [
    changed("k", {
      rows_changed: 2,
      rows: [
        { change: "changed", key: { k: "1" }, rowid: { before: 1, after: 2 }, before: {}, after: {} },
        { change: "changed", key: { k: 1 }, rowid: { before: 2, after: 1 }, before: {}, after: {} },
      ],
    }),
  ]);
});

Deno.test("compareDatabases() shows stored generated values and exchanged rowids", async () => {
  const forged = "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, ' AS (a * 2) STORED', '')";
  const start = "CREATE TABLE g(a, b AS (a * 2) STORED); INSERT INTO g(a) VALUES (1), (2);" +
    "CREATE TABLE k(k TEXT PRIMARY KEY, v); INSERT INTO k VALUES ('a', 1), ('b', 2)";
  const dir = await Deno.makeTempDir();
  try {
    const run = (name: string, ...all: string[]) => {
      for (const sql of all) {
        const db = new DatabaseSync(`${dir}/${name}`, { defensive: false } as object);
        db.exec(sql);
        db.close();
      }
    };
    run("a", start);
    run(
      "b",
      start,
      "UPDATE k SET rowid = 9 WHERE k = 'a'; UPDATE k SET rowid = 1 WHERE k = 'b'; UPDATE k SET rowid = 2 WHERE k = 'a'",
      forged,
      "UPDATE g SET b = 99 WHERE a = 2",
      "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, 'a, b)', 'a, b AS (a * 2) STORED)')",
    );
    const { tables, definitions } = await compareDatabases(`${dir}/a`, `${dir}/b`, { rows: 9 });
    assertEquals(definitions, []);
    assertEquals(tables, [
      changed("g", {
        rows_changed: 1,
        rows: [{ change: "changed", key: { rowid: 2 }, before: { b: 4 }, after: { b: 99 } }],
      }),
      changed("k", {
        rows_changed: 2,
        rows: [
          { change: "changed", key: { k: "a" }, rowid: { before: 1, after: 2 }, before: {}, after: {} },
          { change: "changed", key: { k: "b" }, rowid: { before: 2, after: 1 }, before: {}, after: {} },
        ],
      }),
    ]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("compareDatabases() reads no index in a table's place, and says which does not fit", async () => {
  const start = "CREATE TABLE w(a TEXT COLLATE NOCASE PRIMARY KEY, b) WITHOUT ROWID; CREATE INDEX i ON w(b, a);" +
    "INSERT INTO w VALUES ('k', 'mark')";
  const dir = await Deno.makeTempDir();
  try {
    const db = new DatabaseSync(`${dir}/a`);
    db.exec(start);
    db.close();
    const bytes = Deno.readFileSync(`${dir}/a`);
    const mark = new TextEncoder().encode("mark").toHex();
    for (let at = bytes.toHex().indexOf(mark); at >= 0; at = bytes.toHex().indexOf(mark, at + 8)) {
      const forged = bytes.slice();
      forged[at / 2] = "d".charCodeAt(0);
      Deno.writeFileSync(`${dir}/b`, forged);
      const { tables, problems, other_pages } = await compareDatabases(`${dir}/a`, `${dir}/b`, { rows: 1 });
      assertEquals(problems.length > 0, true);
      const [row] = tables[0]?.rows ?? [];
      if (row === undefined) assertEquals(other_pages, [{ where: "index", name: "i", pages: 1 }]);
      else assertEquals(row.after, { b: "dark" });
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("compareDatabases() says where a pointer map leads readers of untouched tables elsewhere", async () => {
  const dir = await Deno.makeTempDir();
  const read = (path: string) => {
    const db = new DatabaseSync(path, { readOnly: true });
    try {
      return db.prepare("SELECT last FROM t").all().map(({ last }) => last).join();
    } catch (error) {
      return (error as Error).message;
    } finally {
      db.close();
    }
  };
  try {
    const db = new DatabaseSync(`${dir}/a`);
    db.exec(`PRAGMA page_size=1024; PRAGMA auto_vacuum=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, v, last);
      INSERT INTO t VALUES (1, zeroblob(4000), hex(zeroblob(40))), (2, zeroblob(4000), 'two')`);
    db.close();
    const [bytes, expected] = [Deno.readFileSync(`${dir}/a`), read(`${dir}/a`)];
    const [map, pages] = [1024, bytes.length / 1024];
    const answers = new Set<string>();
    for (let page = 3; page <= pages; page++) {
      const entry = map + 5 * (page - 3);
      for (const [type, parent] of [[0, 0], [9, 3], [4, page - 2], [4, page - 1], [4, page + 1]] as const) {
        const forged = bytes.slice();
        forged[entry] = type;
        new DataView(forged.buffer).setUint32(entry + 1, parent);
        Deno.writeFileSync(`${dir}/b`, forged);
        const { problems } = await compareDatabases(`${dir}/a`, `${dir}/b`);
        const answer = read(`${dir}/b`);
        answers.add(answer);
        if (answer !== expected) assert(problems.length > 0, `${page}: ${type} ${parent}: ${answer}`);
      }
    }
    assert(answers.size > 1, "no reader went by the map");
    // A header that says there is a map where there is none sends readers to one all the same.
    const plain = new DatabaseSync(`${dir}/c`);
    plain.exec(`PRAGMA page_size=1024; CREATE TABLE t(id INTEGER PRIMARY KEY, v, last);
      INSERT INTO t VALUES (1, zeroblob(4000), hex(zeroblob(40))), (2, zeroblob(4000), 'two')`);
    plain.close();
    const mapless = Deno.readFileSync(`${dir}/c`);
    new DataView(mapless.buffer).setUint32(52, 1);
    Deno.writeFileSync(`${dir}/d`, mapless);
    assert(read(`${dir}/d`) !== read(`${dir}/c`), "no reader went by the missing map");
    assert((await compareDatabases(`${dir}/c`, `${dir}/d`)).problems.length > 0, "a missing map");
    const more = new Uint8Array(bytes.length + 1024);
    more.set(bytes);
    new DataView(more.buffer).setUint32(28, pages + 1);
    Deno.writeFileSync(`${dir}/b`, more);
    assertEquals((await compareDatabases(`${dir}/a`, `${dir}/b`)).problems, [
      { side: "after", problem: "1 page in no table, no index and not free" },
    ]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("compareDatabases() says that indexes have exchanged their trees", async () => {
  const start = "CREATE TABLE r(k, v); CREATE INDEX i ON r(k); CREATE INDEX j ON r(v); INSERT INTO r VALUES ('x', 1)";
  const exchanged = "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET rootpage = " +
    "(SELECT sum(rootpage) FROM sqlite_schema WHERE type = 'index') - rootpage WHERE type = 'index'";
  const { problems } = await compare(start, "", exchanged);
  assertEquals(problems.map(({ side, problem }) => `${side}: ${problem}`).sort(), [
    "after: row 1 missing from index i",
    "after: row 1 missing from index j",
  ]);
});

Deno.test("compareDatabases() compares tables whose collation only an application has", async () => {
  const start = ["PRIMARY KEY, v)", "PRIMARY KEY, v) WITHOUT ROWID"].map((tail, i) =>
    `CREATE TABLE t${i}(k TEXT COLLATE NOCASE ${tail}; INSERT INTO t${i} VALUES ('x', 1), ('y', 2), ('z', 3)`
  ).join(";");
  const change =
    "UPDATE t0 SET v = 9 WHERE k = 'x'; UPDATE t1 SET v = 9 WHERE k = 'x'; UPDATE t0 SET rowid = 7 WHERE k = 'y'";
  const foreign = "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = replace(sql, 'NOCASE', 'MINE')";
  assertEquals(await diff(start, foreign, `${change}; ${foreign}`), [
    changed("t0", { rows_changed: 1, rows_added: 1, rows_removed: 1 }),
    changed("t1", { unread: "no query solution" }),
  ]);
});

Deno.test("differingRows() reads all rows in parts, of every kind of table", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const many = "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 2000)";
    const tables = [
      "p(k, v)",
      "i(k INTEGER PRIMARY KEY, v)",
      "s(k TEXT PRIMARY KEY, v)",
      "w(k PRIMARY KEY, v) WITHOUT ROWID",
    ];
    for (const name of ["a", "b"]) {
      const db = new DatabaseSync(`${dir}/${name}`);
      for (const table of tables) {
        const [letter] = table;
        db.exec(
          `CREATE TABLE ${
            table.replace(letter!, `${letter}1`)
          }; ${many} INSERT INTO ${letter}1 SELECT v, 'x' || v FROM n`,
        );
        if (name === "b") {
          db.exec(`UPDATE ${letter}1 SET v = 'y' WHERE k % 10 = 3; DELETE FROM ${letter}1 WHERE k % 50 = 4`);
          db.exec(`INSERT INTO ${letter}1 VALUES (5000, 'new')`);
        }
      }
      db.close();
    }
    for (
      const { table, rows_added, rows_removed, rows_changed } of (await compareDatabases(`${dir}/a`, `${dir}/b`)).tables
    ) {
      assertEquals([rows_added, rows_removed, rows_changed], [1, 40, 200], table);
      const keys: string[] = [];
      let parts = 0;
      let after: string | undefined;
      do {
        const part = await differingRows(`${dir}/a`, `${dir}/b`, table, {
          rows: 50,
          ...(after === undefined ? {} : { after }),
        });
        keys.push(...part.rows.map(({ key }) => JSON.stringify(key)));
        after = part.next;
        parts++;
      } while (after !== undefined);
      assertEquals([new Set(keys).size, keys.length, parts], [241, 241, 5], table);
    }
    const error = await assertRejects(() => differingRows(`${dir}/a`, `${dir}/b`, "s2"), TaskdError);
    assertEquals([error.code, error.hint], ["not_found", "Did you mean s1?"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("compareDatabases() bounds what it shows and can be kept to some tables", async () => {
  const [table, ...more] = await diff(
    "CREATE TABLE t(id INTEGER PRIMARY KEY, text, blob); CREATE TABLE u(x)",
    "",
    `WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 50)
     INSERT INTO t SELECT v, printf('%.*c', 5000, 'ä'), zeroblob(5000) FROM n; INSERT INTO u VALUES (1)`,
    { rows: 2, tables: ["t"] },
  );
  assertEquals([table?.rows_added, table?.rows?.length, more], [50, 2, []]);
  assertEquals(table?.rows?.[0]?.after, {
    id: 1,
    text: { text: "ä".repeat(128), bytes: 10_000, sha256: sha256Hex("ä".repeat(5000)) },
    blob: { hex: "00".repeat(256), bytes: 5000, sha256: sha256Hex(new Uint8Array(5000)) },
  });
});

Deno.test("compareDatabases() shows text of a UTF-16 database", async () => {
  const [table] = await diff(
    "PRAGMA encoding='UTF-16be'; CREATE TABLE t(k TEXT PRIMARY KEY, v)",
    "INSERT INTO t VALUES ('ключ', '🙂')",
    "INSERT INTO t VALUES ('ключ', '🙃')",
    { rows: 1 },
  );
  assertEquals(table?.rows, [{ change: "changed", key: { k: "ключ" }, before: { v: "🙂" }, after: { v: "🙃" } }]);
});

Deno.test("compareDatabases() shows a window around the first byte that differs in a long value", async () => {
  const [table] = await diff(
    "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, printf('%.*c', 900, 'ä') || 'old' || printf('%.*c', 900, 'z'))",
    "",
    "UPDATE t SET v = replace(v, 'old', 'new')",
    { rows: 1 },
  );
  const { before, after } = table!.rows![0]!;
  const [old, now] = [before!.v, after!.v] as { text: string; at: number; bytes: number }[];
  assertEquals([old!.at, old!.bytes, old!.text.replace(/z+$/, "z")], [1768, 2703, `${"ä".repeat(16)}oldz`]);
  assertEquals([now!.at, now!.text.replace(/z+$/, "z")], [1768, `${"ä".repeat(16)}newz`]);
  const whole = await diff("CREATE TABLE t(v)", "", "INSERT INTO t VALUES (printf('%.*c', 900, 'ä'))", {
    rows: 1,
    value_bytes: 1800,
  });
  assertEquals(whole[0]?.rows?.[0]?.after, { v: "ä".repeat(900) });
});

Deno.test("compareDatabases() reads virtual tables by what they show, their storage last", async () => {
  const start = `CREATE TABLE a_first(id INTEGER PRIMARY KEY AUTOINCREMENT, x); INSERT INTO a_first(x) VALUES ('one');
     CREATE TABLE z(x); CREATE TABLE zz(x); CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO f VALUES ('one');
     CREATE VIRTUAL TABLE r USING rtree(id, x0, x1); INSERT INTO r VALUES (1, 2, 3)`;
  const change = `INSERT INTO z VALUES (1); UPDATE sqlite_sequence SET seq = 900; UPDATE r SET x1 = 4;
     INSERT INTO f(f, rank) VALUES ('rank', 'bm25(0.5)')`;
  const diffs = await diff(start, "", change, { rows: 1 });
  assertEquals(diffs.map(({ table }) => table), ["r", "z", "f_config", "f_data", "r_node", "sqlite_sequence"]);
  assertEquals(diffs.map(({ internal }) => internal === true), [false, false, true, true, true, true]);
  assertEquals(diffs[0]?.rows, [
    { change: "changed", key: { rowid: 1 }, before: { x1: { real: "3.0" } }, after: { x1: { real: "4.0" } } },
  ]);
  assertEquals(diffs.at(-1)?.rows, [{ change: "changed", key: { rowid: 1 }, before: { seq: 1 }, after: { seq: 900 } }]);
  assertEquals(await diff(start, "", ""), []);
  // An index that leads elsewhere, over rows that are as they were.
  const forged = await compare(start, "", "UPDATE f_data SET block = x'00' WHERE id = 1");
  assertEquals(forged.tables.map(({ table }) => table), ["f_data"]);
});

Deno.test("compareDatabases() finds what differs in tables with capitals, or in other letters", async () => {
  const start = "CREATE VIRTUAL TABLE Docs USING fts5(Body); INSERT INTO Docs VALUES ('one'); CREATE TABLE Tab(x)";
  const diffs = await diff(start, "", "UPDATE Docs SET Body = 'two'");
  assertEquals(diffs.map(({ table }) => table).slice(0, 1), ["Docs"]);
  const [tab] = await diff("", "CREATE TABLE Tab(x); INSERT INTO Tab VALUES (1)", "CREATE TABLE tAB(x)");
  assertEquals([tab?.change, tab?.rows_removed], ["changed", 1]);
});

Deno.test("compareDatabases() shows every row of a table that only has the name of full-text storage", async () => {
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
    const diffs = await diff(start, "", "INSERT INTO f_content(id, price) VALUES (1, 2)", { rows: 1 });
    assertEquals(diffs.find(({ table }) => table === "f_content")?.rows?.length, 1, start);
  }
  // It was one on one side alone.
  const own = "CREATE TABLE f_content(id INTEGER PRIMARY KEY, c0); INSERT INTO f_content VALUES (1, 'mine')";
  const diffs = await diff("", own, "CREATE VIRTUAL TABLE f USING fts5(x)");
  assert(diffs.some(({ table, rows_removed }) => table === "f_content" && rows_removed === 1));
});

Deno.test("compareDatabases() never puts a table last that was an ordinary one", async () => {
  const diffs = await diff(
    "CREATE TABLE z(x)",
    "CREATE TABLE f_data(id INTEGER PRIMARY KEY, block BLOB)",
    "CREATE VIRTUAL TABLE f USING fts5(x); INSERT INTO z VALUES (1)",
  );
  assertEquals(diffs.slice(0, 3).map(({ table, change, rows_added }) => [table, change, rows_added]), [
    ["f_data", "changed", 2],
    ["z", "changed", 1],
    ["f", "added", 0],
  ]);
});

Deno.test("compareDatabases() runs no view, not even one that feeds a full-text index", async () => {
  const start = `CREATE TABLE t(x); INSERT INTO t VALUES ('one');
     CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id, 'x' AS x FROM n;
     CREATE VIRTUAL TABLE f USING fts5(x, content='v', content_rowid='id');
     CREATE TABLE g(a, b AS (abs(a)), c INT CHECK (c > 0)); INSERT INTO g(a, c) VALUES (-1, 1)`;
  assertEquals(await diff(start, "", "UPDATE t SET x = 'two'"), [changed("t", { rows_changed: 1 })]);
});

Deno.test("compareDatabases() agrees with the obvious comparison on random tables", async () => {
  const value = fc.constantFrom("NULL", "0", "1", "-5", "1.5", "'a'", "'b'", "'é'", "x'01'", "''");
  const rows = fc.uniqueArray(fc.tuple(fc.constantFrom("1", "2", "-3", "'a'", "'B'", "'b'", "'é'", "x'00'"), value), {
    selector: ([key]) => key,
    maxLength: 8,
  });
  await fc.assert(
    fc.asyncProperty(rows, rows, fc.constantFrom("", "WITHOUT ROWID"), async (a, b, tail) => {
      const insert = (rows: string[][]) => rows.map(([k, v]) => `INSERT INTO t VALUES (${k}, ${v})`).join(";");
      const [table] = await diff(`CREATE TABLE t(k PRIMARY KEY, v) ${tail}`, insert(a), insert(b));
      // Their rowids are content too, where they have any.
      const find = (rows: string[][], key: string) => {
        const at = rows.findIndex(([k]) => k === key);
        return at < 0 ? undefined : tail === "" ? `${at} ${rows[at]![1]}` : rows[at]![1];
      };
      const expected = {
        rows_added: b.filter(([k]) => find(a, k) === undefined).length,
        rows_removed: a.filter(([k]) => find(b, k) === undefined).length,
        rows_changed: a.filter(([k]) => find(b, k) !== undefined && find(b, k) !== find(a, k)).length,
      };
      const any = Object.values(expected).some((count) => count > 0);
      assertEquals(table, any ? changed("t", expected) : undefined);
    }),
    { numRuns: 30 },
  );
});

Deno.test("compareDatabases() ends when its signal does", async () => {
  const many =
    "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 60000) INSERT INTO t SELECT v FROM n";
  const interrupted = async (done: Promise<unknown>, reason: Error) => {
    const { code, cause } = await assertRejects(() => done, TaskdError);
    assertEquals(code, "interrupted");
    assertStrictEquals(cause, reason);
  };
  const run = (signal: AbortSignal) => diff(`CREATE TABLE t(x); ${many}`, "", "UPDATE t SET x = x + 1", { signal });
  const [stop, enough] = [new AbortController(), new Error("enough")];
  const done = run(stop.signal);
  stop.abort(enough);
  await interrupted(done, enough);
  const [later, late] = [new AbortController(), new Error("later")];
  setTimeout(() => later.abort(late));
  await interrupted(run(later.signal), late);
});

Deno.test("compareDatabases() and integrityCheck() name what a file is that they cannot read", async () => {
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
    const code = async (path: string) => (await assertRejects(() => compareDatabases(good, path), TaskdError)).code;
    assertEquals(await code(`${dir}/missing.db`), "not_found");
    assertEquals(await code(`${dir}/text.db`), "not_a_database");
    const unread = async () => (await compareDatabases(good, `${dir}/damaged.db`)).tables[0]?.unread ?? "";
    assertMatch(await unread(), /damaged\.db: \d+ of \d+ rows of the table t can be read|malformed/);
    assertMatch((await compareDatabases(good, `${dir}/damaged.db`)).problems[0]?.side ?? "", /after/);
    // In its last rows only, so that most can be read before.
    const late = await Deno.readFile(good);
    const at = late.toHex().indexOf(new TextEncoder().encode("row 2999").toHex()) / 2;
    late.fill(0xff, at - at % 4096, at - at % 4096 + 8);
    await Deno.writeFile(`${dir}/damaged.db`, late);
    assertMatch(await unread(), /\d+ of 3000 rows of the table t can be read|malformed/);
    assertEquals(integrityCheck(`${dir}/text.db`).length, 1);
    assert(integrityCheck(`${dir}/damaged.db`).length > 0);
    await assertRejects(() => Promise.try(() => integrityCheck(`${dir}/missing.db`)), TaskdError, "Cannot");
    // Nothing was left beside the images.
    assertEquals([...Deno.readDirSync(dir)].map((entry) => entry.name).sort(), ["damaged.db", "good.db", "text.db"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("compareDatabases() needs no more than its directory and leaves nothing in it", async () => {
  const dir = await Deno.makeTempDir();
  try {
    for (const name of ["a", "b"]) {
      const db = new DatabaseSync(`${dir}/${name}.db`);
      db.exec(`PRAGMA journal_mode=wal; CREATE TABLE t(x); INSERT INTO t VALUES ('${name}')`);
      db.close();
      await Deno.chmod(`${dir}/${name}.db`, 0o400);
    }
    const program = `import { compareDatabases } from ${JSON.stringify(import.meta.resolve("./row_diff.ts"))};
      console.log(JSON.stringify(await compareDatabases(Deno.args[0] + "/a.db", Deno.args[0] + "/b.db")));`;
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
    assertEquals(JSON.parse(stdout).tables, [changed("t", { rows_changed: 1 })]);
    assertEquals([...Deno.readDirSync(dir)].map((entry) => entry.name).sort(), ["a.db", "b.db"]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("differingRows() filters by kind and by values, and pages of any size have the same rows", async () => {
  const dir = await Deno.makeTempDir();
  try {
    for (const [name, sql] of [["a", ""], ["b", CHANGES]] as const) {
      const db = new DatabaseSync(`${dir}/${name}`);
      db.exec(`CREATE TABLE t(id INTEGER PRIMARY KEY, "constructor", note, data);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
        INSERT INTO t SELECT i, 'Name ' || i, 'same', x'00ff' FROM n; ${sql}`);
      db.close();
    }
    const read = async (options: RowPageOptions) => {
      const rows: RowDiff[] = [];
      let after: string | undefined;
      do {
        const page = await differingRows(`${dir}/a`, `${dir}/b`, "t", { ...options, ...(after && { after }) });
        rows.push(...page.rows);
        after = page.next;
      } while (after !== undefined);
      return rows;
    };
    const all = await read({ rows: 1000 });
    assertEquals(all.length, 60);
    for (const change of ["added", "removed", "changed"] as const) {
      for (const rows of [1, 7, 1000]) {
        assertEquals(await read({ rows, change }), all.filter((row) => row.change === change), `${change} by ${rows}`);
      }
    }
    assertEquals((await read({ search: "NAME 13", change: "removed" })).map(({ key }) => key.id), [13, 130]);
    assertEquals((await read({ search: "00FF", change: "changed" })).length, 20);
    assertEquals(await read({ search: "found nowhere" }), []);
    const [row] = await read({ change: "changed", same: true });
    assertEquals(row!.same, { id: 121, note: "same", data: { hex: "00ff", bytes: 2 } });
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("compareDatabases() hands out the pages that differingRows() reads, to the byte", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const many = "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 3000)";
    const tables = [
      "p(k, v)",
      "i(k INTEGER PRIMARY KEY, v)",
      "s(k TEXT PRIMARY KEY, v)",
      "w(k PRIMARY KEY, v) WITHOUT ROWID",
    ];
    const make = (name: string, sql: (table: string) => string) => {
      const db = new DatabaseSync(`${dir}/${name}`);
      for (const table of tables) {
        db.exec(`CREATE TABLE ${table}; ${many} INSERT INTO ${table[0]} SELECT v, 'x' || v FROM n; ${sql(table[0]!)}`);
      }
      db.exec(`CREATE VIRTUAL TABLE f USING fts5(v); INSERT INTO f SELECT v FROM p`);
      db.close();
    };
    make("a", () => "");
    make(
      "rows",
      (t) =>
        `UPDATE ${t} SET v = v || '!' WHERE k % 5; DELETE FROM ${t} WHERE k % 50 = 4; INSERT INTO ${t} VALUES (5000, 'new')`,
    );
    make("long", (t) => `UPDATE ${t} SET v = hex(zeroblob(200)) || '${"y".repeat(40)}' || k`);
    make("columns", (t) => `ALTER TABLE ${t} ADD COLUMN w DEFAULT 7; UPDATE ${t} SET w = k WHERE k % 2`);
    make("moved", (t) => t === "s" ? "UPDATE s SET rowid = rowid + 4000 WHERE rowid % 3 = 0" : `DELETE FROM ${t}`);
    make("other_pages", () => "PRAGMA page_size=8192; VACUUM; UPDATE p SET v = 1");
    const wide = new DatabaseSync(`${dir}/wide`);
    wide.exec(
      `CREATE TABLE p(k, ${Array.from({ length: 60 }, (_, i) => `c${i} DEFAULT (hex(randomblob(125)))`).join()});
      ${many} INSERT INTO p(k) SELECT v FROM n LIMIT 300`,
    );
    wide.close();
    for (const name of ["rows", "long", "columns", "moved", "other_pages", "wide"]) {
      const pages: TablePage[] = [];
      const { tables } = await compareDatabases(`${dir}/a`, `${dir}/${name}`, {
        rows: 10,
        onPage: (page) => pages.push(JSON.parse(JSON.stringify(page))),
      });
      const read: TablePage[] = [];
      for (const table of tables.map(({ table }) => table)) {
        for (let after: string | undefined = ""; after !== undefined;) {
          const place: { after?: string } = after === "" ? {} : { after };
          const page = await differingRows(`${dir}/a`, `${dir}/${name}`, table, { rows: 1_000, same: true, ...place });
          read.push({ table, ...place.after !== undefined && { cursor: place.after }, ...page });
          after = page.next;
        }
      }
      const sorted = (list: TablePage[]) =>
        list.map(({ table, cursor, rows, next }) => JSON.stringify([table, cursor, rows, next])).sort();
      const listed = pages.filter(({ table }) => tables.some((one) => one.table === table));
      assert(sorted(listed).join() === sorted(read).join(), `${name}: other pages`);
      assert(read.some(({ next }) => next !== undefined), name);
      if (name === "wide") assert(pages.some(({ table, rows, next }) => table === "p" && next && rows.length < 1_000));
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

const CHANGES = `DELETE FROM t WHERE id IN (SELECT id FROM t WHERE id <= 19 OR id = 130);
  UPDATE t SET "constructor" = "constructor" || '!' WHERE id BETWEEN 121 AND 141 AND id <> 130;
  INSERT INTO t SELECT id + 1000, 'new', NULL, x'00ff' FROM t WHERE id > 280`;

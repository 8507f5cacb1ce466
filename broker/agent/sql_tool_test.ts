import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { VirtualClock } from "../../tests/support/clock.ts";
import { AgentDatabases } from "./sql_tool.ts";
import { hotJournal } from "../../cli/redteam/hot_journal.ts";
import { ToolError } from "./work_tree.ts";

class Bench implements Disposable {
  readonly directory = Deno.realPathSync(Deno.makeTempDirSync());
  readonly path = `${this.directory}/shop.db`;
  readonly clock = new VirtualClock();
  // SQLite's limit is that of the whole process, in which other tests run.
  readonly databases = new AgentDatabases([{ name: "shop", path: this.path }], this.clock, 2 ** 40);

  constructor() {
    this.query("CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT UNIQUE); INSERT INTO items VALUES (1, 'tea')");
  }

  query(sql: string): unknown {
    const db = new DatabaseSync(this.path);
    try {
      if (sql.startsWith("SELECT")) return db.prepare(sql).get();
      return db.exec(sql);
    } finally {
      db.close();
    }
  }

  async text(sql: string): Promise<string> {
    return (await this.databases.run("shop", sql)).text;
  }

  async refuses(sql: string, with_text: string): Promise<void> {
    const error = await assertRejects(() => this.databases.run("shop", sql), ToolError);
    assertStringIncludes(error.message, with_text);
  }

  files(): string[] {
    return [...Deno.readDirSync(this.directory)].map(({ name }) => name).sort();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

Deno.test("sql runs every statement of a call in turn and shows the rows of the last", async () => {
  using bench = new Bench();
  const sql =
    "/* first */ INSERT INTO items VALUES (2, 'café'); -- then\n;; SELECT id, name, x'00ff' AS b FROM items; --";
  assertEquals(
    await bench.text(sql),
    "2 rows\nid | name | b\n1 | \"tea\" | x'00ff'\n2 | \"café\" | x'00ff'",
  );
  assertEquals(await bench.text("UPDATE items SET name = upper(name)"), "done: 1 statement, 2 rows changed");
  assertStringIncludes(await bench.text("PRAGMA table_info(items)"), '"name" | "TEXT"');
  assertStringIncludes(await bench.text("DELETE FROM items WHERE id = 2 RETURNING id"), "1 row\nid\n2");
  assertEquals(await bench.text(" /* nothing */ ;"), "done: 0 statements, 0 rows changed");
  // A statement that changes no rows leaves the number of the one before it.
  const mixed = "UPDATE items SET name = 'x'; ALTER TABLE items ADD COLUMN note; INSERT INTO items(id) VALUES (3), (4)";
  assertEquals(await bench.text(mixed), "done: 3 statements, 3 rows changed");
  await bench.text("DELETE FROM items WHERE id > 2; ALTER TABLE items DROP COLUMN note");
  assertEquals(await bench.text("DELETE FROM items WHERE id = 1"), "done: 1 statement, 1 row changed");
  assertEquals(bench.files(), ["shop.db"]);
});

Deno.test("sql returns SQLite's error, also of a statement that returns rows", async () => {
  using bench = new Bench();
  await bench.refuses("SELECT * FROM absent", "no such table: absent");
  await bench.refuses("INSERT INTO items VALUES (3, 'tea') RETURNING id", "UNIQUE constraint failed");
  await bench.refuses("DELETE FROM items; SELEC", 'near "SELEC": syntax error; done before it: 1 statement');
  await assertRejects(() => bench.databases.run("other", "SELECT 1"), ToolError, "use shop");
});

Deno.test("sql rolls back what a call leaves open, and reports it", async () => {
  using bench = new Bench();
  await bench.refuses("BEGIN; DELETE FROM items", "a transaction was left open and is rolled back");
  assertStringIncludes(await bench.text("SELECT count(*) FROM items"), "1");
  await bench.text("BEGIN; DELETE FROM items; COMMIT");
  assertStringIncludes(await bench.text("SELECT count(*) AS n FROM items"), "n\n0");
});

Deno.test("sql reaches no other file and damages no schema", async () => {
  using bench = new Bench();
  const other = `${bench.directory}/other.db`;
  for (
    const sql of [
      `ATTACH '${other}' AS other`,
      "VACUUM",
      `VACUUM INTO '${other}'`,
      "SELECT load_extension('/lib/x.so')",
      "PRAGMA writable_schema = ON",
      "UPDATE sqlite_schema SET sql = 'x'",
      "PRAGMA temp_store = FILE",
      "PRAGMA temp_store_directory = '/'",
      "PRAGMA journal_mode = OFF",
      "PRAGMA main.hard_heap_limit = 0",
      "SELECT * FROM pragma_writable_schema",
    ]
  ) await assertRejects(() => bench.databases.run("shop", sql), ToolError, "SQLite says", sql);
  assertEquals(bench.files(), ["shop.db"]);
});

Deno.test("sql opens no database beside which a journal waits, or which is no plain file", async () => {
  using bench = new Bench();
  const { directory, path } = bench;
  const ledger = `${directory}/ledger`;
  const journal = `${path}-journal`;
  Deno.writeTextFileSync(ledger, "precious");
  const wait = () => Deno.writeFileSync(journal, hotJournal(Deno.readFileSync(path), ledger));
  wait();
  await bench.refuses("SELECT 1", "left in the middle of a transaction");
  assertEquals(Deno.readTextFileSync(ledger), "precious");
  // What SQLite would have done.
  bench.query("SELECT count(*) AS n FROM items");
  assertEquals(bench.files(), ["shop.db"]);
  Deno.writeTextFileSync(ledger, "precious");
  for (const name of [`${path}-wal`, `${path}-shm`]) {
    Deno.symlinkSync(ledger, name);
    await bench.refuses("DELETE FROM items", "no longer a plain file");
    Deno.removeSync(name);
    Deno.linkSync(ledger, name);
    await bench.refuses("DELETE FROM items", "no longer a plain file");
    Deno.removeSync(name);
  }
  Deno.linkSync(path, `${directory}/second`);
  await bench.refuses("DELETE FROM items", "no longer a plain file");
  Deno.removeSync(path);
  Deno.symlinkSync("second", path);
  await bench.refuses("DELETE FROM items", "no longer a plain file");
  Deno.removeSync(path);
  await bench.refuses("CREATE TABLE t (a)", "no longer a plain file");
  assertEquals(bench.files(), ["ledger", "second"]);
  assertEquals(Deno.readTextFileSync(ledger), "precious");
});

Deno.test("sql shows a bounded part of a large answer", async () => {
  using bench = new Bench();
  const many = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1000000) SELECT x FROM c";
  const text = await bench.text(many);
  assertStringIncludes(text, "only the first 200 rows shown");
  assertStringIncludes(await bench.text("SELECT zeroblob(100000) AS b"), "[cut: 200000 in all]");
});

/** What a process of its own prints that has this done with `databases`. */
async function printedBy(bench: Bench, work: string, clock: string): Promise<string> {
  const code = `
    import { AgentDatabases } from ${JSON.stringify(import.meta.resolve("./sql_tool.ts"))};
    ${clock}
    const databases = new AgentDatabases([{ name: "shop", path: Deno.args[0] }], clock);
    ${work}
    Deno.exit(0);`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", code, bench.path],
    stdout: "piped",
    stderr: "inherit",
  }).output();
  return new TextDecoder().decode(stdout);
}

Deno.test("sql takes bounded memory", async () => {
  using bench = new Bench();
  const clock = `
    const sleep = (_, signal) => new Promise((_, end) => signal.onabort = end);
    const clock = { now: () => 0, monotonic: () => 0, sleep };`;
  const work = `
    await databases.run("shop", "SELECT zeroblob(900000000) || 'x'").catch((error) => console.log(error.message));
    console.log((await databases.run("shop", "SELECT 1 AS one")).text);`;
  assertEquals(await printedBy(bench, work, clock), "SQLite says: out of memory\n1 row\none\n1\n");
  // What is kept for a statement is kept there too, and in no temporary file.
  const kept = `
    const rows = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 400) SELECT zeroblob(1000000) FROM c";
    await databases.run("shop", "CREATE TEMP TABLE t AS " + rows).catch((error) => console.log(error.message));`;
  assertEquals(await printedBy(bench, kept, clock), "SQLite says: out of memory\n");
});

Deno.test("a statement that never ends is abandoned, and its database is not used again", async () => {
  // In a process of its own, since the thread that is left behind ends only with its process.
  using bench = new Bench();
  const clock = `
    const asleep = Promise.withResolvers();
    const sleep = () => new Promise((wake) => asleep.resolve({ wake }));
    const clock = { now: () => 0, monotonic: () => 0, sleep };`;
  const work = `
    const endless = databases.run("shop", "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT count(*) FROM c");
    (await asleep.promise).wake();
    await endless.catch((error) => console.log(error.message));
    await databases.run("shop", "SELECT 1").catch((error) => console.log(error.message));`;
  assertEquals(
    await printedBy(bench, work, clock),
    "SQLite says: it did not end within 60 seconds\n" +
      "The database shop is still busy with a statement that took too long; do without it\n",
  );
});

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { inspectDatabase } from "../../../broker/databases/inspector.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { superJournal } from "../../../cli/redteam/hot_journal.ts";
import { systemClock } from "../../../lib/clock.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { until } from "../engine/bench.ts";
import { SHOP, sqlite } from "./_bench.ts";

const CACHE_DIR = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;

/** A database as the store wrote it, and what a sandbox left of its copy. */
class Left implements AsyncDisposable {
  readonly root = Deno.realPathSync(Deno.makeTempDirSync());
  readonly base = `${this.root}/store.db`;
  readonly left = `${this.root}/sandbox/shop.db`;

  constructor(sql = SHOP) {
    sqlite(this.base, sql);
    Deno.mkdirSync(`${this.root}/sandbox`);
    Deno.copyFileSync(this.base, this.left);
  }

  change(sql: string): void {
    const db = new DatabaseSync(this.left, { defensive: false } as object);
    try {
      db.exec(sql);
    } finally {
      db.close();
    }
  }

  /** Runs statements and ends without closing the database, as an agent that is killed does. */
  async killed(sql: string): Promise<void> {
    const code = `
      import { DatabaseSync } from "node:sqlite";
      new DatabaseSync(Deno.args[0]).exec(Deno.args[1]);
      Deno.kill(Deno.pid, "SIGKILL");`;
    const { signal } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", "--no-lock", code, this.left, sql],
      stdout: "null",
      stderr: "inherit",
    }).output();
    assertEquals(signal, "SIGKILL");
  }

  async inspect(signal: AbortSignal = new AbortController().signal, deno_path = Deno.execPath()) {
    const options = { deno_path, deno_cache_dir: CACHE_DIR, clock: systemClock };
    const { left, base } = this;
    const work_dir = `${this.root}/work`;
    return await inspectDatabase(options, { what: "the database shop", left, base, work_dir, signal });
  }

  async refused(with_text: string): Promise<TaskdError> {
    const error = await assertRejects(() => this.inspect(), TaskdError);
    assertStringIncludes(error.message, "Cannot take over the database shop");
    assertStringIncludes(error.message, with_text);
    return error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

Deno.test("a symbolic link in the database's place is not followed", async () => {
  await using left = new Left();
  Deno.removeSync(left.left);
  Deno.symlinkSync(left.base, left.left);
  assertEquals((await left.refused("something else than a file")).code, "denied");
});

Deno.test("a symbolic link in the log's place is not followed", async () => {
  await using left = new Left();
  Deno.symlinkSync("/etc/passwd", `${left.left}-wal`);
  await left.refused("something else than a file");
});

Deno.test("a FIFO in the place of the database or its journal is not waited for", async () => {
  for (const suffix of ["", "-wal", "-journal"]) {
    await using left = new Left();
    if (suffix === "") Deno.removeSync(left.left);
    await new Deno.Command("mkfifo", { args: [left.left + suffix] }).output();
    await assertRejects(() => left.inspect(), TaskdError, "Cannot take over");
  }
});

Deno.test("a sparse file of a tebibyte is refused by its size, unread", async () => {
  await using left = new Left();
  await Deno.truncate(left.left, 2 ** 40);
  assertEquals((await left.refused("it has grown to 1099511627776 bytes")).code, "too_large");
});

Deno.test("a removed database is reported as removed", async () => {
  await using left = new Left();
  Deno.removeSync(left.left);
  await left.refused("the agent has removed it");
});

Deno.test("what is no database is refused: a corrupt header, an empty file, text", async () => {
  for (const bytes of ["", "hello\n", "SQLite format 3\0" + "\xff".repeat(84)]) {
    await using left = new Left();
    Deno.writeTextFileSync(left.left, bytes);
    await left.refused("it is no SQLite database");
  }
});

Deno.test("a database with damaged pages is refused", async () => {
  await using left = new Left(`${SHOP} WITH RECURSIVE c(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM c LIMIT 5000)
    INSERT INTO items SELECT x, 'item ' || x, x FROM c;`);
  const bytes = Deno.readFileSync(left.left);
  bytes.fill(0xee, 3 * 4096, 5 * 4096);
  Deno.writeFileSync(left.left, bytes);
  const { message } = await left.refused("");
  assert(/damaged|malformed/.test(message), message);
});

Deno.test("a page count in the header that the file does not have is refused", async () => {
  await using left = new Left();
  const bytes = Deno.readFileSync(left.left);
  new DataView(bytes.buffer).setUint32(28, 0x7fffffff);
  Deno.writeFileSync(left.left, bytes);
  await left.refused("");
});

Deno.test("the log of another database is damage, or a change that is shown like any other", async () => {
  await using left = new Left();
  await using other = new Left("CREATE TABLE x (y); INSERT INTO x VALUES (randomblob(9000))");
  await other.killed("PRAGMA journal_mode=WAL; UPDATE x SET y = randomblob(8000)");
  Deno.copyFileSync(`${other.left}-wal`, `${left.left}-wal`);
  const found = await left.inspect().then(
    ({ report }) => report.tables.map(({ table }) => table),
    ({ message }) => message,
  );
  assert(Array.isArray(found) && found.length > 0 || /damaged|malformed/.test(String(found)), String(found));
});

Deno.test("what was committed to the log of a killed agent is taken, and the rest is not", async () => {
  await using left = new Left();
  await left.killed("PRAGMA journal_mode=WAL; DELETE FROM items WHERE id = 1; BEGIN; DELETE FROM items");
  const { report, image } = await left.inspect();
  assertEquals(report.tables.map(({ rows_removed }) => rows_removed), [1]);
  // In the journal mode that the store's file had.
  assertEquals([...Deno.readFileSync(image).subarray(18, 20)], [1, 1]);
  assertEquals([...Deno.readDirSync(`${left.root}/work`)].map(({ name }) => name).sort(), [
    "base.db",
    "changeset",
    "result.db",
  ]);
});

Deno.test("a journal that names another file does not lead to that file's removal", async () => {
  await using left = new Left();
  const victim = `${left.root}/config.yaml`;
  Deno.writeTextFileSync(victim, "precious");
  await left.killed(
    "PRAGMA cache_spill=1; PRAGMA cache_size=1; BEGIN; UPDATE items SET name = hex(randomblob(200000))",
  );
  const journal = Deno.readFileSync(`${left.left}-journal`);
  Deno.writeFileSync(`${left.left}-journal`, new Uint8Array([...journal, ...superJournal(victim, 4096)]));
  await left.refused("in the middle of a transaction");
  assertEquals(Deno.readTextFileSync(victim), "precious");
});

Deno.test("a journal that was ended is no journal", async () => {
  await using left = new Left();
  left.change("PRAGMA journal_mode=PERSIST; DELETE FROM items WHERE id = 3");
  assert(Deno.statSync(`${left.left}-journal`).size > 0);
  assertEquals((await left.inspect()).report.tables.map(({ rows_removed }) => rows_removed), [1]);
});

Deno.test("triggers, views and generated columns of a hostile schema run nothing, and are named", async () => {
  await using left = new Left();
  left.change(`
    CREATE TABLE traps (a, b GENERATED ALWAYS AS (abs(a)) VIRTUAL);
    INSERT INTO traps (a) VALUES (1);
    PRAGMA writable_schema=ON;
    UPDATE sqlite_schema SET sql = replace(sql, 'abs(a)', 'abs(-9223372036854775807 - a)') WHERE name = 'traps';
    PRAGMA writable_schema=OFF;
    CREATE VIEW endless AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT count(*) FROM c;
    CREATE TRIGGER boom BEFORE UPDATE ON items BEGIN SELECT load_extension('/tmp/evil.so'); END;`);
  const { report } = await left.inspect();
  assertEquals(report.schema.map(({ type, name }) => `${type} ${name}`), [
    "table traps",
    "trigger boom",
    "view endless",
  ]);
  assertEquals(report.tables.map(({ table, rows_added }) => [table, rows_added]), [["traps", 1]]);
});

/** Puts an expression into an index that would have cost too much to make with it. */
function indexBy(left: Left, expression: string): void {
  left.change("CREATE INDEX trap ON items (length(name || zeroblob(1)))");
  const sql = `CREATE INDEX trap ON items (${expression})`;
  left.change(`PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = '${sql}' WHERE name = 'trap'`);
}

Deno.test("an index that never ends is left when the task ends", async () => {
  await using left = new Left();
  const slow = Array.from({ length: 20 }).reduce((inner) => `replace(hex(${inner}), '0', '')`, "zeroblob(100000000)");
  indexBy(left, `length(name || ${slow})`.replaceAll("'", "''"));
  const stop = new AbortController();
  // A name of its own distinguishes it from what other tests look at meanwhile.
  const deno = `${left.root}/deno`;
  await Deno.symlink(Deno.execPath(), deno);
  const inspecting = left.inspect(stop.signal, deno);
  inspecting.catch(() => {});
  const inspectors = async () => (await listProcesses()).filter(({ command_line }) => command_line.includes(deno));
  await until(async () => (await inspectors()).length > 0);
  stop.abort(new Error("the task was cancelled"));
  await assertRejects(() => inspecting, Error, "the task was cancelled");
  assertEquals(await inspectors(), []);
});

Deno.test("memory that a hostile definition asks for is bounded", async () => {
  await using left = new Left();
  indexBy(left, "length(name || zeroblob(900000000))");
  await left.refused("out of memory");
});

Deno.test("names and rows that a terminal would act on, and very many tables, come out bounded", async () => {
  await using left = new Left();
  const tables = Array.from({ length: 150 }, (_, index) => `CREATE TABLE t${index} (x);`).join("");
  left.change(
    `${tables} CREATE TABLE "\u001b[2J${"n".repeat(500)}" (x); INSERT INTO items VALUES (9, '\u001b[31mred', 1)`,
  );
  const { report } = await left.inspect();
  assertEquals([report.tables.length, report.more_tables], [100, 52]);
  assertEquals([report.schema.length, report.more_schema], [100, 51]);
  assert(report.tables.every(({ table }) => table.length <= 200));
});

Deno.test("names that are no text are refused: what two of them name looks alike", async () => {
  const places = {
    "a table": "CREATE TABLE odd_QQ1(a); CREATE TABLE odd_QQ2(a)",
    "a column": "CREATE TABLE odd(odd_QQ1, odd_QQ2)",
    "a generated column": "CREATE TABLE odd(a, odd_QQ1 AS (a) STORED)",
    "an index": "CREATE TABLE odd(a); CREATE INDEX odd_QQ1 ON odd(a)",
    "a view": "CREATE VIEW odd_QQ1 AS SELECT 1",
    "a trigger": "CREATE TABLE odd(a); CREATE TRIGGER odd_QQ1 AFTER INSERT ON odd BEGIN SELECT 1; END",
  };
  for (const [place, sql] of Object.entries(places)) {
    // UTF-16 has halves of pairs where UTF-8 has bytes that begin nothing; in a column's name SQLite makes characters of them.
    for (const encoding of place.endsWith("column") ? ["UTF-8"] : ["UTF-8", "UTF-16le"]) {
      const start = `PRAGMA encoding='${encoding}'; CREATE TABLE t(a)`;
      for (const begins of [start, `${start}; ${sql}`]) {
        await using left = new Left(begins);
        left.change(begins === start ? sql : "INSERT INTO t VALUES (1)");
        for (const path of [left.left, left.base]) {
          const [from, to] = encoding === "UTF-8" ? ["515131", "fffe31"] : ["510051003100", "00d800d83100"];
          const hex = Deno.readFileSync(path).toHex();
          Deno.writeFileSync(path, Uint8Array.fromHex(hex.replaceAll(from!, to!)));
        }
        const error = await left.refused("is no text");
        assertEquals(error.code, "corrupt", `${place}, ${encoding}`);
      }
    }
  }
});

Deno.test("bytes that differ where no row does are reported as such", async () => {
  await using left = new Left();
  left.change("PRAGMA user_version = 7");
  const { report } = await left.inspect();
  assertEquals([report.changed, report.tables, report.schema, report.other_changes], [true, [], [], true]);
});

Deno.test("a changed row does not hide that the version or the kind of the file was changed too", async () => {
  for (const pragma of ["user_version", "application_id"]) {
    await using left = new Left();
    left.change(`PRAGMA ${pragma} = 7; INSERT INTO items VALUES (9, 'nine', 1)`);
    const { report } = await left.inspect();
    assertEquals([report.tables.length, report.other_changes], [1, true], pragma);
  }
  await using left = new Left();
  left.change("INSERT INTO items VALUES (9, 'nine', 1)");
  assertEquals((await left.inspect()).report.other_changes, false);
});

Deno.test("a changed row does not hide what was changed in tables that SQLite keeps for itself", async () => {
  const sql = `CREATE TABLE orders(id INTEGER PRIMARY KEY AUTOINCREMENT, x); CREATE TABLE other(x);
    INSERT INTO orders(x) VALUES ('a'); CREATE VIRTUAL TABLE docs USING fts5(x); INSERT INTO docs VALUES ('one')`;
  await using before = new Left(sql);
  before.change("INSERT INTO other VALUES (1)");
  assertEquals((await before.inspect()).report.tables.map(({ table }) => table), ["other"]);
  await using left = new Left(sql);
  left.change(`INSERT INTO other VALUES (1); UPDATE sqlite_sequence SET seq = 1000000;
    UPDATE docs_config SET v = 5 WHERE k = 'version'; INSERT INTO docs(docs, rank) VALUES ('crisismerge', 8)`);
  const { report } = await left.inspect();
  assertEquals(report.tables.map(({ table, rows_changed, internal }) => [table, rows_changed, internal]), [
    ["other", 0, undefined],
    ["docs_config", 1, true],
    ["docs_data", 1, true],
    ["sqlite_sequence", 1, true],
  ]);
});

Deno.test("a hundred new tables and a new column do not hide the rows that change", async () => {
  await using left = new Left();
  const tables = Array.from({ length: 110 }, (_, index) => `CREATE TABLE a${index} (x);`).join("");
  left.change(`${tables} ALTER TABLE items ADD COLUMN note; UPDATE items SET price = 1 WHERE id = 2;
    UPDATE items SET note = 'n' WHERE id = 3`);
  const { report } = await left.inspect();
  assertEquals([report.tables[0]?.table, report.tables[0]?.rows_changed], ["items", 2]);
  assertEquals(report.tables[0]?.columns, [{ name: "note", change: "added", values: 1 }]);
  assertEquals(report.tables[0]?.rows?.map(({ key, after }) => [key, after]), [
    [{ id: 2 }, { price: 1 }],
    [{ id: 3 }, { note: "n" }],
  ]);
});

Deno.test("a table that cannot be read is a leaf of its own under the changeset's root", async () => {
  await using left = new Left();
  left.change(`PRAGMA writable_schema=1;
    INSERT INTO sqlite_schema VALUES('table', 'v', 'v', 0, 'CREATE VIRTUAL TABLE v USING nosuch(x)')`);
  const { report } = await left.inspect();
  assertEquals(report.tables.map(({ table, unread }) => [table, unread]), [["v", "no such module: nosuch"]]);
  // The definition, the table, the settings.
  assertEquals(report.changeset?.leaves, 3);
});

Deno.test("switching the journal mode there and back is no change", async () => {
  await using left = new Left();
  left.change("PRAGMA journal_mode=WAL; SELECT * FROM items");
  left.change("PRAGMA journal_mode=DELETE");
  assertEquals((await left.inspect()).report.changed, false);
});

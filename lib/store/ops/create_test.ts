import { assert, assertEquals } from "@std/assert";
import { createHash } from "node:crypto";
import { DatabaseSync } from "node:sqlite";
import { at, fails, makeDatabase, openAt, rows, sql, stored, withDirectory } from "../../../tests/support/stores.ts";
import { MemoryBackend } from "../../../tests/support/memory_backend.ts";
import type { Store } from "../store.ts";

function onEmpty(work: (store: Store, directory: string) => Promise<void>): Promise<void> {
  return withDirectory(async (directory) => {
    using store = await openAt(`${directory}/store`, { backend: new MemoryBackend() });
    await work(store, directory);
  });
}

/** The bytes of a database and its companions, except the -shm and an empty -wal, which any reader makes. */
function bytesOf(path: string): Record<string, string> {
  const found: Record<string, string> = {};
  for (const suffix of ["", "-wal", "-journal"]) {
    try {
      const bytes = Deno.readFileSync(path + suffix);
      if (bytes.length > 0) found[suffix] = createHash("sha256").update(bytes).digest("hex");
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return found;
}

Deno.test("a source that is being written is copied as of its last commit and left unchanged", () =>
  onEmpty(async (store, directory) => {
    const path = `${directory}/live.db`;
    const writer = new DatabaseSync(path);
    writer.exec("PRAGMA journal_mode=WAL; CREATE TABLE t(v); INSERT INTO t VALUES('committed')");
    writer.exec("PRAGMA cache_size=2; BEGIN; INSERT INTO t VALUES('open')");
    writer.exec(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) INSERT INTO t SELECT randomblob(2000) FROM n",
    );
    const before = bytesOf(path);
    assert(Deno.statSync(`${path}-wal`).size > 200_000, "the open transaction did not spill");
    const { size_bytes } = await store.create("app", { from: path });
    assertEquals(bytesOf(path), before);
    assertEquals(await stored(store, "app"), "committed");
    assertEquals(size_bytes, 8192);
    writer.exec("COMMIT");
    writer.close();
  }));

Deno.test("every page size and journal mode is accepted and stored in WAL mode", () =>
  onEmpty(async (store, directory) => {
    for (const page_size of [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]) {
      for (const mode of ["DELETE", "TRUNCATE", "PERSIST", "WAL"]) {
        const [db, path] = [`p${page_size}${mode.toLowerCase()}`, `${directory}/${page_size}${mode}.db`];
        sql(
          path,
          `PRAGMA page_size=${page_size}`,
          `PRAGMA journal_mode=${mode}`,
          "CREATE TABLE t(v)",
          "INSERT INTO t VALUES('x')",
        );
        const before = bytesOf(path);
        await store.create(db, { from: path });
        assertEquals(bytesOf(path), before, db);
        assertEquals(await stored(store, db), "x");
        assertEquals(await stored(store, db, "PRAGMA page_size"), String(page_size));
        assertEquals(await stored(store, db, "PRAGMA journal_mode"), mode === "WAL" ? "wal" : "delete");
        assertEquals(rows((await store.checkout(at(db))).path, "PRAGMA journal_mode"), "wal");
      }
    }
  }));

Deno.test("a database that begins empty can be used like any other", () =>
  onEmpty(async (store) => {
    assertEquals((await store.create("app")).txid, 1);
    const { path } = await store.checkout(at("app"));
    makeDatabase(path, "1");
    await store.checkpoint(at("app"), "one");
    assertEquals(await stored(store, "app@main@one"), "1");
  }));

Deno.test("create() refuses without leaving a trace", () =>
  onEmpty(async (store, directory) => {
    makeDatabase(`${directory}/x.db`, "1");
    Deno.writeTextFileSync(`${directory}/text`, "no database ".repeat(1000));
    Deno.writeTextFileSync(`${directory}/empty`, "");
    Deno.symlinkSync(`${directory}/x.db`, `${directory}/link`);
    await fails("invalid_name", store.create("Not"));
    await fails("not_found", store.create("app", { from: `${directory}/none` }));
    await fails("not_a_database", store.create("app", { from: `${directory}/text` }));
    await fails("not_a_database", store.create("app", { from: `${directory}/empty` }));
    await fails("denied", store.create("app", { from: directory }));
    await fails("denied", store.create("app", { from: `${directory}/link` }));
    assertEquals(await store.branches(), []);
    assertEquals(await Array.fromAsync(store.context.backend.list("data/")), []);
    assertEquals([...Deno.readDirSync(`${directory}/store/tmp`)], []);
    await store.create("app", { from: `${directory}/x.db` });
    await fails("already_exists", store.create("app"));
    assertEquals(rows(`${directory}/x.db`), "1");
  }));

Deno.test("create() refuses a damaged source and says how to recover it, unless forced", () =>
  withDirectory(async (directory) => {
    const source = `${directory}/my source.db`;
    const from = new DatabaseSync(source);
    from.exec("CREATE TABLE t(v); CREATE INDEX i ON t(v); INSERT INTO t VALUES(1),(2)");
    from.close();
    // An index that has not what its table has, as a crash of an application without journal leaves it.
    const bytes = Deno.readFileSync(source);
    const leaf = bytes.lastIndexOf(0x0a, 8192 + 8);
    assert(leaf === 8192);
    new DataView(bytes.buffer).setUint16(8192 + 3, 1);
    Deno.writeFileSync(source, bytes);
    using store = await openAt(`${directory}/store`);
    const error = await fails("corrupt", store.create("app", { from: source }));
    assert(error.hint?.includes(`sqlite3 '${source}' .recover`), error.hint);
    assertEquals(await store.databases(), []);
    await store.create("app", { from: source, force: true });
    assertEquals((await store.verify(at("app"))).ok, false);
  }));

Deno.test("a source with functions and collations that only its application has is taken", () =>
  withDirectory(async (directory) => {
    const source = `${directory}/source.db`;
    const script =
      "import sqlite3,sys;c=sqlite3.connect(sys.argv[1]);c.create_collation('foo',lambda a,b:(a>b)-(a<b));" +
      "c.create_function('f',1,lambda x:x,deterministic=True);c.executescript(\"create table t(v collate foo);" +
      "create index i on t(v); insert into t values('x'); create table u(a); create index j on u(f(a));" +
      'insert into u values(1); create table w(a)")';
    const made = await new Deno.Command("python3", { args: ["-c", script, source] }).output();
    assertEquals(made.code, 0, new TextDecoder().decode(made.stderr));
    using store = await openAt(`${directory}/store`);
    await store.create("app", { from: source });
    assertEquals((await store.verify(at("app"))).problems, []);
  }));

import { assert, assertEquals } from "@std/assert";
import { longTest } from "../support/long.ts";
import type { ErrorCode } from "../../lib/errors.ts";
import { sqlite3, sqlite3Write } from "../support/writers/oracle.ts";
import { Bench, contentOf } from "./_bench.ts";

/** Makes a file in place and returns the codes that create may refuse it with. */
const REFUSED: [name: string, make: (path: string, bench: Bench) => Promise<unknown>, codes: ErrorCode[]][] = [
  ["missing", () => Promise.resolve(), ["not_found"]],
  ["text", (path) => Deno.writeTextFile(path, "hello\n".repeat(1000)), ["not_a_database"]],
  ["empty", (path) => Deno.writeFile(path, new Uint8Array(0)), ["not_a_database"]],
  ["one byte", (path) => Deno.writeTextFile(path, "S"), ["not_a_database"]],
  ["only the magic", (path) => Deno.writeTextFile(path, "SQLite format 3\0"), ["not_a_database"]],
  ["random bytes, as encrypted", (path) => Deno.writeFile(path, noise(64 << 10)), ["not_a_database"]],
  ["a header and noise", headerAndNoise, ["not_a_database", "corrupt"]],
  ["half a database", halved, ["not_a_database", "corrupt"]],
  ["a directory", (path) => Deno.mkdir(path), ["not_a_database", "denied", "not_found"]],
  ["a FIFO", (path) => shell("mkfifo", path), ["not_a_database", "denied"]],
  ["a device", (path) => Deno.symlink("/dev/zero", path), ["not_a_database", "denied"]],
  ["a dangling link", (path) => Deno.symlink("/nowhere/at/all", path), ["not_found", "denied"]],
];

function noise(bytes: number): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(new Uint8Array(bytes));
}

async function headerAndNoise(path: string, bench: Bench): Promise<void> {
  const bytes = await Deno.readFile(await bench.database());
  bytes.set(noise(bytes.length - 100), 100);
  await Deno.writeFile(path, bytes);
}

async function halved(path: string, bench: Bench): Promise<void> {
  const bytes = await Deno.readFile(await bench.database());
  await Deno.writeFile(path, bytes.subarray(0, bytes.length >> 1));
}

async function shell(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args }).output();
  assert(success, new TextDecoder().decode(stderr));
}

Deno.test("create refuses a file that is not a sound database and leaves nothing behind", async (t) => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  for (const [index, [name, make, codes]] of REFUSED.entries()) {
    await t.step(name, async () => {
      const path = bench.file("hostile");
      await make(path, bench);
      await operator.fails(codes, "create", `db${index}`, { from: path });
      await operator.fails("not_found", "status", { db: `db${index}`, branch: "main" });
    });
  }
  await operator.end();
  await bench.audit();
});

Deno.test("create takes every page size, every journal mode and every encoding as it is", async (t) => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  const kinds: [name: string, options: { page_size?: number; pragmas?: string }][] = [
    ...[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536].map((page_size): [string, { page_size: number }] => [
      `page size ${page_size}`,
      { page_size },
    ]),
    ["WAL", { pragmas: "PRAGMA journal_mode=WAL;" }],
    ["auto_vacuum", { pragmas: "PRAGMA auto_vacuum=FULL;" }],
    ["incremental vacuum", { pragmas: "PRAGMA auto_vacuum=INCREMENTAL;" }],
    ["UTF-16le", { pragmas: "PRAGMA encoding='UTF-16le';" }],
    ["UTF-16be", { pragmas: "PRAGMA encoding='UTF-16be';" }],
    ["a user version", { pragmas: "PRAGMA user_version=7; PRAGMA application_id=42;" }],
  ];
  for (const [index, [name, options]] of kinds.entries()) {
    await t.step(name, async () => {
      const db = `db${index}`;
      const path = await bench.database(options);
      const before = await Deno.readFile(path);
      await operator.ok("create", db, { from: path });
      assertEquals(await Deno.readFile(path), before, "the source was changed");
      await bench.expect(operator, `${db}@main`);
      assertEquals(bench.expected.get(`${db}@main`), contentOf(path));
      const { path: checkout } = await operator.ok("checkout", { db, branch: "main" });
      await sqlite3Write(String(checkout), "INSERT INTO t(body) VALUES('more')");
      await operator.ok("checkpoint", { db, branch: "main" }, "more");
      await sqlite3Write(path, "INSERT INTO t(body) VALUES('more')");
      await bench.expect(operator, `${db}@main`);
      assertEquals(bench.expected.get(`${db}@main`), contentOf(path));
      const pragmas = "PRAGMA page_size; PRAGMA encoding; PRAGMA user_version; PRAGMA auto_vacuum;";
      assertEquals(await sqlite3(String(checkout), [pragmas]), await sqlite3(path, [pragmas]));
    });
  }
  await operator.end();
  await bench.audit();
});

/** Leaves a database with a hot rollback journal: half of a transaction is in the file. */
async function hotJournal(bench: Bench): Promise<string> {
  const path = await bench.database({ rows: 20_000 });
  const script = `
import os, sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("PRAGMA cache_size=5"); c.execute("PRAGMA synchronous=FULL"); c.execute("BEGIN IMMEDIATE")
c.execute("UPDATE t SET body = 'torn'")
os.kill(os.getpid(), 9)`;
  await new Deno.Command("python3", { args: ["-c", script, path] }).output();
  assert((await Deno.stat(`${path}-journal`)).size > 0);
  return path;
}

Deno.test("create refuses a database with a hot journal until that is played back", async () => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  const path = await hotJournal(bench);
  const before = await Deno.readFile(path);
  await operator.fails("denied", "create", "app", { from: path });
  assertEquals(await Deno.readFile(path), before);
  assert((await Deno.stat(`${path}-journal`)).size > 0);
  const query = "SELECT count(*), min(body) FROM t";
  const truth = await sqlite3Write(path, query);
  await operator.ok("create", "app", { from: path });
  const out = bench.file("out");
  await operator.ok("export", { db: "app", branch: "main" }, out);
  assertEquals(await sqlite3(out, [query]), truth);
  await operator.end();
});

longTest("create from a WAL database that is being written takes a commit as a whole", async () => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  const path = await bench.database({ pragmas: "PRAGMA journal_mode=WAL;" });
  await sqlite3Write(path, "CREATE TABLE twin(a INTEGER, b INTEGER); INSERT INTO twin VALUES(0, 0)");
  const script = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
print("ready", flush=True)
while True:
    c.execute("BEGIN IMMEDIATE")
    c.execute("UPDATE twin SET a = a + 1")
    c.execute("INSERT INTO t(body) VALUES(hex(randomblob(2000)))")
    c.execute("UPDATE twin SET b = b + 1")
    c.execute("COMMIT")`;
  const writer = new Deno.Command("python3", { args: ["-c", script, path], stdout: "piped" }).spawn();
  try {
    const reader = writer.stdout.getReader();
    await reader.read();
    reader.releaseLock();
    for (const db of ["one", "two", "three"]) {
      await operator.ok("create", db, { from: path });
      const out = bench.file("out");
      await operator.ok("export", { db, branch: "main" }, out);
      assertEquals(await sqlite3(out, ["PRAGMA integrity_check; SELECT count(*) FROM twin WHERE a = b"]), "ok\n1\n");
    }
  } finally {
    writer.kill("SIGKILL");
    await writer.stdout.cancel();
    await writer.status;
  }
  assertEquals(await sqlite3Write(path, "PRAGMA integrity_check"), "ok\n");
  await operator.end();
});

longTest("create from a locked database is busy", async () => {
  await using bench = await Bench.make();
  const operator = bench.operator();
  const path = await bench.database();
  const script = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN EXCLUSIVE"); print("locked", flush=True); sys.stdin.read()`;
  const holder = new Deno.Command("python3", { args: ["-c", script, path], stdin: "piped", stdout: "piped" }).spawn();
  try {
    const reader = holder.stdout.getReader();
    await reader.read();
    reader.releaseLock();
    await operator.fails("busy", "create", "app", { from: path });
  } finally {
    holder.kill("SIGKILL");
    await holder.stdin.abort().catch(() => {});
    await holder.stdout.cancel();
    await holder.status;
  }
  await operator.ok("create", "app", { from: path });
  await operator.end();
});

import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { basename } from "@std/path/basename";
import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { TaskdError } from "../../lib/errors.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";

/**
 * Runs SQL in the stock sqlite3 shell, as an application would, and returns what it prints. The shell waits for another
 * writer only with this option, and a session is one for a moment.
 */
async function sqlite(path: string, sql: string): Promise<string> {
  const args = ["-bail", "-cmd", ".timeout 10000", path, sql];
  const { success, stdout, stderr } = await new Deno.Command("sqlite3", { args }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

/** Manual flushes only, so that what is durable is what an operation made so. */
const MANUAL = { flush_every_ms: 0 };

Deno.test("fork, export, diff and verify of a live branch include every commit before them", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  await sqlite(checkout, "CREATE TABLE t(n); INSERT INTO t VALUES(1)");

  await client.call("fork", { db: "app", new_branch: "dev" });
  const dev = await client.call("checkout", { db: "app", branch: "dev" });
  assertEquals(await sqlite(dev.path, "SELECT sum(n) FROM t"), "1");

  await sqlite(checkout, "INSERT INTO t VALUES(2)");
  const file = join(place.directory, "export.db");
  await client.call("export", { db: "app", path: file });
  assertEquals(await sqlite(file, "SELECT sum(n) FROM t"), "3");

  await sqlite(checkout, "INSERT INTO t VALUES(4)");
  const { tables } = await client.call("diff", { a: "app@dev", b: "app@main" });
  assertEquals(tables.map(({ table, rows_added }) => [table, rows_added]), [["t", 2]]);

  await sqlite(checkout, "INSERT INTO t VALUES(8)");
  const verified = await client.call("verify", { db: "app" });
  assert(verified.intact);
  assertEquals((await client.call("flush", { db: "app" })).kind, "none");
  assertEquals(verified.txid, (await client.call("status", {})).sessions[0]!.durable_txid);
});

// conformance: 4.socket.checkout_at
Deno.test("a live checkpoint includes every commit, and its read-only checkout shows it", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  await sqlite(checkout, "CREATE TABLE t(n); INSERT INTO t VALUES(1)");
  await client.call("checkpoint", { db: "app", name: "one", note: "the first" });
  await sqlite(checkout, "INSERT INTO t VALUES(2)");
  const at = await client.call("checkout-at", { db: "app", checkpoint: "one" });
  assertEquals([at.read_only, await sqlite(`file:${at.path}?immutable=1`, "SELECT sum(n) FROM t")], [true, "1"]);
  const [info] = (await client.call("branches", { db: "app" })).branches;
  assertEquals(info?.checkpoints.map(({ name, note }) => [name, note]), [["one", "the first"]]);
});

Deno.test("promote of a live source carries its commits", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("fork", { db: "app", new_branch: "dev" });
  const { checkout } = await client.call("open", { db: "app", branch: "dev" });
  await sqlite(checkout, "CREATE TABLE t(n); INSERT INTO t VALUES(1)");
  await client.call("promote", { db: "app", branch: "dev", onto: "main" });
  const { path } = await client.call("checkout", { db: "app" });
  assertEquals(await sqlite(path, "SELECT sum(n) FROM t"), "1");
});

Deno.test("a graceful shutdown makes every commit durable", async () => {
  await using place = new Place();
  {
    await using daemon = await DaemonProcess.start(place, MANUAL);
    using client = await daemon.connect();
    await client.call("create", { db: "app" });
    for (const branch of ["a", "b", "c"]) {
      await client.call("fork", { db: "app", new_branch: branch });
      const { checkout } = await client.call("open", { db: "app", branch });
      await sqlite(checkout, `CREATE TABLE t(name); INSERT INTO t VALUES('${branch}')`);
    }
    const events = await daemon.events();
    assertEquals(await daemon.stop(), 0);
    await events.ended;
    assertEquals(events.seen.filter(({ type }) => type === "session_closed").length, 3);
  }
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  for (const branch of ["a", "b", "c"]) {
    const file = join(place.directory, `${branch}.db`);
    await client.call("export", { db: "app", branch, path: file });
    assertEquals(await sqlite(file, "SELECT name FROM t"), branch);
    assertEquals((await client.call("lease", { db: "app", branch })).live, false);
  }
});

Deno.test("after SIGKILL the branch opens at once and every commit is captured", async () => {
  await using place = new Place();
  {
    await using daemon = await DaemonProcess.start(place, MANUAL);
    using client = await daemon.connect();
    await client.call("create", { db: "app" });
    const { checkout } = await client.call("open", { db: "app" });
    await sqlite(checkout, "CREATE TABLE t(n); INSERT INTO t VALUES(1)");
    await daemon.stop("SIGKILL");
  }
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  const { checkout } = await client.call("open", { db: "app" });
  assertEquals(await sqlite(checkout, "SELECT sum(n) FROM t"), "1");
  await sqlite(checkout, "INSERT INTO t VALUES(2)");
  const file = join(place.directory, "export.db");
  await client.call("export", { db: "app", path: file });
  assertEquals(await sqlite(file, "SELECT sum(n) FROM t"), "3");
});

// conformance: 6.type.flushed 8.flush_every
Deno.test("the timer flushes by itself and publishes an auto flush", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, { flush_every_ms: 50 });
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout, txid } = await client.call("open", { db: "app" });
  const events = await daemon.events();
  await sqlite(checkout, "CREATE TABLE t(n)");
  const flushed = await events.of("flushed");
  assert(flushed.type === "flushed");
  assertEquals([flushed.db, flushed.branch, flushed.detail.kind], ["app", "main", "auto"]);
  assert(flushed.detail.txid > txid && flushed.detail.duration_seconds > 0);
});

// conformance: 3.active 3.dirty 3.idle 3.computed 3.pending 4.socket.branches
Deno.test("branches distinguishes active, dirty and idle, and reads no checkout that is being opened", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  for (const branch of ["clean", "dirty", "bare"]) await client.call("fork", { db: "app", new_branch: branch });
  await client.call("checkout", { db: "app", branch: "clean" });
  const { path } = await client.call("checkout", { db: "app", branch: "dirty" });
  await sqlite(path, "CREATE TABLE edit(n)");
  await client.call("open", { db: "app" });
  const states = async () => {
    const { branches } = await client.call("branches", { db: "app" });
    return Object.fromEntries(branches.map(({ branch, state }) => [branch, state]));
  };
  assertEquals(await states(), { bare: "idle", clean: "idle", dirty: "dirty", main: "active" });
  // Opens, closes and listings at once: a listing that opened a checkout beside a session would cost it its locks.
  using other = await daemon.connect();
  const churn = (async () => {
    for (let round = 0; round < 5; round++) {
      await client.call("open", { db: "app", branch: "clean" });
      await client.call("close", { db: "app", branch: "clean" });
    }
  })();
  for (let round = 0; round < 20; round++) {
    const { branches } = await other.call("branches", { db: "app" });
    const clean = branches.find(({ branch }) => branch === "clean");
    assert(["idle", "pending", "active"].includes(clean!.state), clean!.state);
  }
  await churn;
});

// conformance: 3.error 3.precedence 7.session_error 4.socket.status
Deno.test("a session that can no longer see its checkout is in error until it is closed", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  await Deno.remove(checkout);
  await client.call("flush", { db: "app" }).catch(() => {});
  const { sessions, branch } = await client.call("status", { db: "app", branch: "main" });
  assertEquals([sessions[0]?.state, branch?.state], ["error", "error"]);
  assert(sessions[0]!.error!.message.length > 0 && branch!.error === sessions[0]!.error!.message);
  const closed = await client.call("close", { db: "app" });
  assertEquals(closed.error, sessions[0]!.error);
  assertEquals((await client.call("status", {})).sessions, []);
});

Deno.test("an export never replaces a file of the store, and another only with force", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const refusal = async (path: string, force: boolean) => {
    const error = await assertRejects(() => client.call("export", { db: "app", path, force }), TaskdError);
    return error.code;
  };
  assertEquals(await refusal(checkout, true), "denied");
  assertEquals(await refusal(`${place.store}/../store/new.db`, false), "denied");
  const link = join(place.directory, "link");
  await Deno.symlink(dirname(checkout), link);
  assertEquals(await refusal(join(link, basename(checkout)), true), "denied");
  assertEquals(await refusal(join(link, "new.db"), true), "denied");
  const file = join(place.directory, "export.db");
  await client.call("export", { db: "app", path: file });
  assertEquals(await refusal(file, false), "already_exists");
  await client.call("export", { db: "app", path: file, force: true });
  assertEquals(await refusal(join(place.directory, "missing", "export.db"), false), "not_found");
});

Deno.test("create starts from a file outside the store, also one that an application has open", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  const from = join(place.directory, "source.db");
  const app = new DatabaseSync(from);
  app.exec("PRAGMA journal_mode=WAL; CREATE TABLE t(n); INSERT INTO t VALUES(1)");
  await client.call("create", { db: "app", from });
  app.close();
  const { path } = await client.call("checkout", { db: "app" });
  assertEquals(await sqlite(path, "SELECT sum(n) FROM t"), "1");
  const missing = await assertRejects(() => client.call("create", { db: "b", from: `${from}x` }), TaskdError);
  assertEquals(missing.code, "not_found");
});

Deno.test("no operation beside a live session costs it SQLite's locks on its checkout", async () => {
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, MANUAL);
  using client = await daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("checkpoint", { db: "app", name: "empty" });
  const { checkout } = await client.call("open", { db: "app" });
  await sqlite(checkout, "CREATE TABLE t(n)");
  let rows = 0;
  // Without the session's locks the shell, leaving as the last client, would fold the log and delete it.
  const write = async () => {
    await sqlite(checkout, `INSERT INTO t VALUES(${++rows})`);
    assert((await Deno.stat(`${checkout}-wal`)).size > 0);
  };
  const beside: (() => Promise<unknown>)[] = [
    () => client.call("status", { db: "app", branch: "main" }),
    () => client.call("branches", {}),
    () => client.call("checkout", { db: "app" }),
    () => client.call("checkout-at", { db: "app", checkpoint: "empty" }),
    () => client.call("checkpoint", { db: "app", name: "later" }),
    () => client.call("fork", { db: "app", new_branch: "shared" }),
    () => client.call("fork", { db: "app", new_branch: "whole", materialize: true }),
    () => client.call("checkout", { db: "app", branch: "whole" }),
    () => client.call("diff", { a: "app@main@empty", b: "app" }),
    () => client.call("verify", { db: "app" }),
    () => client.call("export", { db: "app", path: join(place.directory, "export.db") }),
    () => client.call("create", { db: "copy", from: checkout }),
    () => client.call("promote", { db: "app", onto: "shared" }),
    () => client.call("destroy", { db: "app", branch: "whole" }),
    () => client.call("touch", { db: "app" }),
    () => client.call("protect", { db: "app", on: true }),
    () => client.call("lease", { db: "app" }),
  ];
  await write();
  for (const operation of beside) {
    await operation();
    await write();
  }
  await client.call("flush", { db: "app" });
  const { sessions } = await client.call("status", {});
  assertEquals(sessions.map(({ state, rebases, capture_lag_bytes }) => [state, rebases, capture_lag_bytes]), [
    ["active", 0, 0],
  ]);
  const { tables } = await client.call("diff", { a: "app@main@empty", b: "app" });
  assertEquals(await sqlite(checkout, "SELECT count(*) FROM t"), String(rows));
  assertEquals(tables.map(({ table }) => table), ["t"]);
});

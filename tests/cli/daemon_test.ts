import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { connect } from "../../lib/client/client.ts";
import { TaskdError } from "../../lib/errors.ts";
import { startDaemon } from "./support/daemon.ts";
import { textLines } from "../support/text_lines.ts";
import { makePlace } from "./support/taskd.ts";
import { longTest } from "../support/long.ts";

function write(path: string, statements: string): void {
  const db = new DatabaseSync(path);
  try {
    db.exec(statements);
  } finally {
    db.close();
  }
}

Deno.test("serve logs its socket, refuses a second daemon, and stops cleanly", async () => {
  await using place = await makePlace();
  await using daemon = await startDaemon(place);
  const { ok, store, socket, pid } = daemon.hello;
  assertEquals([ok, store, socket], [true, place.store, `${place.store}/taskd.sock`]);
  assert(Number.isSafeInteger(pid));
  assertEquals((await place.json(["serve"], 1)).code, "daemon_running");
  assertEquals((await daemon.stop()).code, 0);
  assertEquals((await place.json(["session", "status"], 1)).code, "daemon_unreachable");
});

longTest("session open says on stderr what it did about a checkout behind its branch", async () => {
  await using place = await makePlace();
  let path: string;
  {
    await using daemon = await startDaemon(place);
    await place.json(["create", "shop"]);
    path = (await place.taskd("session", "open", "shop")).stdout.trim();
    const app = new DatabaseSync(path);
    app.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    await place.json(["session", "flush", "shop"]);
    app.exec("INSERT INTO t VALUES(2)");
    const log = Deno.readFileSync(`${path}-wal`);
    app.exec("INSERT INTO t VALUES(3)");
    await place.json(["session", "flush", "shop"]);
    await daemon.stop("SIGKILL");
    app.close();
    Deno.writeFileSync(`${path}-wal`, log);
  }
  await using _daemon = await startDaemon(place);
  const { stdout, stderr } = await place.taskd("session", "open", "shop");
  assertEquals(stdout.trim(), path);
  assertMatch(
    stderr,
    /^The file of shop@main was behind its head, which is restored; what it held is .* main-found\n$/,
  );
  await place.json(["session", "flush", "shop"]);
  for (const [address, rows] of [["shop", "1,2,3"], ["shop@main-found", "1,2"]] as const) {
    await place.json(["export", address, `${place.store}/out.db`, "--force"]);
    using db = new DatabaseSync(`${place.store}/out.db`);
    assertEquals(db.prepare("SELECT group_concat(v) AS v FROM t").get()?.v, rows);
  }
});

longTest("a daemon outlives the reader of its log", async () => {
  await using place = await makePlace();
  await using daemon = await startDaemon(place);
  await daemon.leaveLog();
  await place.json(["create", "shop"]);
  await place.json(["session", "open", "shop"]);
  await place.json(["session", "close", "shop"]);
  assertEquals((await daemon.stop()).code, 0);
});

// conformance: 1.operations 4.socket.flush 4.socket.close 4.socket.status
Deno.test("a live session captures an application's writes, through every command of sessions", async () => {
  await using place = await makePlace();
  await using daemon = await startDaemon(place);
  await place.json(["create", "shop"]);
  assertEquals((await place.taskd("session", "status")).stdout, "No session is open\n");
  const path = (await place.taskd("session", "open", "shop")).stdout.trim();
  const app = new DatabaseSync(path);
  try {
    app.exec("CREATE TABLE item(id INTEGER PRIMARY KEY, name); INSERT INTO item VALUES (1,'a')");
    const flushed = await place.json(["session", "flush", "shop"]);
    assertEquals([flushed.txid, flushed.kind === "none"], [3, false]);
    assertMatch(
      (await place.taskd("session", "flush", "shop")).stdout,
      /^Flushed shop@main \(txid 3, nothing new\)\n$/,
    );
    assertMatch((await place.taskd("session", "status")).stdout, /^BRANCH .*\nshop@main +active +3 /);
    assertEquals((await place.json(["lease", "shop"])).live, true);
    assertEquals((await place.json(["session", "open", "shop"], 1)).ok, false);

    app.exec("INSERT INTO item VALUES (2,'b')");
    assertEquals((await place.json(["checkpoint", "shop", "v1"])).txid, 4);
    app.exec("INSERT INTO item VALUES (3,'c')");
    await place.json(["fork", "shop", "try"]);
    const { tables } = await place.json(["diff", "shop@main@v1", "shop@try"]) as { tables: { rows_added: number }[] };
    assertEquals(tables[0]!.rows_added, 1);
    app.exec("INSERT INTO item VALUES (4,'d')");
    await place.json(["export", "shop", "out.db"]);
    const copy = new DatabaseSync(`${place.base}/out.db`, { readOnly: true });
    assertEquals(copy.prepare("SELECT count(*) AS rows FROM item").get()!.rows, 4);
    copy.close();
    const { stdout } = await place.taskd("status", "shop", "-ro-cache-budget", "1G");
    assertMatch(stdout, /^state +active$/m);
    assertMatch(stdout, /^sqlite +3\./m);
    assertStringIncludes(stdout, "of 1 GiB");
  } finally {
    app.close();
  }
  assertMatch((await place.taskd("session", "close", "shop")).stdout, /^Closed shop@main \(txid \d+\)\n$/);
  assertEquals((await place.json(["session", "flush", "shop"], 1)).code, "no_session");
  assertEquals((await daemon.stop("SIGINT")).code, 0);
  assertEquals((await place.json(["verify", "--all"])).intact, true);
});

Deno.test("watch prints one event per line until it is interrupted, which exits with 130", async () => {
  await using place = await makePlace();
  await using _daemon = await startDaemon(place);
  await place.json(["create", "shop"]);
  const watcher = place.start("watch", "--json");
  const lines = textLines(watcher.stdout);
  const notes = textLines(watcher.stderr);
  assertEquals((await notes.next()).value, "Watching; Ctrl-C ends it");
  await place.json(["session", "open", "shop"]);
  const event = JSON.parse((await lines.next()).value!);
  assertEquals([event.v, event.type, event.db, event.branch], [1, "session_opened", "shop", "main"]);
  watcher.kill("SIGINT");
  assertEquals((await watcher.status).code, 130);
  await lines.return();
  await notes.return();
});

Deno.test("rollback closes and reopens the live session only with --reopen", async () => {
  await using place = await makePlace();
  await using _daemon = await startDaemon(place);
  await place.json(["create", "shop"]);
  const path = (await place.taskd("session", "open", "shop")).stdout.trim();
  await place.json(["checkpoint", "shop", "v1"]);
  write(path, "CREATE TABLE later(a)");
  assertEquals((await place.json(["rollback", "shop", "--to", "v1"], 1)).code, "lease_held");
  const back = await place.json(["rollback", "shop", "--to", "v1", "--reopen"]);
  assertEquals([back.txid, back.safety_branch], [1, "main-pre-rollback"]);
  assertEquals((await place.json(["session", "status"]) as { sessions: unknown[] }).sessions.length, 1);
  write(path, "CREATE TABLE later(a)");
});

longTest("a killed daemon does not hinder the next one", async () => {
  await using place = await makePlace();
  await using daemon = await startDaemon(place);
  await place.json(["create", "shop"]);
  const path = (await place.taskd("session", "open", "shop")).stdout.trim();
  write(path, "CREATE TABLE t(a)");
  await daemon.stop("SIGKILL");
  const { branches } = await place.json(["branches"]) as { branches: { branch: string }[] };
  assertEquals(branches.map(({ branch }) => branch), ["main"]);
  await place.json(["checkpoint", "shop", "after"]);
  assertEquals((await place.json(["verify", "shop"])).intact, true);
  await using again = await startDaemon(place);
  assertEquals(again.hello.socket, daemon.hello.socket);
});

longTest("over the socket, files outside the store need a directory that serve was granted", async () => {
  await using place = await makePlace();
  for (const name of ["open", "closed"]) {
    await Deno.mkdir(`${place.base}/${name}`);
    write(`${place.base}/${name}/x.db`, "CREATE TABLE t(a)");
  }
  await using daemon = await startDaemon(place, "-files", "open");
  using client = await connect(daemon.hello.socket);
  assertEquals((await client.call("create", { db: "a", from: `${place.base}/open/x.db` })).db, "a");
  assertEquals((await client.call("export", { db: "a", path: `${place.base}/open/y.db` })).txid, 1);
  await assertRejects(() => client.call("create", { db: "b", from: `${place.base}/closed/x.db` }), TaskdError);
  await assertRejects(() => client.call("export", { db: "a", path: `${place.base}/closed/y.db` }), TaskdError);
  assertEquals((await client.call("status", {})).sessions, []);
});

Deno.test("commands of sessions say that there is no daemon", async () => {
  await using place = await makePlace();
  const { code, stderr } = await place.taskd("session", "open", "shop");
  assertEquals(code, 1);
  assertMatch(stderr, /^taskd: Cannot connect to the daemon at .*taskd\.sock/);
});

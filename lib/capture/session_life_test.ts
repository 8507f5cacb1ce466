import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { fails, insert, inSession, onStore, unavailable } from "../../tests/support/session.ts";
import { cutOff } from "../../tests/support/cut_off.ts";
import { at, rows, sql, stored } from "../../tests/support/stores.ts";
import { TaskdError } from "../errors.ts";
import { LEASE_TTL_MS } from "../store/lease.ts";
import { PAUSE_MS } from "../retry_while_busy.ts";

Deno.test("close() flushes, gives the lease back and leaves a checkout that is known to be clean", () =>
  onStore(async (scene) => {
    const session = await scene.open();
    sql(session.checkout, "CREATE TABLE t(v)", "INSERT INTO t VALUES(1)");
    await session.close();
    await session.close();
    assertEquals(scene.types, "session_opened flushed session_closed");
    assertEquals(scene.events.at(-1)?.detail, {});
    assertEquals((await scene.store.lease(at("app"))).live, false);
    assertEquals(await stored(scene.store, "app"), "1");
    assertEquals(Deno.statSync(session.checkout).mode! & 0o777, 0o600);
    for (const suffix of ["-wal", "-shm", ".session"]) {
      assertEquals(
        [...Deno.readDirSync(`${scene.directory}/checkouts/app`)].some(({ name }) => name.endsWith(suffix)),
        false,
        suffix,
      );
    }
    // Neither of the next two reads an object: size and time prove the content.
    scene.plan = unavailable("getStream", "getRange");
    assertEquals((await scene.store.checkout(at("app"))).source, "kept");
    await (await scene.open()).close();
  }));

Deno.test("a closed session refuses calls as closed and emits no more events", () =>
  onStore(async (scene) => {
    const session = await scene.open();
    await session.close();
    await fails("no_session", session.flush());
    await fails("no_session", session.checkpoint("one"));
    assertEquals(session.status().durable_txid, session.txid);
    await scene.pass(2 * LEASE_TTL_MS, 1_000);
    assertEquals([scene.types, scene.clock.sleepers], ["session_opened session_closed", 0]);
  }));

Deno.test("what an application commits after close() is found by the next session", () =>
  onStore(async (scene) => {
    const session = await scene.open();
    const application = new DatabaseSync(session.checkout);
    application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1)");
    await session.close();
    application.exec("INSERT INTO t VALUES(2)");
    const next = await scene.open();
    application.exec("INSERT INTO t VALUES(3)");
    await next.flush();
    assertEquals(await stored(scene.store, "app"), "1,2,3");
    application.exec("INSERT INTO t VALUES(4)");
    await next.close();
    assertEquals(await stored(scene.store, "app"), "1,2,3,4");
    application.close();
  }));

Deno.test("a writer at work does not keep a session from closing, and its commit is not lost", () =>
  onStore(async (scene) => {
    const session = await scene.open();
    const application = new DatabaseSync(session.checkout);
    application.exec("CREATE TABLE t(v); INSERT INTO t VALUES(1); BEGIN IMMEDIATE; INSERT INTO t VALUES(2)");
    await scene.clock.through(session.close(), PAUSE_MS);
    assertEquals(await scene.clock.through(stored(scene.store, "app"), PAUSE_MS), "1");
    application.exec("COMMIT");
    application.close();
    const next = await scene.open();
    await next.close();
    assertEquals(await stored(scene.store, "app"), "1,2");
  }));

Deno.test("a close whose last flush fails throws, releases the lease and loses nothing", () =>
  onStore(async (scene) => {
    const session = await scene.open();
    sql(session.checkout, "CREATE TABLE t(v)", "INSERT INTO t VALUES(1)");
    scene.plan = unavailable("put");
    await fails("unavailable", session.close());
    assertEquals(scene.types, "session_opened flush_failed session_closed");
    assert((scene.events.at(-1)?.detail as { error?: string }).error?.includes("unavailable"));
    scene.plan = () => undefined;
    assertEquals((await scene.store.status(at("app"))).state, "dirty");
    const next = await scene.open();
    await next.close();
    assertEquals(await stored(scene.store, "app"), "1");
  }));

Deno.test("an opening that fails leaves the branch free and the checkout untouched", () =>
  onStore(async (scene) => {
    await (await scene.open()).close();
    const path = await scene.store.path(at("app"));
    sql(path, "CREATE TABLE t(v)");
    Deno.removeSync(`${path}.sum`);
    await fails("dirty", scene.open());
    assertEquals((await scene.store.lease(at("app"))).live, false);
    assertEquals(rows(path, "SELECT count(*) FROM t"), "0");
    // A directory in the place of the session's record: the opening fails at its very end.
    await scene.store.checkout(at("app"), { force: true });
    Deno.mkdirSync(`${path}.session`);
    await assertRejects(() => scene.open(), TaskdError);
    Deno.removeSync(`${path}.session`);
    const session = await scene.open();
    await session.close();
  }));

Deno.test("what is committed while a session opens is not taken for what was there before", async (t) => {
  for (
    const [name, attached] of [["by an application that stays", true], ["by one that leaves again", false]] as const
  ) {
    await t.step(name, () =>
      onStore(async (scene) => {
        const first = await scene.open();
        sql(first.checkout, "CREATE TABLE t(v)");
        await first.close();
        const { checkouts } = scene.store.context;
        const inspect = checkouts.inspect.bind(checkouts);
        let application: DatabaseSync | undefined;
        checkouts.inspect = (target) => {
          const view = inspect(target);
          application ??= new DatabaseSync(first.checkout);
          if (application.isOpen) application.exec("INSERT INTO t VALUES('just now')");
          if (!attached && application.isOpen) application.close();
          return view;
        };
        const session = await scene.open();
        await session.flush();
        assertEquals(await stored(scene.store, "app"), "just now");
        await session.close();
        if (attached) application?.close();
      }));
  }
});

Deno.test("edits made while no session was open are adopted as a full copy", () =>
  onStore(async (scene) => {
    await (await scene.open()).close();
    const path = await scene.store.path(at("app"));
    sql(path, "CREATE TABLE t(v)", "INSERT INTO t VALUES('between')");
    const session = await scene.open();
    assertEquals(session.status().rebases, 1);
    assertEquals((await session.flush()).kind, "snapshot");
    assertEquals(await stored(scene.store, "app"), "between");
    await session.close();
  }));

Deno.test("a session that was cut off resumes where its last flush ended, with every later commit", () =>
  onStore(async (scene) => {
    const path = (await scene.store.checkout(at("app"))).path;
    // An application that stays attached, so that the log outlives the session.
    const application = new DatabaseSync(path);
    application.exec("CREATE TABLE t(v)");
    await cutOff(
      scene.directory,
      `await session.flush(); sql(session.checkout, "INSERT INTO t VALUES(1)"); await session.flush();
      sql(session.checkout, "INSERT INTO t VALUES(2)");`,
    );
    application.exec("INSERT INTO t VALUES(3)");
    const session = await scene.open();
    assert(scene.log.some((line) => line.includes("resumed")), scene.log.join("\n"));
    assertEquals(session.status().rebases, 0);
    const { kind, txid } = await session.flush();
    assertEquals(kind, "segment");
    assertEquals(await stored(scene.store, "app"), "1,2,3");
    application.exec("INSERT INTO t VALUES(4)");
    assertEquals((await session.flush()).txid, txid + 1);
    await session.close();
    assertEquals(await stored(scene.store, "app"), "1,2,3,4");
    application.close();
  }, { on_disk: true }));

Deno.test("a session that was cut off and whose log was folded meanwhile is taken up by a full copy", () =>
  onStore(async (scene) => {
    const path = (await scene.store.checkout(at("app"))).path;
    await cutOff(
      scene.directory,
      `sql(session.checkout, "CREATE TABLE t(v)"); await session.flush(); sql(session.checkout, "INSERT INTO t VALUES(1)");`,
    );
    sql(path, "INSERT INTO t VALUES(2)"); // the last to leave folds the log and removes it
    const session = await scene.open();
    assertEquals(session.status().rebases, 1);
    await session.close();
    assertEquals(await stored(scene.store, "app"), "1,2");
  }, { on_disk: true }));

Deno.test("a session that was cut off with nothing pending needs no full copy", () =>
  onStore(async (scene) => {
    await cutOff(scene.directory, `sql(session.checkout, "CREATE TABLE t(v)"); await session.flush();`);
    const session = await scene.open();
    assertEquals(session.status().rebases, 0);
    assertEquals((await session.flush()).kind, "none");
    await session.close();
  }, { on_disk: true }));

Deno.test("a removed or replaced checkout puts the session into the error state", async (t) => {
  const attacks: [string, (path: string) => void][] = [
    ["removed", (path) => Deno.removeSync(path)],
    ["replaced", (path) => {
      Deno.copyFileSync(path, `${path}.copy`);
      Deno.renameSync(`${path}.copy`, path);
    }],
    ["its -wal removed", (path) => Deno.removeSync(`${path}-wal`)],
  ];
  for (const [name, attack] of attacks) {
    await t.step(name, () =>
      inSession(async (scene, session) => {
        insert(session, "kept");
        await session.flush();
        insert(session, "lost");
        session.status();
        attack(session.checkout);
        await scene.pass(3_000);
        assertEquals([session.status().state, session.status().error?.code], ["error", "capture_failed"]);
        await fails("session_failed", session.flush());
        assertEquals(await stored(scene.store, "app"), "kept");
      }));
    await t.step(`${name}, of a session that has long been idle`, () =>
      inSession(async (scene, session) => {
        insert(session, "kept");
        await session.flush();
        await scene.pass(21_000);
        attack(session.checkout);
        await scene.pass(3_000);
        assertEquals(session.status().error?.code, "capture_failed");
      }));
  }
  await t.step("moved away from a session that has long been idle", () =>
    inSession(async (scene, session) => {
      insert(session, "kept");
      await session.flush();
      await scene.pass(21_000);
      Deno.renameSync(session.checkout, `${session.checkout}.away`);
      await scene.pass(11_000);
      assertEquals(session.status().error?.code, "capture_failed");
    }));
});

Deno.test("commits before a fold survive a session that is cut off before its flush", () =>
  onStore(async (scene) => {
    const { path } = await scene.store.checkout(at("app"));
    const application = new DatabaseSync(path);
    application.exec("CREATE TABLE t(v); CREATE TABLE u(v)");
    await cutOff(
      scene.directory,
      `await session.flush();
      const folded = () => Deno.statSync(session.checkout).mtime.getTime();
      sql(session.checkout, "INSERT INTO t VALUES(1)");
      // The session folds no log that has more than is stored; the application does, once the session lets it.
      for (const before = folded(); folded() === before;) {
        await new Promise((resolve) => setTimeout(resolve, 20));
        sql(session.checkout, "PRAGMA wal_checkpoint");
      }
      sql(session.checkout, "INSERT INTO u VALUES(2)");
      session.status();`,
    );
    const session = await scene.open();
    await session.close();
    application.close();
    assertEquals([await stored(scene.store, "app"), await stored(scene.store, "app", "SELECT v FROM u")], ["1", "2"]);
  }, { on_disk: true }));

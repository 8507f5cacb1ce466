import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { DatabaseSync } from "node:sqlite";
import { at, fails, rows, sql, stored, withApp } from "../../../tests/support/stores.ts";
import { imageIndexKey, parseObjectKey, snapshotKey } from "../keys.ts";
import { encodeRef } from "../ref.ts";
import { MAX_CHECKPOINTS, MAX_NOTE, MAX_REF_BYTES, refuseCheckpoint } from "./checkpoint.ts";
import { PAUSE_MS } from "../../retry_while_busy.ts";

Deno.test("a checkpoint stores what the checkout holds; of nothing new it stores nothing", () =>
  withApp([], async ({ store, edit }) => {
    const empty = await store.checkpoint(at("app"), "empty");
    assertEquals([empty.pages, empty.stored_bytes, empty.txid, empty.kind], [0, 0, 1, "snapshot"]);
    await edit("main", 1);
    const one = await store.checkpoint(at("app"), "one", { note: "why" });
    assertEquals([one.txid, one.pages > 0, one.stored_bytes > 0], [2, true, true]);
    const again = await store.checkpoint(at("app"), "again");
    assertEquals([again.txid, again.pages, again.stored_bytes], [2, 0, 0]);
    assertEquals((await store.status(at("app"))).checkpoints.map(({ name, note }) => [name, note]), [
      ["empty", undefined],
      ["one", "why"],
      ["again", undefined],
    ]);
    assertEquals((await store.checkout(at("app"))).source, "kept");
    assertEquals([await stored(store, "app@main@empty"), await stored(store, "app@main@again")], ["", "1"]);
  }));

// conformance: 2.metrics.bstore_checkpoint_overwrite_detected_total
Deno.test("a checkpoint reports an object that another writer put before its head", async () => {
  const log: string[] = [];
  await withApp([], async ({ store, directory, edit, faults }) => {
    await edit("main", 1);
    const [first] = await store.context.chains.objects((await store.context.refs.read("app", "main")).ref.lineage);
    assert(first?.kind === "snapshot");
    const rival = (txid: number) => {
      const [key, foreign] = [first.key, snapshotKey(first.lineage, 99, txid, first.codec)];
      Deno.mkdirSync(dirname(`${directory}/${foreign}`), { recursive: true });
      Deno.copyFileSync(`${directory}/${key}`, `${directory}/${foreign}`);
      if (first.codec !== "raw") return;
      Deno.copyFileSync(`${directory}/${imageIndexKey(key)}`, `${directory}/${imageIndexKey(foreign)}`);
    };
    // After the object is stored, and before the ref names it.
    let stored: number | undefined;
    faults.plan = ({ method, key }) => {
      if (method === "put") stored = parseObjectKey(key)?.last ?? stored;
      else if (method === "replace" && stored !== undefined) rival(stored);
      return undefined;
    };
    const { txid, overwrite_detected } = await store.checkpoint(at("app"), "one");
    assertEquals([txid, overwrite_detected], [2, true]);
    assertEquals(log.filter((line) => line.includes("checkpoint app@main@one: the head may not be its own")).length, 1);
  }, { on_disk: true, log: (line) => log.push(line) });
});

Deno.test("a checkpoint without a checkout names the head", () =>
  withApp([1], async ({ store, directory }) => {
    Deno.removeSync(`${directory}/checkouts`, { recursive: true });
    const { txid, stored_bytes } = await store.checkpoint(at("app"), "head");
    assertEquals([txid, stored_bytes], [(await store.status(at("app"))).txid, 0]);
  }));

Deno.test("a checkpoint is refused before anything is stored", () =>
  withApp([1], async ({ store, edit, faults }) => {
    await edit("main", "unsaved");
    faults.calls.length = 0;
    assertEquals((await fails("already_exists", store.checkpoint(at("app"), "c1"))).hint, "Choose another name");
    for (const name of ["", "-x", "A", "a@b", "a..b", "x".repeat(129)]) {
      await fails("invalid_name", store.checkpoint(at("app"), name));
    }
    await fails("too_large", store.checkpoint(at("app"), "long", { note: "x".repeat(MAX_NOTE + 1) }));
    await fails("not_found", store.checkpoint(at("app@none"), "x"));
    assertEquals(faults.calls.filter(({ method }) => method === "put"), []);
    assertEquals((await store.status(at("app"))).state, "dirty");
    assertEquals((await store.lease(at("app"))).live, false);
  }));

Deno.test("a ref never exceeds the size of one read, with any notes", () =>
  withApp([1], async ({ store }) => {
    const { ref } = await store.context.refs.read("app", "main");
    const entry = { ...ref.checkpoints[0]!, note: "\u0000".repeat(MAX_NOTE) };
    const many = (count: number) => ({
      ...ref,
      checkpoints: Array.from({ length: count }, (_, i) => ({ ...entry, name: `n${i}` })),
    });
    const fit = Math.floor(MAX_REF_BYTES / (encodeRef(many(2)).length - encodeRef(many(1)).length)) - 1;
    refuseCheckpoint(many(fit), at("app"), "x");
    await fails("too_large", (() => Promise.resolve().then(() => refuseCheckpoint(many(fit + 2), at("app"), "x")))());
    const short = { ...ref.checkpoints[0]! };
    const full = {
      ...ref,
      checkpoints: Array.from({ length: MAX_CHECKPOINTS }, (_, i) => ({ ...short, name: `n${i}` })),
    };
    await fails("too_large", Promise.resolve().then(() => refuseCheckpoint(full, at("app"), "x")));
  }));

Deno.test("a checkpoint whose ref cannot be written stores nothing, and the next one has everything", () =>
  withApp([1], async ({ store, edit, faults }) => {
    const path = await edit("main", 2);
    let writes = 0;
    faults.plan = ({ method }) =>
      method === "replace" && ++writes === 2 ? { kind: "before", code: "unavailable" } : undefined;
    await fails("unavailable", store.checkpoint(at("app"), "two"));
    faults.plan = () => undefined;
    assertEquals(await stored(store, "app"), "1");
    sql(path, "INSERT INTO t VALUES(3)");
    await store.checkpoint(at("app"), "two");
    assertEquals(await stored(store, "app@main@two"), "1,2,3");
    assertEquals((await store.verify(at("app"))).problems, []);
  }));

Deno.test("a checkpoint holds no uncommitted edits, waits for them, then is busy", () =>
  withApp([1], async ({ store, edit, clock }) => {
    const path = await edit("main");
    const application = new DatabaseSync(path);
    application.exec("BEGIN IMMEDIATE; INSERT INTO t VALUES('not yet')");
    assertEquals((await store.checkpoint(at("app"), "before")).pages, 0);
    application.exec("COMMIT; BEGIN IMMEDIATE; INSERT INTO t VALUES('half')");
    await fails("busy", clock.through(store.checkpoint(at("app"), "x"), PAUSE_MS));
    application.exec("INSERT INTO t VALUES('whole'); COMMIT");
    await store.checkpoint(at("app"), "x");
    assertEquals(await stored(store, "app"), "1,not yet,half,whole");
    assertEquals(await stored(store, "app@main@before"), "1");
    application.close();
  }));

Deno.test("edits in a checkout of another history are not stored as this one's", () =>
  withApp([1, 2], async ({ store, edit }) => {
    const path = await edit("main", "mine");
    await store.rollback(at("app@main@c1"), { safety: false });
    await fails("dirty", store.checkpoint(at("app"), "x"));
    Deno.removeSync(`${path}.sum`);
    await fails("dirty", store.checkpoint(at("app"), "x"));
    assertEquals(rows(path), "1,2,mine");
    // Without an edit there is nothing to mistake.
    await store.checkout(at("app"), { force: true });
    Deno.removeSync(`${path}.sum`);
    assertEquals((await store.checkpoint(at("app"), "same")).stored_bytes, 0);
  }));

Deno.test("page size, journal mode and every other change of an application are stored whole", () =>
  withApp([1], async ({ store, edit }) => {
    const path = await edit("main");
    for (
      const [i, statements] of [
        ["PRAGMA journal_mode=DELETE", "PRAGMA page_size=8192", "VACUUM", "INSERT INTO t VALUES('8k')"],
        ["PRAGMA journal_mode=TRUNCATE", "INSERT INTO t VALUES('truncate')"],
        ["PRAGMA journal_mode=DELETE", "PRAGMA auto_vacuum=FULL", "VACUUM", "DELETE FROM t WHERE v = '8k'"],
        ["PRAGMA application_id=7", "PRAGMA user_version=9"],
      ].entries()
    ) {
      sql(path, ...statements);
      await store.checkpoint(at("app"), `n${i}`);
      assertEquals(await stored(store, "app"), rows(path));
      assertEquals((await store.status(at("app"))).state, "idle");
    }
    assertEquals(await stored(store, "app", "PRAGMA user_version"), "9");
    assertEquals(await stored(store, "app", "PRAGMA page_size"), "8192");
    assertNotEquals(await stored(store, "app@main@n0"), await stored(store, "app@main@n2"));
  }));

Deno.test("no commit lands while a checkpoint stores edits; a later one is an edit again", () =>
  withApp([1], async ({ store, edit, faults }) => {
    const path = await edit("main", 2);
    const application = new DatabaseSync(path, { timeout: 0 });
    const commits: string[] = [];
    faults.plan = ({ method }) => {
      // The object is stored, and then the ref is written.
      const here = commits.length === 0 ? method === "put" : commits.length === 1 && method === "replace";
      if (!here) return undefined;
      try {
        application.exec("INSERT INTO t VALUES('between')");
        commits.push("committed");
      } catch (error) {
        commits.push((error as Error).message);
      }
      return undefined;
    };
    await store.checkpoint(at("app"), "two");
    faults.plan = () => undefined;
    assertEquals(commits, ["database is locked", "database is locked"]);
    application.exec("INSERT INTO t VALUES('after')");
    application.close();
    assertEquals((await store.status(at("app"))).state, "dirty");
    await store.checkpoint(at("app"), "three");
    assertEquals([await stored(store, "app@main@two"), await stored(store, "app")], ["1,2", "1,2,after"]);
  }));

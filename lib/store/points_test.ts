import { assert, assertEquals, assertMatch } from "@std/assert";
import { at, fails, rows, sql, stored, type TestStore, withApp } from "../../tests/support/stores.ts";
import { CaptureSession } from "../capture/session.ts";
import type { Ref } from "./ref.ts";

const MINUTE = 60_000;

/** Commits `value` to a branch in a session, a minute after the last. */
async function point({ store, clock }: TestStore, value: string, branch = "main"): Promise<void> {
  clock.advance(MINUTE);
  const session = await CaptureSession.open(store, at(`app@${branch}`), { flush_every_ms: 0, snapshot_every: 16 });
  try {
    sql(session.checkout, `INSERT INTO t VALUES('${value}')`);
  } finally {
    await session.close();
  }
}

async function withPoints(work: (test: TestStore) => Promise<void>): Promise<void> {
  await withApp([], async (test) => {
    for (const value of ["a", "b", "c"]) await point(test, value);
    await work(test);
  });
}

const ops = async ({ store }: TestStore, branch = "main") =>
  (await store.log(at(`app@${branch}`))).points.map(({ txid, op }) => `${txid} ${op}`);

Deno.test("a log lists each flush with time, pages and bytes, and what it was, newest first", () =>
  withPoints(async (test) => {
    const { store, clock } = test;
    await store.checkpoint(at("app"), "named");
    const { points, next } = await store.log(at("app"));
    assertEquals(next, undefined);
    assertEquals(points.map(({ txid, op, checkpoints, kind }) => [txid, op, checkpoints, kind]), [
      [4, "checkpoint", ["named"], "segment"],
      [3, "flush", undefined, "segment"],
      [2, "flush", undefined, "segment"],
      [1, "create", undefined, "snapshot"],
    ]);
    assertEquals(points.slice(0, 3).map((each) => clock.now() - Date.parse(each.at!)), [0, MINUTE, 2 * MINUTE]);
    assert(points.every(({ pages, bytes }) => pages > 0 && bytes > 0));
  }));

Deno.test("a log comes in parts, and a place that no part ended at is refused", () =>
  withPoints(async ({ store }) => {
    const txids: number[] = [];
    let after: string | undefined;
    do {
      const part = await store.log(at("app"), { limit: 3, ...(after === undefined ? {} : { after }) });
      txids.push(...part.points.map(({ txid }) => txid));
      after = part.next;
    } while (after !== undefined);
    assertEquals(txids, [4, 3, 2, 1]);
    await fails("invalid_request", store.log(at("app"), { after: "0/0/0" }));
    await fails("usage", store.log(at("app@main@txid:1")));
  }));

Deno.test("an address names a point by transaction, time or age, wherever it can name a checkpoint", () =>
  withPoints(async (test) => {
    const { store, clock, directory } = test;
    const then = new Date(clock.now() - MINUTE).toISOString();
    for (const text of ["3", "txid:3", "1m", "age:30s", then, `time:${then}`]) {
      assertEquals(await stored(store, `app@main@${text}`), "a,b", text);
    }
    assertEquals(await stored(store, "app@main@age:0"), "a,b,c");
    assertEquals((await store.diff(at("app@main@1m"), at("app"))).a, "app@main@txid:3");
    const { path, checkpoint, read_only } = await store.checkout(at("app@main@2m"));
    assertEquals([rows(path), checkpoint, read_only], ["a", "txid:2", true]);
    assertEquals((await store.fork(at("app@main@1m"), "before")).txid, 3);
    assertEquals(await stored(store, "app@before"), "a,b");
    await store.export(at("app@main@txid:2"), `${directory}/two.db`);
    assertEquals(rows(`${directory}/two.db`), "a");
    assertEquals((await store.rollback(at("app@main@1m"))).txid, 3);
    assertEquals(await stored(store, "app"), "a,b");
  }));

Deno.test("a checkpoint of that very name goes first", () =>
  withPoints(async ({ store, edit }) => {
    await edit("main", "d");
    await store.checkpoint(at("app"), "1m");
    await store.checkpoint(at("app"), "2");
    assertEquals(await stored(store, "app@main@1m"), "a,b,c,d");
    assertEquals(await stored(store, "app@main@2"), "a,b,c,d");
    assertEquals(await stored(store, "app@main@age:1m"), "a,b");
    assertEquals(await stored(store, "app@main@txid:2"), "a");
  }));

Deno.test("a time means where the branch stood then, also before a rollback", () =>
  withPoints(async (test) => {
    const { store, clock } = test;
    const before = clock.now();
    clock.advance(MINUTE);
    await store.rollback(at("app@main@txid:2"));
    await point(test, "other");
    assertEquals(await ops(test), ["3 flush", "2 rollback", "4 flush", "3 flush", "2 flush", "1 create"]);
    assertEquals(await stored(store, "app@main@txid:3"), "a,other");
    assertEquals(await stored(store, "app@main@1m"), "a");
    assertEquals(await stored(store, "app@main@2m"), "a,b,c");
    // Transaction 3 has become another: the point is named by its time.
    const earlier = await store.diff(at(`app@main@time:${new Date(before - MINUTE).toISOString()}`), at("app"));
    assertEquals(earlier.a, `app@main@time:${new Date(before - MINUTE).toISOString()}`);
    assertEquals((await store.diff(at(earlier.a), at("app@main@txid:2"))).tables[0]?.rows_removed, 1);
  }));

Deno.test("a point that is not kept is refused with the nearest before and after", () =>
  withPoints(async (test) => {
    const { store, clock } = test;
    const first = clock.now() - 3 * MINUTE;
    const never = await fails("not_found", store.fork(at("app@main@txid:99"), "x"));
    assertMatch(never.message, /nearest before is txid:4 of 2026-\S+, none is kept after that/);
    const early = await fails("not_found", store.checkout(at("app@main@1h")));
    assertMatch(early.message, /none is kept before that, the nearest after is txid:1 /);
    assertEquals(early.hint, "taskd log app@main lists the points that are kept");
    await store.checkpoint(at("app"), "kept");
    await store.compact(at("app"));
    await point(test, "d");
    assertEquals(await stored(store, "app@main@2m"), "a,b");
    // Nothing needs what came before the compaction but the checkpoint, and that needs all of it.
    await store.context.refs.update("app", "main", (ref): Ref => ({ ...ref, checkpoints: [] }));
    for (let pass = 0; pass < 2; pass++) await store.collectGarbage({ grace_ms: 0 });
    assertEquals(await ops(test), ["5 flush", "4 compact"]);
    const time = new Date(first + 1).toISOString();
    const lost = await fails("not_found", store.fork(at(`app@main@${time}`), "x"));
    assertMatch(lost.message, /none is kept before that, the nearest after is txid:4 /);
  }));

Deno.test("a fork has its parent's points, and a ref without any those of its chain", () =>
  withPoints(async (test) => {
    const { store } = test;
    await store.fork(at("app"), "try");
    assertEquals(await ops(test, "try"), ["4 fork", "3 flush", "2 flush", "1 create"]);
    await point(test, "mine", "try");
    assertEquals(await ops(test, "try"), ["5 flush", "4 fork", "3 flush", "2 flush", "1 create"]);
    assertEquals(await stored(store, "app@try@txid:3"), "a,b");
    await store.context.refs.update("app", "main", ({ points: _, ...ref }): Ref => ({ ...ref, points: [] }));
    const { points } = await store.log(at("app"));
    assertEquals(points.map(({ txid }) => txid), [4, 3, 2, 1]);
    assertEquals(points.map(({ at }) => at !== undefined), [true, false, false, false]);
    assertEquals(await stored(store, "app@main@txid:2"), "a");
    await fails("not_found", store.fork(at("app@main@2m"), "x"));
  }));

Deno.test("a fork at an age brings back what a bad statement took, and leaves the branch as it is", () =>
  withPoints(async (test) => {
    const { store, clock, edit } = test;
    const path = await edit("main");
    clock.advance(15 * MINUTE);
    sql(path, "UPDATE t SET v = 'oops'");
    await store.checkpoint(at("app"), "bad");
    await store.fork(at("app@main@age:15m"), "oops");
    assertEquals(await stored(store, "app@oops"), "a,b,c");
    assertEquals(await stored(store, "app"), "oops,oops,oops");
  }));

Deno.test("what a point needs stays for the grace period after the branch has left it", () =>
  withApp([], async ({ store, clock }) => {
    const grace_ms = 15 * MINUTE;
    const session = await CaptureSession.open(store, at("app"), { flush_every_ms: 0, snapshot_every: 2 });
    try {
      for (let minute = 0; minute < 40; minute++) {
        sql(session.checkout, `INSERT INTO t VALUES('${minute}')`);
        await session.flush();
        await store.collectGarbage({ grace_ms });
        if (minute >= 15) {
          const { path } = await store.checkout(at("app@main@age:15m"));
          assertEquals(rows(path, "SELECT max(rowid) - 1 FROM t"), String(minute - 15));
        }
        clock.advance(MINUTE);
      }
      // Most of what came before is gone: every second object was a whole copy.
      const { points } = await store.log(at("app"));
      assert(points.length >= 16 && points.length < 25, `${points.length} points`);
    } finally {
      await session.close();
    }
  }));

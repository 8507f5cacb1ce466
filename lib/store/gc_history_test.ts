import { assert, assertEquals } from "@std/assert";
import { type Bench, withStore } from "../../tests/support/garbage.ts";
import { dataKeys, flush, neededKeys } from "../../tests/support/histories.ts";
import { at, fails, OUTRIGHT } from "../../tests/support/stores.ts";
import { DAY_MS, DEFAULT_LEVELS, HOUR_MS, type KeepLevel, parseLevels } from "./retention.ts";

const MAIN = at("app");

/** Flushes, a quarter of an hour apart; every fourth is a snapshot. */
async function flushes({ store, clock }: Bench, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    clock.advance(HOUR_MS / 4);
    await flush(store, MAIN, i, { snapshot: i % 4 === 3 });
  }
}

/** Passes until nothing is left to do; what is left is what points need and nothing else. */
async function settle({ store, backend }: Bench, keep: readonly KeepLevel[]): Promise<void> {
  for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, keep });
  assertEquals(new Set(await dataKeys(backend)), await neededKeys(store, keep));
}

Deno.test("points of the past keep what they need, and nothing else stays; later they let go of it", () =>
  withStore(async (bench) => {
    const { store, clock } = bench;
    await flushes(bench, 8 * 4);
    const txids = async () => (await store.log(MAIN, { limit: 1000 })).points.map(({ txid }) => txid);
    const all = await txids();
    assertEquals(all.length, 33);
    await settle(bench, DEFAULT_LEVELS);
    assertEquals(await txids(), all, "of a day all are kept");
    const [{ points, bytes } = { points: 0, bytes: 0 }] =
      (await store.collectGarbage({ grace_ms: 0, keep: DEFAULT_LEVELS, dry_run: true })).history;
    assertEquals(points, 32);
    const { history_points, history_bytes } = await store.status(MAIN);
    assertEquals([history_points, history_bytes], [points, bytes]);
    assert(bytes > 0);

    clock.advance(DAY_MS);
    const dry = await store.collectGarbage({ grace_ms: 0, keep: DEFAULT_LEVELS, dry_run: true });
    assert(dry.tombstoned > 0 && dry.backlog_bytes > 0 && dry.history[0]!.bytes === bytes - dry.backlog_bytes);
    await settle(bench, DEFAULT_LEVELS);
    const hourly = (await store.log(MAIN)).points.map(({ at }) => new Date(at!).getUTCHours());
    for (const hour of [1, 2, 3, 4, 5, 6, 7]) assert(hourly.includes(hour), `hour ${hour} of ${hourly}`);
    clock.advance(40 * DAY_MS);
    await settle(bench, DEFAULT_LEVELS);
    assertEquals((await txids()).length, 1, "the head's snapshot is all there is");
  }));

Deno.test("a branch may keep its points longer than the store does, or not at all", () =>
  withStore(async (bench) => {
    const { store } = bench;
    await flushes(bench, 8);
    assertEquals((await store.touch(MAIN, { keep: "2d" })).keep, "2d");
    assertEquals((await store.status(MAIN)).keep, "2d");
    await settle(bench, []);
    assertEquals((await store.log(MAIN)).points.length, 9);
    await store.touch(MAIN, { ttl_ms: 1000 });
    assertEquals((await store.status(MAIN)).keep, "2d", "another touch leaves that");
    assertEquals((await store.touch(MAIN, { keep: "none" })).keep, "none");
    await settle(bench, parseLevels("1d"));
    assertEquals((await store.log(MAIN)).points.length, 1);
    assertEquals((await store.touch(MAIN, { keep: null })).keep, undefined);
    await fails("usage", store.touch(MAIN, { keep: "often" }));
  }));

Deno.test("what is forked at a point outlives it, and one that is marked is taken back by a fork", () =>
  withStore(async (bench) => {
    const { store, backend } = bench;
    await flushes(bench, 6);
    await store.fork(at("app@main@txid:2"), "second");
    await store.collectGarbage({ grace_ms: 0, keep: [] });
    // Tombstoned and no more: a fork takes that back.
    await store.fork(at("app@main@txid:3"), "third");
    await settle(bench, []);
    for (const branch of ["second", "third"]) assert((await store.verify(at(`app@${branch}`))).ok);
    await fails("not_found", store.fork(at("app@main@txid:4"), "fourth"));
    for (const branch of ["second", "third"]) await store.destroy(at(`app@${branch}`), OUTRIGHT);
    await settle(bench, []);
    assertEquals((await dataKeys(backend)).length, 3, "the head's snapshot and two segments");
  }));

Deno.test("a point whose objects are gone, as an older program leaves it, fails no pass", () =>
  withStore(async (bench) => {
    const { store, backend } = bench;
    await flushes(bench, 6);
    const lost = (await dataKeys(backend)).find((key) => key.includes("segment-") && key.includes("3-"))!;
    await backend.delete(lost);
    const { history } = await store.collectGarbage({ grace_ms: 0, keep: DEFAULT_LEVELS });
    assertEquals(history[0]!.points, 4, "two before it, and the snapshot and a segment after it");
  }));

Deno.test("after a rollback the points that it left are kept as all others", () =>
  withStore(async (bench) => {
    const { store } = bench;
    await flushes(bench, 6);
    await store.rollback(at("app@main@txid:3"), { safety: false });
    await flushes(bench, 2);
    await settle(bench, DEFAULT_LEVELS);
    assertEquals((await store.log(MAIN)).points.map(({ txid }) => txid), [5, 4, 3, 7, 6, 5, 4, 3, 2, 1]);
  }));

import { assert, assertEquals, assertRejects } from "@std/assert";
import { withStore } from "../../tests/support/garbage.ts";
import { dataKeys, flush, keysUnder, neededKeys } from "../../tests/support/histories.ts";
import { at, OUTRIGHT } from "../../tests/support/stores.ts";
import { FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { TaskdError } from "../errors.ts";
import { baseKey, segmentKey } from "./keys.ts";
import { DEFAULT_GC_GRACE_MS } from "./gc.ts";
import { DOOMED_RETAIN_MS, MAX_NAMES, MAX_TOMBSTONES, readTombstones } from "./tombstones.ts";

const GRACE = { grace_ms: DEFAULT_GC_GRACE_MS };
const MAIN = at("app");

Deno.test("what a destroyed branch leaves is tombstoned, and deleted only after its grace period", async () => {
  await withStore(async ({ store, backend, clock, gc }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const kept = new Set(await dataKeys(backend));
    await store.destroy(at("app@side"), OUTRIGHT);
    await store.fork(MAIN, "other");
    assertEquals((await gc(GRACE.grace_ms)).tombstoned, 2);
    clock.advance(GRACE.grace_ms - 1);
    const early = await gc(GRACE.grace_ms);
    assertEquals([early.tombstoned, early.deleted, early.backlog], [0, 0, 2]);
    for (const key of kept) await backend.head(key);
    clock.advance(1);
    const late = await gc(GRACE.grace_ms);
    assertEquals([late.deleted, late.backlog, late.undeleted], [2, 0, 0]);
    assert(late.bytes_deleted > 0);
    assertEquals(new Set(await dataKeys(backend)), await neededKeys(store));
  });
});

Deno.test("a grace of 0 deletes at the next pass, not at the same one", async () => {
  await withStore(async ({ store, gc }) => {
    await store.fork(MAIN, "side", { materialize: true });
    await store.destroy(at("app@side"), OUTRIGHT);
    assertEquals((await gc()).deleted, 0);
    assertEquals((await gc()).deleted, 1);
  });
});

// conformance: 8.gc_grace
Deno.test("an object that is reached again loses its tombstone", async () => {
  await withStore(async ({ store, backend, gc }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const ref = await backend.get("refs/app/side.json");
    await store.destroy(at("app@side"), OUTRIGHT);
    assertEquals((await gc(1000)).backlog, 2);
    await backend.create("refs/app/side.json", ref.bytes);
    assertEquals((await gc(1000)).backlog, 0);
    assertEquals((await readTombstones(backend))?.tombstones, []);
    assertEquals((await gc(0)).deleted, 0);
  });
});

Deno.test("the list of tombstones is bounded: what has no room waits", async () => {
  await withStore(async ({ backend, gc }) => {
    for (let index = 0; index < MAX_TOMBSTONES + 10; index++) {
      await backend.put(baseKey(index.toString(16).padStart(32, "0")), new Uint8Array(1));
    }
    const first = await gc();
    assertEquals([first.tombstoned, first.kept], [MAX_TOMBSTONES, 10]);
    assertEquals((await gc()).deleted, MAX_TOMBSTONES);
  });
});

Deno.test("the names on the list are bounded, those of the doomed among them: what has no room waits", async () => {
  await withStore(async ({ store, backend, clock, gc }) => {
    await store.fork(MAIN, "side", { materialize: true });
    for (const branch of ["main", "side"]) {
      await flush(store, at(`app@${branch}`), 1);
      const { ref: { lineage, txid, epoch } } = await store.context.refs.read("app", branch);
      // Of a dead epoch, in a lineage that is reached: each has to be named.
      for (let last = txid + 1; last <= txid + MAX_NAMES / 2 + 5; last++) {
        await backend.put(segmentKey(lineage, epoch - 1, last - 1, last), new Uint8Array(1));
      }
    }
    const needed = await neededKeys(store);
    const listed = async () => (await readTombstones(backend))?.tombstones.flatMap(({ names }) => names ?? []).length;
    const first = await gc();
    assertEquals([first.tombstoned, first.kept, await listed()], [MAX_NAMES, 10, MAX_NAMES]);
    const second = await gc();
    assertEquals([second.deleted, second.tombstoned, second.kept, await listed()], [MAX_NAMES, 0, 10, MAX_NAMES]);
    clock.advance(DOOMED_RETAIN_MS);
    assertEquals((await gc()).kept, 10);
    assertEquals([(await gc()).tombstoned, await listed()], [10, 10]);
    assertEquals((await gc()).deleted, 10);
    assertEquals(new Set(await dataKeys(backend)), needed);
  });
});

Deno.test("a doomed object stays listed for a while after it is gone, then is forgotten", async () => {
  await withStore(async ({ store, backend, clock, gc }) => {
    await store.fork(MAIN, "side");
    await store.destroy(at("app@side"), OUTRIGHT);
    await gc();
    await gc();
    clock.advance(DOOMED_RETAIN_MS - 1);
    await gc();
    assertEquals((await readTombstones(backend))?.tombstones.length, 1);
    clock.advance(1);
    await gc();
    assertEquals((await readTombstones(backend))?.tombstones, []);
  });
});

Deno.test("a tombstone from a clock gone wrong does not wait for that time to come", async () => {
  await withStore(async ({ store, clock, gc }) => {
    await store.fork(MAIN, "side");
    await store.destroy(at("app@side"), OUTRIGHT);
    clock.jump(365 * 24 * 3600 * 1000);
    await gc(1000);
    clock.jump(-365 * 24 * 3600 * 1000);
    assertEquals((await gc(1000)).backlog, 1);
    clock.advance(1000);
    assertEquals((await gc(1000)).deleted, 1);
  });
});

Deno.test("an interrupted pass says so; what it had doomed is deleted by the next", async () => {
  await withStore(async (bench) => {
    const { store, backend, open, gc } = bench;
    for (const name of ["a", "b"]) await store.fork(MAIN, name, { materialize: true });
    for (const name of ["a", "b"]) await store.destroy(at(`app@${name}`), OUTRIGHT);
    await gc();
    const stop = new AbortController();
    const stopping = new FaultyBackend(backend, ({ method }) => {
      if (method === "replace") stop.abort();
      return undefined;
    });
    using other = await open(stopping);
    const cut = await other.collectGarbage({ grace_ms: 0, signal: stop.signal });
    assertEquals([cut.deleted, cut.undeleted], [0, 2]);
    await assertRejects(() => other.collectGarbage({ grace_ms: 0, signal: stop.signal }), TaskdError, "interrupted");
    assertEquals((await gc(GRACE.grace_ms)).deleted, 2);
  });
});

Deno.test("a fork of what is doomed is taken back with conflict, before and after the deletion", async () => {
  await withStore(async ({ store, backend, gc, open }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const ref = await backend.get("refs/app/side.json");
    await store.destroy(at("app@side"), OUTRIGHT);
    await gc();
    const unable = new FaultyBackend(
      backend,
      ({ method, key }) =>
        method === "delete" && key.startsWith("data/") ? { kind: "before", code: "unavailable" } : undefined,
    );
    using other = await open(unable);
    assert((await other.collectGarbage({ grace_ms: 0 })).undeleted > 0);
    for (const state of ["doomed", "deleted"]) {
      await backend.create("refs/app/side.json", ref.bytes);
      const error = await assertRejects(() => store.fork(at("app@side"), "child"), TaskdError);
      assertEquals(error.code, "conflict", state);
      await backend.delete("refs/app/side.json");
      assertEquals(await keysUnder(backend, "refs/"), ["refs/app/main.json"]);
      await gc();
    }
  });
});

Deno.test("a fork whose process died before reading the tombstones is removed unless it was used", async () => {
  await withStore(async ({ store, backend, gc }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const { ref } = await store.context.refs.read("app", "side");
    await store.destroy(at("app@side"), OUTRIGHT);
    await gc();
    await gc();
    const { base: _, ...rest } = ref;
    await store.context.refs.create("app", "orphan", { ...rest, epoch: 1 });
    const entry = {
      name: "one",
      txid: ref.txid,
      digest: ref.digest,
      kind: "segment",
      created_at: ref.touched_at,
    } as const;
    const lease = { holder: "cli:0123456789abcdef:01234567", expires_at: ref.touched_at };
    for (const use of [{ epoch: 2 }, { checkpoints: [entry] }, { lease }]) {
      await store.context.refs.create("app", "used", { ...rest, epoch: 1, ...use });
      assertEquals((await assertRejects(() => gc(), TaskdError)).code, "gc_failed");
      assertEquals((await keysUnder(backend, "refs/")).length, 3);
      await backend.delete("refs/app/used.json");
    }
    const seen = await store.collectGarbage({ grace_ms: 0, dry_run: true });
    assertEquals([seen.withdrawn, (await keysUnder(backend, "refs/")).length], [[{ db: "app", branch: "orphan" }], 2]);
    assertEquals((await gc()).withdrawn, [{ db: "app", branch: "orphan" }]);
    assertEquals(await keysUnder(backend, "refs/"), ["refs/app/main.json"]);
  });
});

Deno.test("what is being deleted is listed as doomed, however long ago that was decided", async () => {
  await withStore(async ({ store, backend, clock, gc, open }) => {
    await store.fork(MAIN, "side", { materialize: true });
    await store.destroy(at("app@side"), OUTRIGHT);
    await gc();
    const deletes: Promise<boolean>[] = [];
    const doomed = async () => (await readTombstones(backend))?.tombstones.some(({ doomed }) => doomed) ?? false;
    let failing = true;
    using other = await open(
      new FaultyBackend(backend, ({ method }) => {
        if (method !== "delete") return undefined;
        deletes.push(doomed());
        return failing ? { kind: "before", code: "unavailable" } : undefined;
      }),
    );
    const pass = () => other.collectGarbage({ grace_ms: 0 });
    const { deleted, undeleted } = await pass();
    assertEquals([deleted, undeleted], [0, 1]);
    clock.advance(DOOMED_RETAIN_MS + 1);
    failing = false;
    assertEquals((await pass()).deleted, 1);
    assertEquals(await Promise.all(deletes), [true, true]);
  });
});

Deno.test("an object that another pass deleted first counts neither as deleted nor as left", async () => {
  await withStore(async ({ store, backend, gc, open }) => {
    await store.fork(MAIN, "side", { materialize: true });
    await store.destroy(at("app@side"), OUTRIGHT);
    await gc();
    using other = await open(
      new FaultyBackend(
        backend,
        ({ method }) => method === "delete" ? { kind: "before", code: "not_found" } : undefined,
      ),
    );
    const { deleted, undeleted, bytes_deleted } = await other.collectGarbage({ grace_ms: 0 });
    assertEquals([deleted, undeleted, bytes_deleted], [0, 0, 0]);
  });
});

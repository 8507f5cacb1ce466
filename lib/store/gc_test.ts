import { assert, assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { dataKeys, flush, keysUnder, makeTinyDatabase, neededKeys } from "../../tests/support/histories.ts";
import { at, withDirectory } from "../../tests/support/stores.ts";
import { FaultyBackend } from "../backend/faulty.ts";
import { MemoryBackend } from "../backend/memory.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { baseKey, snapshotKey } from "./keys.ts";
import { Lease } from "./lease.ts";
import { DEFAULT_GC_GRACE_MS, type GcResult } from "./gc.ts";
import { Store } from "./store.ts";
import { DOOMED_RETAIN_MS, MAX_TOMBSTONES, readTombstones, TOMBSTONES_KEY } from "./tombstones.ts";

const GRACE = { grace_ms: DEFAULT_GC_GRACE_MS };
const MAIN = at("app");
const LINEAGE = "f".repeat(32);

interface Bench {
  store: Store;
  backend: MemoryBackend;
  clock: VirtualClock;
  gc: (grace_ms?: number) => Promise<GcResult>;
  open: (backend: MemoryBackend | FaultyBackend) => Promise<Store>;
}

/** A store in memory with the database `app`. */
async function withStore(work: (bench: Bench) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const backend = new MemoryBackend();
    const clock = new VirtualClock();
    const open = (through: MemoryBackend | FaultyBackend) =>
      Store.open({ backend: through, workspace: directory, clock });
    using store = await open(backend);
    makeTinyDatabase(`${directory}/tiny.db`);
    await store.create("app", { from: `${directory}/tiny.db` });
    const gc = (grace_ms = 0) => store.collectGarbage({ grace_ms });
    await work({ store, backend, clock, gc, open });
  });
}

/** Passes until nothing is left to do. */
async function settle({ gc }: Bench): Promise<void> {
  for (let pass = 0; pass < 5; pass++) {
    const { tombstoned, deleted } = await gc();
    if (tombstoned + deleted === 0) return;
  }
  throw new Error("garbage collection does not come to an end");
}

Deno.test("a store without garbage is left as it is, and has no list of tombstones", async () => {
  await withStore(async ({ gc, backend }) => {
    const before = await dataKeys(backend);
    const result = await gc();
    assertEquals({ ...result, marked: 0 }, {
      marked: 0,
      tombstoned: 0,
      deleted: 0,
      backlog: 0,
      kept: 0,
      bytes_deleted: 0,
      undeleted: 0,
      withdrawn: [],
    });
    assertEquals(result.marked, before.length);
    assertEquals(await dataKeys(backend), before);
    assertEquals(await readTombstones(backend), undefined);
  });
});

Deno.test("what a destroyed branch leaves is tombstoned, and deleted only after its grace period", async () => {
  await withStore(async ({ store, backend, clock, gc }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const kept = new Set(await dataKeys(backend));
    await store.destroy(at("app@side"));
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
    await store.destroy(at("app@side"));
    assertEquals((await gc()).deleted, 0);
    assertEquals((await gc()).deleted, 1);
  });
});

// conformance: 8.storage_reclaim
Deno.test("a destroyed parent's objects stay while a child resolves through them", async () => {
  await withStore(async (bench) => {
    const { store, backend } = bench;
    await store.fork(MAIN, "parent");
    await flush(store, at("app@parent"), 1);
    await store.fork(at("app@parent"), "child");
    await flush(store, at("app@parent"), 2);
    await store.destroy(at("app@parent"));
    await settle(bench);
    const left = await dataKeys(backend);
    assertEquals(new Set(left), await neededKeys(store));
    assertEquals(left.filter((key) => key.includes("segment")).length, 1);
    await store.destroy(at("app@child"));
    await store.destroy(at("app"), { force: true });
    await settle(bench);
    assertEquals(await dataKeys(backend), []);
  });
});

Deno.test("checkpoints keep the lineages in which they resolve, and rollback lets go of the rest", async () => {
  await withStore(async (bench) => {
    const { store, backend } = bench;
    await flush(store, MAIN, 1, { checkpoint: "one" });
    await flush(store, MAIN, 2);
    await flush(store, MAIN, 3, { checkpoint: "three" });
    await flush(store, MAIN, 4);
    await store.rollback(at("app@main@one"), { safety: false });
    await flush(store, MAIN, 5);
    await store.compact(MAIN);
    await settle(bench);
    assertEquals(new Set(await dataKeys(backend)), await neededKeys(store));
    for (const name of ["one", "three"]) await store.fork(at(`app@main@${name}`), name);
  });
});

Deno.test("what a branch may be writing stays, what a dead epoch left goes", async () => {
  await withStore(async (bench) => {
    const { store, backend, gc } = bench;
    await flush(store, MAIN, 1);
    await flush(store, MAIN, 2, { lose: true });
    assertEquals((await gc()).kept, 1, "above the head, in the current epoch");
    const lost = await dataKeys(backend);
    // A holder of the next epoch makes it a dead one's.
    await flush(store, MAIN, 3);
    await settle(bench);
    const left = await dataKeys(backend);
    assertEquals(lost.filter((key) => !left.includes(key)).length, 1);
    assertEquals(new Set(left), await neededKeys(store));
  });
});

// conformance: 8.gc_grace
Deno.test("an object that is reached again loses its tombstone", async () => {
  await withStore(async ({ store, backend, gc }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const ref = await backend.get("refs/app/side.json");
    await store.destroy(at("app@side"));
    assertEquals((await gc(1000)).backlog, 2);
    await backend.create("refs/app/side.json", ref.bytes);
    assertEquals((await gc(1000)).backlog, 0);
    assertEquals((await readTombstones(backend))?.tombstones, []);
    assertEquals((await gc(0)).deleted, 0);
  });
});

Deno.test("an image index stays and goes with its image", async () => {
  await withStore(async (bench) => {
    const { store, backend } = bench;
    const { ref } = await store.context.refs.read("app", "main");
    const [zst] = await keysUnder(backend, `data/${ref.lineage}/`);
    const raw = snapshotKey(LINEAGE, 1, 1, "raw");
    for (const key of [raw, raw.replace(".raw", ".idx")]) await backend.copy(zst!, key);
    await store.context.refs.create("app", "raw", { ...ref, lineage: LINEAGE });
    await settle(bench);
    assertEquals((await keysUnder(backend, `data/${LINEAGE}/`)).length, 2);
    await store.destroy(at("app@raw"));
    await settle(bench);
    assertEquals(await keysUnder(backend, `data/${LINEAGE}/`), []);
  });
});

Deno.test("objects with unknown names are left alone and counted", async () => {
  await withStore(async (bench) => {
    const { backend, gc } = bench;
    const unknown = ["data/readme.txt", `data/${LINEAGE}/notes`, `data/${LINEAGE}/0000000000000001/snapshot-1.zst`];
    for (const key of [...unknown, baseKey(LINEAGE)]) await backend.put(key, new Uint8Array(1));
    await settle(bench);
    assertEquals((await gc()).kept, 3);
    for (const key of unknown) await backend.head(key);
    await assertRejects(() => backend.head(baseKey(LINEAGE)));
  });
});

Deno.test("a dry run tells what a pass would do, and does nothing", async () => {
  await withStore(async ({ store, backend, gc }) => {
    await store.fork(MAIN, "side");
    await store.destroy(at("app@side"));
    const dry = (grace_ms: number) => store.collectGarbage({ grace_ms, dry_run: true });
    assertEquals((await dry(0)).tombstoned, 1);
    assertEquals(await readTombstones(backend), undefined);
    await gc();
    const before = await keysUnder(backend, "");
    assertEquals((await dry(0)).deleted, 1);
    assertEquals(await keysUnder(backend, ""), before);
  });
});

// conformance: 7.gc_incomplete
Deno.test("what cannot be understood fails the pass, and nothing is deleted", async (t) => {
  const damages: Record<string, (bench: Bench, lineage: string) => Promise<void>> = {
    "a ref that is not JSON": ({ backend }) => backend.put("refs/app/side.json", new Uint8Array([1, 2])),
    "a ref of a newer schema": ({ backend }) =>
      backend.put("refs/app/new.json", new TextEncoder().encode(`{"schema":2}`)),
    "a key among the refs that is none": ({ backend }) => backend.put("refs/app/side.json.bak", new Uint8Array(1)),
    "a base pointer that is not one": ({ backend }, lineage) => backend.put(baseKey(lineage), new Uint8Array(1)),
    "a base pointer that is gone": ({ backend }, lineage) => backend.delete(baseKey(lineage)),
    "an object that is gone": async ({ backend }) => {
      for (const key of await dataKeys(backend)) if (key.includes("segment-")) await backend.delete(key);
    },
    "tombstones that are not JSON": ({ backend }) => backend.put(TOMBSTONES_KEY, new Uint8Array([123])),
    "tombstones of another kind": ({ backend }) =>
      backend.put(TOMBSTONES_KEY, new TextEncoder().encode(`{"schema":1,"nonce":"","tombstones":[{"lineage":"x"}]}`)),
  };
  for (const [name, damage] of Object.entries(damages)) {
    await t.step(name, async () => {
      await withStore(async (bench) => {
        const { store, backend, gc } = bench;
        await store.fork(MAIN, "side");
        await flush(store, at("app@side"), 1);
        await store.fork(MAIN, "gone", { materialize: true });
        await store.destroy(at("app@gone"));
        await gc();
        await damage(bench, (await store.context.refs.read("app", "side")).ref.lineage);
        const before = await dataKeys(backend);
        const error = await assertRejects(() => gc(), TaskdError);
        assertEquals(error.code, "gc_failed");
        assert(error.cause !== undefined);
        assertEquals(await dataKeys(backend), before);
      });
    });
  }
});

Deno.test("a fault at any call of a pass never costs a branch an object, and the next passes finish", async () => {
  for (const kind of ["before", "after"] as const) {
    for (let count = 1;; count++) {
      let hit = false;
      await withStore(async (bench) => {
        const { store, backend, open } = bench;
        await store.fork(MAIN, "side");
        await store.fork(MAIN, "gone", { materialize: true });
        await flush(store, at("app@side"), 1);
        await store.destroy(at("app@gone"));
        await bench.gc();
        await store.fork(MAIN, "late");
        await store.destroy(at("app@late"));
        let calls = 0;
        using faulty = await open(
          new FaultyBackend(backend, ({ method, key }) => {
            if (key === "bstore.json" || ++calls !== count) return undefined;
            hit = true;
            return { kind, code: method === "create" || method === "replace" ? "ambiguous" : "unavailable" };
          }),
        );
        await faulty.collectGarbage({ grace_ms: 0 }).catch((error) => {
          if (!hasCode(error, "gc_failed", "conflict")) throw error;
        });
        const left = new Set(await dataKeys(backend));
        const needed = await neededKeys(store);
        for (const key of needed) assert(left.has(key), `call ${count}: ${key} is lost`);
        await settle(bench);
        assertEquals(new Set(await dataKeys(backend)), needed);
      });
      if (!hit) break;
    }
  }
});

Deno.test("passes that run at the same time do not harm each other", async () => {
  await withStore(async (bench) => {
    const { store, backend, gc } = bench;
    for (const name of ["a", "b", "c"]) await store.fork(MAIN, name, { materialize: true });
    await flush(store, at("app@a"), 1);
    await store.destroy(at("app@b"));
    for (let round = 0; round < 3; round++) {
      await Promise.all([gc(), gc(), gc()].map((pass) => pass.catch((error) => assert(hasCode(error, "conflict")))));
    }
    await settle(bench);
    assertEquals(new Set(await dataKeys(backend)), await neededKeys(store));
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

Deno.test("a doomed object stays listed for a while after it is gone, then is forgotten", async () => {
  await withStore(async ({ store, backend, clock, gc }) => {
    await store.fork(MAIN, "side");
    await store.destroy(at("app@side"));
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
    await store.destroy(at("app@side"));
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
    for (const name of ["a", "b"]) await store.destroy(at(`app@${name}`));
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

Deno.test("a fork of what is tombstoned is taken back with conflict, before and after the deletion", async () => {
  await withStore(async ({ store, backend, gc }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const ref = await backend.get("refs/app/side.json");
    await store.destroy(at("app@side"));
    await gc();
    for (const state of ["tombstoned", "deleted"]) {
      await backend.create("refs/app/side.json", ref.bytes);
      const error = await assertRejects(() => store.fork(at("app@side"), "child"), TaskdError);
      assertEquals(error.code, "conflict", state);
      await backend.delete("refs/app/side.json");
      assertEquals(await keysUnder(backend, "refs/"), ["refs/app/main.json"]);
      await gc();
    }
  });
});

Deno.test("a fork whose process died before it looked at the tombstones is removed, a used branch never", async () => {
  await withStore(async ({ store, backend, gc }) => {
    await store.fork(MAIN, "side");
    await flush(store, at("app@side"), 1);
    const { ref } = await store.context.refs.read("app", "side");
    await store.destroy(at("app@side"));
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
    const told = await store.collectGarbage({ grace_ms: 0, dry_run: true });
    assertEquals([told.withdrawn, (await keysUnder(backend, "refs/")).length], [[{ db: "app", branch: "orphan" }], 2]);
    assertEquals((await gc()).withdrawn, [{ db: "app", branch: "orphan" }]);
    assertEquals(await keysUnder(backend, "refs/"), ["refs/app/main.json"]);
  });
});

Deno.test("a lineage that a lease's holder announced is kept until the lease is another's", async () => {
  await withStore(async (bench) => {
    const { store, backend } = bench;
    await flush(store, MAIN, 1, { checkpoint: "one" });
    const { ref } = await store.context.refs.read("app", "main");
    const lease = await Lease.acquire(store.context, MAIN);
    const base = { lineage: ref.lineage, txid: ref.txid };
    await lease.write((ref) => ({ ...ref, pending: { holder: lease.holder, lineage: LINEAGE, base } }));
    await backend.put(baseKey(LINEAGE), new TextEncoder().encode(JSON.stringify(base)));
    await settle(bench);
    await backend.head(baseKey(LINEAGE));
    await lease.release();
    await settle(bench);
    await assertRejects(() => backend.head(baseKey(LINEAGE)));
  });
});

Deno.test("what is being deleted is listed as doomed, however long ago that was decided", async () => {
  await withStore(async ({ store, backend, clock, gc, open }) => {
    await store.fork(MAIN, "side", { materialize: true });
    await store.destroy(at("app@side"));
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

Deno.test("an object that somebody else has deleted first is neither counted as deleted nor as left", async () => {
  await withStore(async ({ store, backend, gc, open }) => {
    await store.fork(MAIN, "side", { materialize: true });
    await store.destroy(at("app@side"));
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

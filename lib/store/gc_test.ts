import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Bench, settle, withStore } from "../../tests/support/garbage.ts";
import { dataKeys, flush, keysUnder, neededKeys } from "../../tests/support/histories.ts";
import { at, OUTRIGHT } from "../../tests/support/stores.ts";
import { FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { baseKey, snapshotKey } from "./keys.ts";
import { Lease } from "./lease.ts";
import { readTombstones, TOMBSTONES_KEY } from "./tombstones.ts";

const MAIN = at("app");
const LINEAGE = "f".repeat(32);

Deno.test("a store without garbage is left as it is, and has no list of tombstones", async () => {
  await withStore(async ({ gc, backend }) => {
    const before = await dataKeys(backend);
    const result = await gc();
    assertEquals({ ...result, marked: 0 }, {
      marked: 0,
      tombstoned: 0,
      deleted: 0,
      backlog: 0,
      backlog_bytes: 0,
      kept: 0,
      bytes_deleted: 0,
      undeleted: 0,
      withdrawn: [],
      history: [],
    });
    assertEquals(result.marked, before.length);
    assertEquals(await dataKeys(backend), before);
    assertEquals(await readTombstones(backend), undefined);
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
    await store.destroy(at("app@parent"), OUTRIGHT);
    await settle(bench);
    const left = await dataKeys(backend);
    assertEquals(new Set(left), await neededKeys(store));
    assertEquals(left.filter((key) => key.includes("segment")).length, 1);
    await store.destroy(at("app@child"), OUTRIGHT);
    await store.destroy(at("app"), { ...OUTRIGHT, force: true });
    await settle(bench);
    assertEquals(await dataKeys(backend), []);
  });
});

Deno.test("checkpoints keep the lineages in which they resolve, and rollback releases the rest", async () => {
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
    await store.destroy(at("app@raw"), OUTRIGHT);
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

Deno.test("a dry run reports what a pass would do, and does nothing", async () => {
  await withStore(async ({ store, backend, gc }) => {
    await store.fork(MAIN, "side");
    await store.destroy(at("app@side"), OUTRIGHT);
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
    "a key among the refs that is not a ref's": ({ backend }) =>
      backend.put("refs/app/side.json.bak", new Uint8Array(1)),
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
        await store.destroy(at("app@gone"), OUTRIGHT);
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
        await store.destroy(at("app@gone"), OUTRIGHT);
        await bench.gc();
        await store.fork(MAIN, "late");
        await store.destroy(at("app@late"), OUTRIGHT);
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

Deno.test("concurrent passes delete nothing that is reached", async () => {
  await withStore(async (bench) => {
    const { store, backend, gc } = bench;
    for (const name of ["a", "b", "c"]) await store.fork(MAIN, name, { materialize: true });
    await flush(store, at("app@a"), 1);
    await store.destroy(at("app@b"), OUTRIGHT);
    for (let round = 0; round < 3; round++) {
      await Promise.all([gc(), gc(), gc()].map((pass) => pass.catch((error) => assert(hasCode(error, "conflict")))));
    }
    await settle(bench);
    assertEquals(new Set(await dataKeys(backend)), await neededKeys(store));
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

import { assert, assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { dataKeys, flush, keysUnder, makeTinyDatabase } from "../../tests/support/histories.ts";
import { at, fails, OUTRIGHT, withDirectory } from "../../tests/support/stores.ts";
import { type BackendCall, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { systemRandom } from "../clock.ts";
import { encodeBase } from "./chain.ts";
import type { GcResult } from "./gc.ts";
import { baseKey } from "./keys.ts";
import { Lease } from "./lease.ts";
import { Store } from "./store.ts";
import { readTombstones, shortName, TOMBSTONES_KEY, writeTombstones } from "./tombstones.ts";

const MAIN = at("app");
const SIDE = at("app@side");
const SIDE_KEY = "refs/app/side.json";
const LINEAGE = "f".repeat(32);
const AT = "2026-01-01T00:00:00.000Z";

/** A pass that stands still before one of its calls. */
interface HeldPass {
  result: Promise<GcResult>;
  /** Resolves once the pass has come there. */
  there: Promise<void>;
  goOn(): void;
}

interface Bench {
  store: Store;
  backend: MemoryBackend;
  /** A pass without a grace. */
  gc: () => Promise<GcResult>;
  /** The same by another process, which stands still before the first call that `where` picks. */
  held: (where: (call: BackendCall) => boolean) => Promise<HeldPass>;
}

/** A store with `app@main` and, materialized, `app@side`. */
async function withStore(work: (bench: Bench) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const backend = new MemoryBackend();
    using store = await Store.open({ backend, workspace: directory, clock: new VirtualClock() });
    makeTinyDatabase(`${directory}/tiny.db`);
    await store.create("app", { from: `${directory}/tiny.db` });
    await store.fork(MAIN, "side", { materialize: true });
    const others: Store[] = [];
    const held = async (where: (call: BackendCall) => boolean) => {
      const clock = new VirtualClock();
      let state: "opening" | "running" | "held" = "opening";
      const slow = new FaultyBackend(backend, (call) => {
        if (state !== "running" || !where(call)) return undefined;
        state = "held";
        return { kind: "delay", delay_ms: 1 };
      }, { clock });
      const other = await Store.open({ backend: slow, workspace: directory, clock: new VirtualClock() });
      others.push(other);
      state = "running";
      const result = other.collectGarbage({ grace_ms: 0 });
      return { result, there: clock.sleeper(1), goOn: () => clock.advance(1) };
    };
    try {
      await work({ store, backend, gc: () => store.collectGarbage({ grace_ms: 0 }), held });
    } finally {
      for (const other of others) other.close();
    }
  });
}

/** Destroys `app@side` and returns what brings it back as it was. */
async function destroySide({ store, backend }: Bench): Promise<() => Promise<unknown>> {
  const { bytes } = await backend.get(SIDE_KEY);
  await store.destroy(SIDE, OUTRIGHT);
  return () => backend.create(SIDE_KEY, bytes);
}

const listed = async (backend: MemoryBackend) => (await readTombstones(backend))?.tombstones ?? [];

Deno.test("a pass whose list was changed meanwhile restarts and deletes nothing reached by then", async () => {
  await withStore(async (bench) => {
    const { store, backend, gc, held } = bench;
    const bringBack = await destroySide(bench);
    await gc();
    const pass = await held(({ method, key }) => method === "list" && key === "data/");
    await pass.there;
    // Another pass found it reached again, and took the tombstone back.
    await bringBack();
    await writeTombstones({ backend, random: systemRandom }, [], (await readTombstones(backend))!.etag);
    pass.goOn();
    assertEquals((await pass.result).deleted, 0);
    assert((await store.verify(SIDE)).ok);
  });
});

Deno.test("a pass that misses what another one has deleted since its look at the refs begins again", async () => {
  await withStore(async (bench) => {
    const { store, gc, held } = bench;
    await store.fork(MAIN, "child");
    const { lineage } = (await store.context.refs.read("app", "child")).ref;
    const pass = await held(({ method, key }) => method === "get" && key === baseKey(lineage));
    await pass.there;
    await store.destroy(at("app@child"), OUTRIGHT);
    await gc();
    await gc();
    pass.goOn();
    assertEquals((await pass.result).deleted, 0);
  });
});

Deno.test("objects that a new branch relies on are not doomed by an earlier pass", async () => {
  await withStore(async (bench) => {
    const { store, backend, held } = bench;
    const { lineage } = (await store.context.refs.read("app", "side")).ref;
    const bringBack = await destroySide(bench);
    const pass = await held(({ method, key }) => method === "get" && key === TOMBSTONES_KEY);
    await pass.there;
    // Its maker writes the ref, and finds nothing listed; another pass, which has not seen it, then lists it.
    await bringBack();
    assertEquals(await readTombstones(backend), undefined);
    await writeTombstones({ backend, random: systemRandom }, [{ lineage, at: AT }], undefined);
    pass.goOn();
    assertEquals((await pass.result).deleted, 0);
    assert((await store.verify(SIDE)).ok);
  });
});

Deno.test("doom is not taken back for a branch that comes up after it was decided", async () => {
  await withStore(async (bench) => {
    const { store, backend, gc, held } = bench;
    const { lineage } = (await store.context.refs.read("app", "side")).ref;
    const bringBack = await destroySide(bench);
    await gc();
    // Something for the pass to tombstone, so that it reads the refs once more.
    await store.fork(MAIN, "second", { materialize: true });
    await store.destroy(at("app@second"), OUTRIGHT);
    const pass = await held(({ method }) => method === "replace");
    await pass.there;
    await bringBack();
    pass.goOn();
    assertEquals((await pass.result).deleted, 1);
    const known = (await listed(backend)).find((entry) => entry.lineage === lineage);
    assert(known?.doomed !== undefined);
    // Its maker finds that out.
    await fails(["conflict", "chain_gap"], store.fork(SIDE, "child"));
  });
});

Deno.test("what is made during a pass is not left with a tombstone", async (t) => {
  await t.step("a branch", () =>
    withStore(async ({ store, backend, held }) => {
      const pass = await held(({ method, key }) => method === "list" && key === "data/");
      await pass.there;
      await store.fork(MAIN, "child");
      pass.goOn();
      const { tombstoned, backlog } = await pass.result;
      assertEquals([tombstoned, backlog, await listed(backend)], [0, 0, []]);
    }));
  await t.step("a lineage that a lease's holder announced", () =>
    withStore(async ({ store, backend, held }) => {
      const pass = await held(({ method, key }) => method === "list" && key === "data/");
      await pass.there;
      const lease = await Lease.acquire(store.context, MAIN);
      const base = { lineage: lease.ref.lineage, txid: lease.ref.txid };
      await lease.write((ref) => ({ ...ref, pending: { holder: lease.holder, lineage: LINEAGE, base } }));
      await backend.put(baseKey(LINEAGE), encodeBase(base));
      pass.goOn();
      await pass.result;
      assertEquals(await listed(backend), []);
      await lease.release();
    }));
});

Deno.test("an unfinished branch that comes into use stops the pass that would remove it", async () => {
  await withStore(async (bench) => {
    const { store, backend, gc, held } = bench;
    const bringBack = await destroySide(bench);
    await gc();
    await gc();
    await bringBack();
    const pass = await held(({ method, key }) => method === "delete" && key === SIDE_KEY);
    await pass.there;
    await store.touch(SIDE);
    pass.goOn();
    await fails("gc_failed", pass.result);
    assertEquals(await keysUnder(backend, "refs/"), ["refs/app/main.json", SIDE_KEY]);
  });
});

Deno.test("an unfinished branch is removed also while what it needs is doomed and still there", async (t) => {
  for (const own of [true, false]) {
    await t.step(own ? "an object" : "a base pointer", () =>
      withStore(async (bench) => {
        const { store, backend, gc } = bench;
        await store.destroy(SIDE, OUTRIGHT);
        await store.fork(MAIN, "side");
        if (own) await flush(store, SIDE, 1);
        const { ref } = await store.context.refs.read("app", "side");
        await store.destroy(SIDE, OUTRIGHT);
        const [key] = (await dataKeys(backend)).filter((key) => key.includes(ref.lineage) && own !== /base/.test(key));
        const doomed = { lineage: ref.lineage, names: [shortName(key!)], at: AT, doomed: AT };
        await writeTombstones({ backend, random: systemRandom }, [doomed], undefined);
        await store.context.refs.create("app", "orphan", { ...ref, epoch: 1 });
        assertEquals((await gc()).withdrawn, [{ db: "app", branch: "orphan" }]);
        assertEquals((await dataKeys(backend)).includes(key!), false);
      }));
  }
});

Deno.test("an announced lineage is not kept by the lease of another", async () => {
  await withStore(async ({ store, backend, gc }) => {
    const lease = await Lease.acquire(store.context, MAIN);
    const base = { lineage: lease.ref.lineage, txid: lease.ref.txid };
    await lease.write((ref) => ({ ...ref, pending: { holder: lease.holder, lineage: LINEAGE, base } }));
    await backend.put(baseKey(LINEAGE), encodeBase(base));
    await lease.release();
    const next = await Lease.acquire(store.context, MAIN);
    for (let pass = 0; pass < 2; pass++) await gc();
    await assertRejects(() => backend.head(baseKey(LINEAGE)));
    await next.release();
  });
});

Deno.test("of a lineage that is reached again only what is garbage in it goes", async () => {
  await withStore(async (bench) => {
    const { store, backend, gc } = bench;
    await flush(store, SIDE, 1);
    await flush(store, SIDE, 2, { lose: true });
    await flush(store, SIDE, 3);
    const bringBack = await destroySide(bench);
    await gc();
    assertEquals((await listed(backend)).map(({ names }) => names), [undefined]);
    await bringBack();
    await gc();
    assertEquals((await listed(backend)).map(({ names }) => names?.length), [1]);
    await store.fork(SIDE, "child");
    assertEquals((await gc()).deleted, 1);
    assert((await store.verify(SIDE)).ok);
  });
});

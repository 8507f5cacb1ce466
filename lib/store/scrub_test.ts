import { assert, assertEquals } from "@std/assert";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { at, fails, openAt, stored, withApp } from "../../tests/support/stores.ts";
import { removeEntry, sealEntry } from "./chain_cache.ts";
import type { Store } from "./store.ts";

const NO_XFS = await whyNotMountable("xfs");
const MONTH_MS = 30 * 24 * 3_600_000;
const every = { scrub_every_ms: MONTH_MS };

async function objectsOf(store: Store): Promise<string[]> {
  const found = await Array.fromAsync(store.context.backend.list("data/"));
  return found.map(({ key }) => key).filter((key) => !key.endsWith(".json")).sort();
}

Deno.test("scrub() reads everything within its interval, finds damage, and goes on after a restart", () =>
  withApp([1, 2, 3], async ({ store, directory, clock, faults }) => {
    const { backend } = store.context;
    const keys = await objectsOf(store);
    const { bytes } = await backend.get(keys[1]!);
    await backend.put(keys[1]!, bytes.with(50, bytes[50]! ^ 1));
    const read: string[] = [];
    faults.plan = ({ method, key }) => {
      if (method === "getStream") read.push(key);
      return undefined;
    };
    const first = await store.scrub(every);
    // Damage is read twice before it counts.
    assertEquals(read, [keys[0]!, keys[1]!, keys[1]!, ...keys.slice(2)]);
    assertEquals([first.objects, first.found.map(({ where }) => where), first.finished], [
      keys.length,
      [keys[1]!],
      true,
    ]);
    assertEquals((await store.condition()).damaged, 1);
    assertEquals((await store.scrub(every)).objects, 0);
    // The next pass begins when half of the interval is over: so all is read again within the whole of it.
    clock.advance(MONTH_MS / 2);
    await backend.put(keys[1]!, bytes);
    using again = await openAt(directory, { backend, clock });
    const second = await again.scrub(every);
    assertEquals([second.objects, second.damaged, second.finished], [keys.length, 0, true]);
    assertEquals(await again.condition(), {
      damaged: 0,
      set_aside: 0,
      scrubbed_at: new Date(clock.now()).toISOString(),
    });
  }));

Deno.test("scrub() reads no more at a time than is due, and forgets damage that is gone", () =>
  withApp([], async ({ store, edit, clock, directory }) => {
    for (let i = 0; i < 24; i++) {
      await store.fork(at("app"), `f${i}`);
      await edit(`f${i}`, `${crypto.getRandomValues(new Uint8Array(1 << 16)).toHex()}`.repeat(4));
      await store.checkpoint(at(`app@f${i}`), "c");
    }
    const keys = await objectsOf(store);
    // A fork's own: what main holds every fork needs.
    const { lineage } = (await store.context.refs.read("app", "main")).ref;
    const broken = keys.findLast((key) => !key.includes(lineage))!;
    const bytes = await store.context.backend.get(broken);
    await store.context.backend.put(broken, bytes.bytes.with(60, bytes.bytes[60]! ^ 1));
    let slices = 0;
    let objects = 0;
    for (let finished = false; !finished; slices++) {
      clock.advance(60_000);
      using part = await openAt(directory, { backend: store.context.backend, clock });
      const slice = await part.scrub(every);
      assert(slice.bytes < 2 << 20, String(slice.bytes));
      objects += slice.objects;
      finished = slice.finished;
    }
    assertEquals(objects, keys.length);
    assert(slices >= 2, String(slices));
    assertEquals((await store.condition()).damaged, 1);
    const pass = async () => {
      clock.advance(MONTH_MS);
      while (!(await store.scrub(every)).finished) clock.advance(60_000);
      return (await store.condition()).damaged;
    };
    // One that is gone is missed by the head and the checkpoint that need it.
    await store.context.backend.delete(broken);
    assertEquals(await pass(), 2);
    await store.context.backend.put(broken, bytes.bytes);
    assertEquals(await pass(), 0);
  }));

Deno.test("what scrub() has found is not forked, and a checkpoint of edits makes the head whole", () =>
  withApp([1, 2, 3], async ({ store, edit }) => {
    const { backend } = store.context;
    await store.fork(at("app@main@c1"), "early");
    const last = (await objectsOf(store)).at(-1);
    const { bytes } = await backend.get(last!);
    await backend.put(last!, bytes.with(50, bytes[50]! ^ 1));
    await store.fork(at("app"), "unaware");
    assertEquals((await store.scrub(every)).found.map(({ where }) => where), [last!]);
    const error = await fails("corrupt", store.fork(at("app"), "try"));
    assert(error.message.includes(last!) && error.hint === "Run: taskd repair app@main", error.message);
    await fails("corrupt", store.checkpoint(at("app"), "same"));
    await store.fork(at("app@early"), "sound");
    await edit("main", 4);
    assertEquals((await store.checkpoint(at("app"), "c4")).kind, "snapshot");
    assertEquals(await stored(store, "app"), "1,2,3,4");
    await store.fork(at("app"), "try");
    // What is whole again is known at once.
    await fails("corrupt", store.fork(at("app@main@c3"), "third"));
    await backend.put(last!, bytes);
    await store.fork(at("app@main@c3"), "third");
  }));

Deno.test("what verify has found is not forked, until all is found to be sound", async (t) => {
  for (const whole of [true, false]) {
    await t.step(whole ? "of the store" : "of a branch", () =>
      withApp([1, 2, 3], async ({ store }) => {
        const { backend } = store.context;
        await store.fork(at("app@main@c1"), "early");
        const last = (await objectsOf(store)).at(-1)!;
        const { bytes } = await backend.get(last);
        await backend.put(last, bytes.with(50, bytes[50]! ^ 1));
        const { findings } = whole ? await store.verifyAll({ fast: true }) : await store.verify(at("app"));
        assertEquals(findings.map(({ where }) => where), [last]);
        await fails("corrupt", store.fork(at("app"), "try"));
        assertEquals((await store.condition()).damaged, 1);
        // Of a sound branch nothing follows for another.
        assertEquals((await store.verify(at("app@early"))).findings, []);
        assertEquals((await store.condition()).damaged, 1);
        await backend.put(last, bytes);
        assertEquals((await store.verifyAll({ fast: true })).findings, []);
        assertEquals((await store.condition()).damaged, 0);
        await store.fork(at("app"), "try");
        // What scrubbing knows of its own work stays.
        assertEquals((await store.scrub(every)).finished, true);
      }));
  }
});

Deno.test("scrub() passes over a cached copy that is evicted while it reads another", () =>
  withApp([1], async ({ store, clock }) => {
    const { workspace, cache } = store.context;
    const { path } = await store.checkout(at("app@main@c1"));
    const { chain_id, digest } = workspace.sidecar(path)!;
    // A second one, as there is where blocks can be cloned.
    const twin = workspace.byChain("app", chain_id);
    const temporary = workspace.beside(twin);
    Deno.copyFileSync(path, temporary);
    sealEntry(workspace, temporary, twin, { chain_id, digest: digest!, now_ms: clock.now() });
    const look = cache.look.bind(cache);
    let uses = 0;
    cache.look = (...args) => {
      // The head has the twin alone, the checkpoint both.
      if (++uses === 2) removeEntry(path);
      return look(...args);
    };
    const { finished, found } = await store.scrub(every);
    assertEquals([uses, finished, found], [2, true, []]);
  }));

Deno.test("scrub() takes no cached copy that is evicted while it is looked at for a damaged one", async (t) => {
  for (const moment of ["looked for", "its pages", "its file"] as const) {
    await t.step(moment, () =>
      withApp([1], async ({ store, faults }) => {
        const { cache } = store.context;
        const { path } = await store.checkout(at("app@main@c1"));
        let evicted = 0;
        const evict = () => {
          evicted++;
          removeEntry(path);
        };
        const look = cache.look.bind(cache);
        cache.look = async (...args) => {
          if (moment === "looked for") evict();
          // Asked for the checksums that its pages are compared with, or while they are.
          if (moment === "its pages") {
            faults.plan = () => {
              evict();
              return undefined;
            };
          }
          if (moment === "its file") queueMicrotask(evict);
          return await look(...args);
        };
        const { finished, found } = await store.scrub(every);
        assert(evicted > 0);
        assertEquals([finished, found, (await store.condition()).set_aside], [true, [], 0]);
      }));
  }
});

Deno.test({
  name: `scrub() moves damaged copies out of the cache, and the next use makes them again${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, (parent) =>
      withApp([1, 2], async ({ store, edit }) => {
        await edit("main");
        const { path } = await store.checkout(at("app@main@c1"));
        const { mtime } = Deno.statSync(path);
        Deno.chmodSync(path, 0o600);
        Deno.writeFileSync(path, Deno.readFileSync(path).fill(7, 3000, 3001));
        Deno.utimeSync(path, mtime!, mtime!);
        const { found, finished } = await store.scrub(every);
        assertEquals([found.map(({ where }) => where), finished], [[path], true]);
        assertEquals((await store.condition()).set_aside, 1);
        assertEquals((await store.checkout(at("app@main@c1"))).source, "materialized");
        assertEquals((await store.verifyAll()).findings, []);
      }, { parent })),
});

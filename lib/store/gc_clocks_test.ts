/**
 * Garbage collection by hosts whose clocks have nothing to do with each other.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { keysUnder, makeTinyDatabase } from "../../tests/support/histories.ts";
import { at, OUTRIGHT, withDirectory } from "../../tests/support/stores.ts";
import { type BackendCall, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { BackendError } from "../backend/backend.ts";
import { TaskdError } from "../errors.ts";
import { Lease } from "./lease.ts";
import { Store } from "./store.ts";
import { DOOMED_RETAIN_MS, readTombstones, TOMBSTONES_KEY } from "./tombstones.ts";

const SIDE = at("app@side");
const CHILD_KEY = "refs/app/child.json";

interface Host {
  store: Store;
  clock: VirtualClock;
  gc(): Promise<{ deleted: number }>;
}

/** A process that stands still before the calls that `where` picks, its clocks too; with `dies` they are its last. */
interface Stalled extends Host {
  there: Promise<void>;
  goOn(): void;
}

interface Bench {
  backend: MemoryBackend;
  /** A host whose clock is so far ahead of the others'. */
  host(ahead_ms?: number): Promise<Host>;
  stalled(where: (call: BackendCall) => boolean, options?: { dies: boolean }): Promise<Stalled>;
}

/** A bucket with `app@main` and `app@side`, which share nothing. */
async function withBucket(work: (bench: Bench) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const backend = new MemoryBackend();
    const stores: Store[] = [];
    const open = async (through: MemoryBackend | FaultyBackend, ahead_ms: number): Promise<Host> => {
      const clock = new VirtualClock();
      clock.jump(ahead_ms);
      const store = await Store.open({ backend: through, workspace: `${directory}/${stores.length}`, clock });
      stores.push(store);
      return { store, clock, gc: () => store.collectGarbage({ grace_ms: 0 }) };
    };
    try {
      const { store } = await open(backend, 0);
      makeTinyDatabase(`${directory}/tiny.db`);
      await store.create("app", { from: `${directory}/tiny.db` });
      await store.fork(at("app"), "side", { materialize: true });
      await work({
        backend,
        host: (ahead_ms = 0) => open(backend, ahead_ms),
        stalled: async (where, { dies } = { dies: false }) => {
          const pause = new VirtualClock();
          let gone_on = false;
          const slow = new FaultyBackend(backend, (call) => {
            if (gone_on) return dies ? { kind: "before", code: "unavailable" } : undefined;
            return where(call) ? { kind: "delay", delay_ms: 1 } : undefined;
          }, { clock: pause });
          const goOn = () => {
            gone_on = true;
            pause.advance(1);
          };
          return { ...await open(slow, 0), there: pause.sleeper(1), goOn };
        },
      });
    } finally {
      for (const store of stores) store.close();
    }
  });
}

const writesChild = ({ method, key }: BackendCall) => method === "create" && key === CHILD_KEY;

for (const ahead_ms of [0, 6 * 60_000, -6 * 60_000]) {
  Deno.test(`a fork whose source is collected meanwhile is refused; ${ahead_ms / 1000} s apart`, async () => {
    await withBucket(async ({ backend, host, stalled }) => {
      const maker = await stalled(writesChild);
      const forking = maker.store.fork(SIDE, "child");
      await maker.there;
      const [one, two] = [await host(), await host(ahead_ms)];
      await one.store.destroy(SIDE, OUTRIGHT);
      await one.gc();
      assert((await one.gc()).deleted > 0);
      // The other host takes what it has just learned for long ago; at the latest by now anyone does.
      await two.gc();
      two.clock.advance(DOOMED_RETAIN_MS);
      await two.gc();
      assertEquals((await readTombstones(backend))?.tombstones, []);
      maker.goOn();
      assertEquals((await assertRejects(() => forking, TaskdError)).code, "conflict");
      assertEquals(await keysUnder(backend, "refs/"), ["refs/app/main.json"]);
    });
  });
}

Deno.test("a fork of what is only tombstoned takes the tombstone back", async () => {
  await withBucket(async ({ backend, host, stalled }) => {
    const maker = await stalled(writesChild);
    const forking = maker.store.fork(SIDE, "child");
    await maker.there;
    const one = await host();
    await one.store.destroy(SIDE, OUTRIGHT);
    await one.gc();
    maker.goOn();
    await forking;
    assertEquals((await readTombstones(backend))?.tombstones.flatMap(({ doomed }) => doomed ?? []), []);
    assertEquals((await one.gc()).deleted + (await one.gc()).deleted, 0);
    assert((await one.store.verify(at("app@child"))).ok);
  });
});

Deno.test("an unconfirmed branch is refused once its base is doomed", async () => {
  await withBucket(async ({ backend, host, stalled }) => {
    const maker = await stalled(writesChild, { dies: true });
    const forking = maker.store.fork(SIDE, "child");
    await maker.there;
    const one = await host();
    await one.store.destroy(SIDE, OUTRIGHT);
    await one.gc();
    // A pass that does not see the branch, and stands still before it deletes what it decided to.
    const collector = await stalled(({ method, key }) => method === "delete" && key.startsWith("data/"));
    const pass = collector.gc();
    await collector.there;
    maker.goOn();
    await assertRejects(() => forking, TaskdError);
    assertEquals((await keysUnder(backend, "refs/")).includes(CHILD_KEY), true);
    const user = await host();
    const error = await assertRejects(() => Lease.acquire(user.store.context, at("app@child")), TaskdError);
    assertEquals(error.code, "conflict");
    collector.goOn();
    await pass;
    await one.gc();
    assertEquals(await keysUnder(backend, "refs/"), ["refs/app/main.json"]);
  });
});

Deno.test("a fork that fails leaves its branch to a process that uses it already", async () => {
  await withBucket(async ({ backend, host }) => {
    const [maker, user] = [await host(), await host()];
    const get = backend.get.bind(backend);
    let used: Lease | undefined;
    maker.store.context.backend.get = async (key, options) => {
      if (key !== TOMBSTONES_KEY || !(await keysUnder(backend, "refs/")).includes(CHILD_KEY)) {
        return await get(key, options);
      }
      backend.get = get;
      used ??= await Lease.acquire(user.store.context, at("app@child"));
      throw new BackendError("unavailable", key, "no answer");
    };
    assertEquals((await assertRejects(() => maker.store.fork(SIDE, "child"), TaskdError)).code, "unavailable");
    await used!.write((ref) => ({ ...ref, protected: true }));
  });
});

import { assert, assertEquals } from "@std/assert";
import { type Bench, withStore } from "../../tests/support/garbage.ts";
import { dataKeys, flush, keysUnder, neededKeys } from "../../tests/support/histories.ts";
import { foldFlushes } from "../../tests/support/folding.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { at, fails, openAt, OUTRIGHT, withDirectory } from "../../tests/support/stores.ts";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { nextTurn } from "../clock.ts";
import { MAX_FOLDED_CHAIN } from "./fold_plan.ts";
import { ImageFile } from "../sqlite/checkout_file.ts";
import { pointAt } from "./context.ts";
import { Lease } from "./lease.ts";
import { mergeBase } from "./merge_base.ts";
import { loggedPoints } from "./point_log.ts";
import { DAY_MS, DEFAULT_LEVELS } from "./retention.ts";
import type { Store } from "./store.ts";

const MAIN = at("app");
const KEEP = { keep: DEFAULT_LEVELS };

/** So many flushes of consecutive numbers, half a minute apart, with a snapshot after every eight segments. */
async function flushes({ store, clock }: Bench, count: number, branch = "main"): Promise<void> {
  for (let i = 0; i < count; i++) {
    clock.advance(30_000);
    const { chain, head } = await pointAt(store.context, at(`app@${branch}`));
    await flush(store, at(`app@${branch}`), head.txid + 1, { snapshot: chain.depth >= 8 });
  }
}

/** What a flush left in the database: its number. */
async function serialAt(store: Store, address: string): Promise<number> {
  const { chain, head } = await pointAt(store.context, at(address));
  using image = await store.context.cache.image("app", chain, head.digest);
  using file = ImageFile.open(image.path);
  const bytes = new Uint8Array(file.page_count * file.page_size);
  file.readPages(1, file.page_count, bytes);
  return new DataView(bytes.buffer).getFloat64(file.page_size + 64);
}

/** A backend each call of which but a listing waits for `work` first. */
function before(backend: Bench["backend"], work: (method: string, key: string) => Promise<void>): Bench["backend"] {
  return new Proxy(backend, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      if (name === "list") return member.bind(target);
      return async (...args: unknown[]) => {
        await work(String(name), String(args[0]));
        return await member.apply(target, args);
      };
    },
  });
}

const pointsOf = async (store: Store) => loggedPoints((await store.context.refs.read("app", "main")).ref);

/** Every point but the first, which no flush made, holds its own number. */
async function assertPoints(store: Store, txids: readonly number[]): Promise<void> {
  for (const txid of txids) assertEquals(await serialAt(store, `app@main@txid:${txid}`), txid);
}

Deno.test("folded points need one snapshot where they had many, and read as before", () =>
  withStore(async (bench) => {
    const { store, backend } = bench;
    await flushes(bench, 40);
    const log = await store.log(MAIN, { limit: 1000 });
    const before = await store.context.refs.read("app", "main");
    const { folded, failed, stored_bytes } = await store.foldHistory(KEEP);
    assertEquals([folded, failed], [36, []]);
    assert(stored_bytes > 0);
    for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, ...KEEP });
    const keys = await dataKeys(backend);
    assertEquals(new Set(keys), await neededKeys(store, DEFAULT_LEVELS));
    assertEquals(keys.filter((key) => key.includes("/snapshot-")).length, 2);
    const after = await store.log(MAIN, { limit: 1000 });
    assertEquals(
      after.points.map(({ txid, at, op }) => [txid, at, op]),
      log.points.map(({ txid, at, op }) => [txid, at, op]),
    );
    const { ref } = await store.context.refs.read("app", "main");
    assertEquals([ref.txid, ref.digest, ref.lineage], [before.ref.txid, before.ref.digest, before.ref.lineage]);
    assertEquals(ref.folding, undefined);
    await assertPoints(store, log.points.map(({ txid }) => txid).filter((txid) => txid > 1));
    for (const { txid } of log.points) {
      const { chain } = await pointAt(store.context, at(`app@main@txid:${txid}`));
      assert(chain.objects.length <= MAX_FOLDED_CHAIN);
    }
    assertEquals((await store.foldHistory(KEEP)).folded, 0);
    assert((await store.verifyAll()).ok);
  }));

Deno.test("a fork, a rollback and a merge base go by folded points as by others", () =>
  withStore(async (bench) => {
    const { store } = bench;
    await flushes(bench, 20);
    await store.foldHistory(KEEP);
    await store.fork(at("app@main@txid:5"), "five");
    assertEquals((await store.parent(at("app@five"))).branch, "main");
    const side = async (branch: string) => {
      const { ref } = await store.context.refs.read("app", branch);
      return { address: { db: "app", branch }, ref, at: { lineage: ref.lineage, txid: ref.txid, digest: ref.digest } };
    };
    await flushes(bench, 1, "five");
    assertEquals((await mergeBase(store.context, await side("five"), await side("main"))).txid, 5);
    assertEquals((await mergeBase(store.context, await side("main"), await side("five"))).txid, 5);
    await store.rollback(at("app@main@txid:7"), { safety: false });
    assertEquals(await serialAt(store, "app"), 7);
    await flushes(bench, 20);
    await store.foldHistory(KEEP);
    for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, ...KEEP });
    await assertPoints(store, [9, 12, 15, 26]);
    assertEquals(await serialAt(store, "app@five"), 6);
    assert((await store.verifyAll()).ok);
  }));

Deno.test("folding goes on beside a lease, and what is flushed meanwhile stays the head", () =>
  withStore(async (bench) => {
    const { store, backend, clock } = bench;
    await flushes(bench, 20);
    const lease = await Lease.acquire(store.context, MAIN);
    let flushed = 0;
    const other = await bench.open(before(backend, async (method, key) => {
      if (method !== "replace" || !key.startsWith("refs/") || flushed++ >= 3) return;
      clock.advance(1000);
      await lease.write();
    }));
    const { folded, failed } = await other.foldHistory(KEEP);
    assertEquals([folded > 10, failed], [true, []]);
    assert(flushed > 2);
    await lease.release();
    await assertPoints(store, [3, 4, 5, 20, 21]);
  }));

scaledTest("what dies at any write of folding loses nothing, and leaves nothing once it was done again", async (t) => {
  for (let calls = 0;; calls += scaled({ short: 5, long: 1 })) {
    let finished = false;
    await t.step(`after ${calls} writes`, () =>
      withStore(async (bench) => {
        const { store, backend, clock } = bench;
        await flushes(bench, 30);
        const txids = (await pointsOf(store)).map(({ txid }) => txid).filter((txid) => txid > 1);
        let writes = 0;
        let dead = false;
        const dying = await bench.open(
          new FaultyBackend(backend, ({ method }) => {
            if (["put", "create", "replace", "delete"].includes(method) && writes++ >= calls) dead = true;
            return dead ? { kind: "before", code: "unavailable" } : undefined;
          }),
        );
        await dying.foldHistory(KEEP).catch(() => {});
        finished = !dead;
        await store.collectGarbage({ grace_ms: 0, ...KEEP });
        await assertPoints(store, [txids[0]!, txids[10]!, txids.at(-1)!]);
        assertEquals((await store.foldHistory(KEEP)).failed, []);
        clock.advance(DAY_MS / 12);
        await store.foldHistory(KEEP);
        for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, ...KEEP });
        await assertPoints(store, txids);
        assertEquals(new Set(await dataKeys(backend)), await neededKeys(store, DEFAULT_LEVELS));
        assertEquals((await store.context.refs.read("app", "main")).ref.folding, undefined);
      }));
    if (finished) return assert(calls > 5);
  }
});

Deno.test("of two that fold a branch at once one does, and the other leaves garbage", () =>
  withStore(async (bench) => {
    const { store, backend } = bench;
    await flushes(bench, 30);
    const txids = (await pointsOf(store)).map(({ txid }) => txid).filter((txid) => txid > 1);
    const other = await bench.open(backend);
    const results = await Promise.all([store.foldHistory(KEEP), other.foldHistory(KEEP)]);
    assertEquals(results.flatMap(({ failed }) => failed), []);
    await store.foldHistory(KEEP);
    for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, ...KEEP });
    await assertPoints(store, txids);
    assertEquals(new Set(await dataKeys(backend)), await neededKeys(store, DEFAULT_LEVELS));
  }));

Deno.test("folding beside garbage collection without a grace loses no point", () =>
  withStore(async (bench) => {
    const { store, backend } = bench;
    await flushes(bench, 30);
    const txids = (await pointsOf(store)).map(({ txid }) => txid).filter((txid) => txid > 1);
    const other = await bench.open(backend);
    let folding = true;
    const passes = (async () => {
      while (folding) {
        await other.collectGarbage({ grace_ms: 0, ...KEEP }).catch(() => {});
        await nextTurn();
      }
    })();
    for (let i = 0; i < 3; i++) await store.foldHistory(KEEP);
    folding = false;
    await passes;
    await assertPoints(store, txids);
  }));

/** Flips a bit in the middle of an object. */
async function damage({ backend }: Bench, key: string): Promise<() => Promise<void>> {
  const { bytes } = await backend.get(key);
  const damaged = bytes.slice();
  damaged[bytes.length >> 1]! ^= 4;
  await backend.put(key, damaged);
  return () => backend.put(key, bytes);
}

Deno.test("a damaged point is skipped, kept and reported, and the others are folded", async (t) => {
  for (const kind of ["segment", "snapshot"] as const) {
    await t.step(kind, () =>
      withStore(async (bench) => {
        const { store, backend } = bench;
        await flushes(bench, 40);
        const txids = (await pointsOf(store)).map(({ txid }) => txid).filter((txid) => txid > 1);
        // Of a segment those behind it up to the next snapshot are lost as well.
        const { chain } = await pointAt(store.context, at("app@main@txid:14"));
        const { key } = chain.objects.at(kind === "segment" ? -1 : 0)!;
        const lost: number[] = [];
        for (const txid of txids) {
          const { chain } = await pointAt(store.context, at(`app@main@txid:${txid}`));
          if (chain.objects.some((each) => each.key === key)) lost.push(txid);
        }
        assert(lost.length > 0 && lost.length < 10);
        const heal = await damage(bench, key);
        const first = await store.foldHistory(KEEP);
        assertEquals(first.failed.length, 1);
        assert(first.failed[0]!.error.includes(key));
        const again = await store.foldHistory(KEEP);
        assertEquals([again.folded, again.failed], [0, []], "it is reported once, and known from then on");
        assertEquals((await store.condition()).damaged, 1);
        for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, ...KEEP });
        const unfolded = (await pointsOf(store)).filter(({ folded, txid }) => folded === undefined && txid > 1);
        for (const txid of lost) assert(unfolded.some((point) => point.txid === txid));
        assert(unfolded.length <= lost.length + 9, "beside these only what the head's chain holds");
        await assertPoints(store, txids.filter((txid) => !lost.includes(txid)));
        for (const fast of [true, false]) {
          const { ok, findings } = await store.verifyAll({ fast });
          assertEquals([ok, findings.map(({ where }) => where)], [false, [key]]);
          assertEquals(findings[0]!.needed_by.toSorted(), lost.map((txid) => `app@main@txid:${txid}`).sort());
        }
        await heal();
        assert((await store.verifyAll()).ok);
        assert((await store.foldHistory(KEEP)).folded >= lost.length);
        await assertPoints(store, txids);
        assertEquals(await keysUnder(backend, "damaged/"), []);
      }));
  }
});

Deno.test("repair takes damaged points from a branch, and keeps their objects aside", () =>
  withStore(async (bench) => {
    const { store, backend } = bench;
    await flushes(bench, 40);
    await store.foldHistory(KEEP);
    for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, ...KEEP });
    const log = async () => (await store.log(MAIN, { limit: 1000 })).points.map(({ txid }) => txid);
    const before = await log();
    const { chain } = await pointAt(store.context, at("app@main@txid:18"));
    const last = chain.objects.at(-1)!;
    await damage(bench, last.key);
    const lost: number[] = [];
    for (const txid of before) {
      const { chain } = await pointAt(store.context, at(`app@main@txid:${txid}`));
      if (chain.objects.some(({ key }) => key === last.key)) lost.push(txid);
    }
    assertEquals((await store.repair({ dry_run: true })).moved[0]!.lost_points, lost.length);
    assertEquals(await log(), before);
    const { moved, left } = await store.repair();
    const head = before[0]!;
    assertEquals(moved, [{ db: "app", branch: "main", txid: head, lost_checkpoints: [], lost_points: lost.length }]);
    assertEquals(left, []);
    assertEquals(await log(), before.filter((txid) => !lost.includes(txid)));
    assertEquals((await keysUnder(backend, "damaged/")).filter((key) => key.endsWith(last.key)).length, 1);
    assert((await store.verifyAll()).ok);
    await assertPoints(store, (await log()).filter((txid) => txid > 1));
    assertEquals((await store.condition()).damaged, 0);
  }));

Deno.test("a pass of garbage collection reads each base pointer of the past once, several at a time", () =>
  withStore(async (bench) => {
    const { store, backend, clock } = bench;
    for (let hour = 0; hour < 12; hour++) {
      clock.advance(3_600_000);
      await flushes(bench, 5);
    }
    await store.foldHistory(KEEP);
    const reads = new Map<string, number>();
    let [at_once, most] = [0, 0];
    const other = await bench.open(
      new Proxy(backend, {
        get(target, name) {
          const member: unknown = Reflect.get(target, name, target);
          if (typeof member !== "function") return member;
          return name !== "get" ? member.bind(target) : async (key: string) => {
            if (!key.endsWith("/base.json")) return await target.get(key);
            reads.set(key, (reads.get(key) ?? 0) + 1);
            most = Math.max(most, ++at_once);
            await nextTurn();
            return await target.get(key).finally(() => at_once--);
          };
        },
      }),
    );
    await other.collectGarbage({ grace_ms: 0, ...KEEP });
    assert(reads.size >= 8, `${reads.size} lineages`);
    assertEquals([...new Set(reads.values())], [1]);
    assert(most > 4, `${most} at once`);
  }));

Deno.test("an export of a point that is folded or goes meanwhile is whole or refused", async (t) => {
  const cases = { folded: DEFAULT_LEVELS, gone: [] };
  for (const [name, keep] of Object.entries(cases)) {
    await t.step(name, () =>
      withStore(async (bench) => {
        const { store, backend } = bench;
        await flushes(bench, 30);
        let met = false;
        const reader = await bench.open(before(backend, async (method, key) => {
          if (met || method !== "getStream" || !key.includes("segment-")) return;
          met = true;
          await store.foldHistory({ keep });
          for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, keep });
        }));
        const file = `${store.context.workspace.root}/out.db`;
        const exported = reader.export(at("app@main@txid:5"), file);
        if (name === "gone") return assertEquals((await fails("not_found", exported), met), true);
        await exported;
        using image = ImageFile.open(file);
        const page = new Uint8Array(image.page_size);
        image.readPages(2, 1, page);
        assertEquals([met, new DataView(page.buffer).getFloat64(64)], [true, 5]);
      }));
  }
});

Deno.test("a destroyed branch that is brought back has its points", () =>
  withStore(async (bench) => {
    const { store } = bench;
    await store.fork(MAIN, "side");
    await flushes(bench, 20, "side");
    await store.touch(at("app@side"), { keep: "3d" });
    await store.foldHistory(KEEP);
    await store.destroy(at("app@side"), { confirm: true });
    for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, ...KEEP });
    await store.undo(at("app@side"));
    assertEquals((await store.status(at("app@side"))).keep, "3d");
    for (const txid of [2, 9, 17, 21]) assertEquals(await serialAt(store, `app@side@txid:${txid}`), txid);
    await store.destroy(at("app@side"), OUTRIGHT);
    await fails("not_found", store.log(at("app@side")));
  }));

const NO_XFS = await whyNotMountable("xfs");

Deno.test("folded points of a store in a directory read as they were written", () =>
  withDirectory(async (directory) => {
    using store = await openAt(`${directory}/store`);
    await foldFlushes(store, directory);
  }));

Deno.test({
  name: `and likewise where snapshots are plain images that share blocks${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (directory) => {
      using store = await openAt(`${directory}/store`);
      await foldFlushes(store, directory);
    }),
});

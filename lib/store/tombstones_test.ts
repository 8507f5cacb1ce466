import { assert, assertEquals, assertRejects } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { flush, keysUnder, makeTinyDatabase } from "../../tests/support/histories.ts";
import { at, OUTRIGHT, withDirectory } from "../../tests/support/stores.ts";
import { FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { systemRandom } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { baseKey, segmentKey, snapshotKey } from "./keys.ts";
import { Store } from "./store.ts";
import { pointAt } from "./context.ts";
import {
  listVersion,
  readTombstones,
  shortName,
  spare,
  TombstoneIndex,
  TOMBSTONES_KEY,
  writeTombstones,
} from "./tombstones.ts";

const LINEAGE = "0123456789abcdef".repeat(2);
const AT = "2026-01-01T00:00:00.000Z";

/** A store with `app@main`, whose backend's calls are counted. */
async function withStore(work: (store: Store, backend: FaultyBackend) => Promise<void>): Promise<void> {
  await withDirectory(async (directory) => {
    const backend = new FaultyBackend(new MemoryBackend(), () => undefined);
    using store = await Store.open({ backend, workspace: directory, clock: new VirtualClock() });
    makeTinyDatabase(`${directory}/tiny.db`);
    await store.create("app", { from: `${directory}/tiny.db` });
    await flush(store, at("app"), 1);
    await store.fork(at("app"), "first");
    await work(store, backend);
  });
}

Deno.test("names are short and distinguish all objects of a lineage", () => {
  const names = [
    [segmentKey(LINEAGE, 3, 0x11f, 0x12a), "3/segment-12a-11f.zst"],
    [segmentKey(LINEAGE, 0, 0, 0x10), "0/segment-10-0.zst"],
    [snapshotKey(LINEAGE, 16, 1, "raw"), "10/snapshot-1.raw"],
    [snapshotKey(LINEAGE, 16, 1, "zst"), "10/snapshot-1.zst"],
    [baseKey(LINEAGE), "base.json"],
  ] as const;
  for (const [key, name] of names) assertEquals(shortName(key), name);
});

Deno.test("a list is read back as written, and a late writer gets undefined", async () => {
  const backend = new MemoryBackend();
  const context = { backend, random: systemRandom };
  assertEquals(await readTombstones(backend), undefined);
  const tombstones = [{ lineage: LINEAGE, at: AT }, { lineage: LINEAGE, names: ["base.json"], at: AT, doomed: AT }];
  const etag = await writeTombstones(context, tombstones, undefined);
  assertEquals(await readTombstones(backend), { tombstones, etag: etag! });
  assertEquals(await writeTombstones(context, [], undefined), undefined);
  assert(await writeTombstones(context, [], etag) !== undefined);
  assertEquals(await writeTombstones(context, tombstones, etag), undefined);
});

Deno.test("a write whose answer is lost is known by its nonce", async () => {
  for (const kind of ["before", "after"] as const) {
    const inner = new MemoryBackend();
    const backend = new FaultyBackend(
      inner,
      ({ method }) => method === "create" ? { kind, code: "ambiguous" } : undefined,
    );
    const writing = writeTombstones({ backend, random: systemRandom }, [], undefined);
    if (kind === "after") assertEquals(await writing, (await readTombstones(inner))?.etag);
    else await assertRejects(() => writing, TaskdError);
  }
  for (const kind of ["before", "after"] as const) {
    const inner = new MemoryBackend();
    const etag = await writeTombstones({ backend: inner, random: systemRandom }, [], undefined);
    const backend = new FaultyBackend(
      inner,
      ({ method }) => method === "replace" ? { kind, code: "ambiguous" } : undefined,
    );
    const written = await writeTombstones({ backend, random: systemRandom }, [{ lineage: LINEAGE, at: AT }], etag);
    const found = await readTombstones(inner);
    assertEquals([written, found?.tombstones.length], kind === "after" ? [found?.etag, 1] : [undefined, 0]);
  }
});

Deno.test("doom is found before a tombstone that covers the same object", () => {
  const doomed = { lineage: LINEAGE, names: ["base.json"], at: AT, doomed: AT };
  const index = new TombstoneIndex([{ lineage: LINEAGE, at: AT }, doomed]);
  assertEquals(index.find(LINEAGE, "base.json"), doomed);
  assertEquals(index.find(LINEAGE, "1/snapshot-1.zst")?.doomed, undefined);
  assertEquals(index.find("f".repeat(32), "base.json"), undefined);
});

Deno.test("only the doom of what ends there explains a gap", () => {
  const index = new TombstoneIndex([
    { lineage: LINEAGE, names: ["2/segment-12a-11f.zst"], at: AT, doomed: AT },
    { lineage: LINEAGE, names: ["2/segment-12b-12a.zst"], at: AT },
  ]);
  assertEquals(["12a", "11f", "2a", "12b"].map((txid) => index.explainsGap(LINEAGE, txid)), [
    true,
    false,
    false,
    false,
  ]);
});

Deno.test("the list costs a fork two reads, and a fork makes five calls", async () => {
  await withStore(async (store, backend) => {
    const callsOf = async (branch: string) => {
      const before = backend.calls.length;
      await store.fork(at("app"), branch);
      return backend.calls.slice(before).map(({ method, key }) => `${method} ${key.split("/")[0]}`);
    };
    const expected = ["get gc", "get refs", "create data", "create refs", "get gc"];
    assertEquals(await callsOf("without"), expected);
    await store.fork(at("app@first"), "gone", { materialize: true });
    await store.destroy(at("app@gone"), OUTRIGHT);
    await store.collectGarbage({ grace_ms: 1000 });
    assertEquals(await callsOf("with"), expected);
  });
});

Deno.test("an unreadable list stops every operation that relies on it and leaves no branch", async () => {
  await withStore(async (store, backend) => {
    await flush(store, at("app"), 2, { checkpoint: "one" });
    await backend.put(TOMBSTONES_KEY, new TextEncoder().encode("{"));
    const refs = await keysUnder(backend, "refs/");
    const attempts: Record<string, () => Promise<unknown>> = {
      fork: () => store.fork(at("app"), "child"),
      create: () => store.create("other"),
      rollback: () => store.rollback(at("app@main@one"), { safety: false }),
      compact: () => store.compact(at("app")),
    };
    for (const [name, attempt] of Object.entries(attempts)) {
      const error = await assertRejects(attempt, TaskdError);
      assertEquals(error.code, "corrupt", name);
      assert(error.hint !== undefined);
      assertEquals(await keysUnder(backend, "refs/"), refs);
    }
    await backend.delete(TOMBSTONES_KEY);
    for (const attempt of Object.values(attempts)) await attempt();
  });
});

Deno.test("a maker checks that its objects exist if the list has changed since it began", async () => {
  await withDirectory(async (directory) => {
    const backend = new MemoryBackend();
    const context = { backend, random: systemRandom };
    using store = await Store.open({ backend, workspace: directory, clock: new VirtualClock() });
    makeTinyDatabase(`${directory}/tiny.db`);
    await store.create("app", { from: `${directory}/tiny.db` });
    const { lineage, txid } = (await store.context.refs.read("app", "main")).ref;
    await backend.delete((await keysUnder(backend, `data/${lineage}/`))[0]!);
    const spared = (since: string | undefined) => spare(context, "Cannot fork", { at: { lineage, txid }, since });
    const none = await listVersion(backend);
    await spared(none);
    const first = await writeTombstones(context, [], undefined);
    assertEquals((await assertRejects(() => spared(none), TaskdError)).code, "conflict");
    assertEquals(await listVersion(backend), first);
    await spared(first);
    await writeTombstones(context, [], first);
    assertEquals((await assertRejects(() => spared(first), TaskdError)).code, "conflict");
  });
});

Deno.test("only the names that a maker relies on are revoked, and doom never is", async () => {
  await withStore(async (store, backend) => {
    const context = { backend, random: systemRandom };
    const { chain, ref } = await pointAt(store.context, at("app@first"));
    const [key] = chain.objects.map(({ key }) => key);
    const owner = chain.objects[0]!.lineage;
    const since = await listVersion(backend);
    const other = { lineage: LINEAGE, at: AT };
    const spared = () => spare(context, "Cannot fork", { at: ref, lineage: ref.lineage, chain, since });
    const names = [shortName(key!), "9/snapshot-99.zst"];
    const own = { lineage: ref.lineage, at: AT };
    const etag = await writeTombstones(context, [{ lineage: owner, names, at: AT }, other, own], undefined);
    await spared();
    const list = await readTombstones(backend);
    assertEquals(list?.tombstones, [{ lineage: owner, names: ["9/snapshot-99.zst"], at: AT }, other]);
    assert(list?.etag !== etag);
    await writeTombstones(context, [{ lineage: owner, names, at: AT, doomed: AT }], list!.etag);
    assertEquals((await assertRejects(spared, TaskdError)).code, "conflict");
    assertEquals((await readTombstones(backend))?.tombstones[0]?.names, names);
  });
});

import { assert, assertEquals } from "@std/assert";
import { crc32 } from "node:zlib";
import { flush, makeTinyDatabase } from "../../tests/support/histories.ts";
import { unavailable } from "../../tests/support/session.ts";
import { at, openAt, withDirectory } from "../../tests/support/stores.ts";
import { type FaultPlan, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { type Point, pointAt } from "./context.ts";
import { PageChecksums } from "./page_checksums.ts";
import type { Store } from "./store.ts";

const load = ({ context }: Store, { chain, head }: Point) => PageChecksums.load(context.backend, chain, head.digest);

/** A database of two pages whose history is a snapshot and four segments, each a checkpoint. */
async function withHistory(work: (store: Store, faults: { plan: FaultPlan }, directory: string) => Promise<void>) {
  await withDirectory(async (directory) => {
    const faults: { plan: FaultPlan } = { plan: () => undefined };
    const wrap = (inner: MemoryBackend) => new FaultyBackend(inner, (call) => faults.plan(call));
    const store = await openAt(directory, { backend: wrap(new MemoryBackend()) });
    try {
      makeTinyDatabase(`${directory}/tiny.db`);
      await store.create("app", { from: `${directory}/tiny.db` });
      for (const serial of [1, 2, 3, 4]) await flush(store, at("app"), serial, { checkpoint: `c${serial}` });
      await work(store, faults, directory);
    } finally {
      store.close();
    }
  });
}

Deno.test("the checksums of a chain are those of its pages, at every point of a history", () =>
  withHistory(async (store, _, directory) => {
    for (const address of ["app@main@c1", "app@main@c3", "app"]) {
      const checksums = (await load(store, await pointAt(store.context, at(address))))!;
      await store.export(at(address), `${directory}/${address}.db`);
      const bytes = await Deno.readFile(`${directory}/${address}.db`);
      // An export has the journal mode that the database had, stored pages have WAL.
      bytes.fill(2, 18, 20);
      const pages = [bytes.subarray(0, 512), bytes.subarray(512)].map((page) => crc32(page));
      assertEquals([0, 1, 2, 3].map((pgno) => checksums.of(pgno)), [undefined, ...pages, undefined]);
    }
  }));

Deno.test("the newest object that holds a page decides, and pages past the end are not known", () => {
  const checksums = PageChecksums.ofSnapshot((pgno) => pgno <= 4 ? pgno * 10 : undefined, 4);
  checksums.add((pgno) => pgno === 2 ? 77 : undefined, 3);
  assertEquals([1, 2, 3, 4].map((pgno) => checksums.of(pgno)), [10, 77, 30, undefined]);
  checksums.add((pgno) => pgno >= 4 ? 88 : undefined, 5);
  assertEquals([1, 2, 3, 4, 5, 6].map((pgno) => checksums.of(pgno)), [10, 77, 30, 88, 88, undefined]);
});

Deno.test("nothing is known of a chain that cannot be read or is not the one that was meant", () =>
  withHistory(async (store, faults) => {
    const point = await pointAt(store.context, at("app"));
    const { objects } = point.chain;
    assertEquals(objects.length, 5);
    const gapped = { ...point.chain, objects: [objects[0]!, ...objects.slice(2)] };
    assertEquals(await load(store, { ...point, chain: gapped }), undefined);
    const shorter = { ...point.chain, objects: objects.slice(0, -1) };
    assertEquals(await load(store, { ...point, chain: shorter }), undefined);
    faults.plan = unavailable("getRange");
    assertEquals(await load(store, point), undefined);
    faults.plan = () => undefined;
    assert(await load(store, point));
  }));

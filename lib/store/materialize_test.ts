import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { crc32 } from "node:zlib";
import { fails, withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { type FaultPlan, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import { Chains } from "./chain.ts";
import { segmentKey } from "./keys.ts";
import { materialize } from "./materialize.ts";
import { type Head, writeSegment, writeSnapshot } from "./objects.ts";
import { PageChecksums } from "./page_checksums.ts";

const PLACE = { lineage: "0123456789abcdef0123456789abcdef", epoch: 1 };

/** An image in memory whose page 1 states its page size. */
function imageOf(bytes: Uint8Array, page_size: number): DatabaseImage {
  new DataView(bytes.buffer).setUint16(16, page_size === 65536 ? 1 : page_size);
  return {
    page_size,
    page_count: bytes.length / page_size,
    readPages: (first, count, into) =>
      into.set(bytes.subarray((first - 1) * page_size, (first - 1 + count) * page_size)),
  };
}

/** The image after some pages were rewritten and the database got another size; and which pages that makes. */
function evolve(bytes: Uint8Array, page_size: number, change: { size: number; touched: number[]; seed: number }) {
  const before = bytes.length / page_size;
  const next = new Uint8Array(change.size * page_size);
  next.set(bytes.subarray(0, next.length));
  const pages = new Set(change.touched.map((n) => n % change.size + 1));
  for (let pgno = before + 1; pgno <= change.size; pgno++) pages.add(pgno);
  const random = new SeededRandom(change.seed);
  for (const pgno of pages) next.set(random.bytes(40), (pgno - 1) * page_size + 20);
  return { next, pages: [...pages].sort((a, b) => a - b), low_page_count: Math.min(before, change.size) };
}

/** Every page of an image, by its number. */
function pagesOf(bytes: Uint8Array, page_size: number): Map<number, Uint8Array> {
  const count = bytes.length / page_size;
  return new Map(Array.from({ length: count }, (_, i) => [i + 1, bytes.subarray(i * page_size, (i + 1) * page_size)]));
}

/** A chain of one snapshot and its segments, and the image at each txid. */
async function history(page_size: number, changes: { size: number; touched: number[]; seed: number }[]) {
  const backend = new MemoryBackend();
  let bytes: Uint8Array<ArrayBuffer> = new Uint8Array(3 * page_size);
  const states: { head: Head; bytes: Uint8Array }[] = [];
  let head = (await writeSnapshot(backend, PLACE, { txid: 1, image: imageOf(bytes, page_size) })).head;
  states.push({ head, bytes });
  const chain = await new Chains(backend).resolve(PLACE.lineage, head.txid);
  const checksums = (await PageChecksums.load(backend, chain, head.digest))!;
  for (const change of changes) {
    const { next, pages, low_page_count } = evolve(bytes, page_size, change);
    const image = imageOf(next, page_size);
    const taken = { pages, page_count: change.size, low_page_count, commits: 1, before: pagesOf(bytes, page_size) };
    const segment = { prev: head, txid: head.txid + 1, changes: taken, image, checksums };
    const object = await writeSegment(backend, PLACE, segment);
    head = object.head;
    checksums.add(object.checksumOf, change.size);
    bytes = next;
    states.push({ head, bytes });
  }
  return { backend, states };
}

const anyChange = fc.record({
  size: fc.integer({ min: 1, max: 30 }),
  touched: fc.array(fc.nat(29), { minLength: 1, maxLength: 5 }),
  seed: fc.nat(),
});

Deno.test("every state of a history is built to the byte, through growth and shrinking", () =>
  withDirectory(async (directory) => {
    let file = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(512, 4096, 65536),
        fc.array(anyChange, { maxLength: 8, size: "max" }),
        async (page_size, changes) => {
          const { backend, states } = await history(page_size, changes);
          const chains = new Chains(backend);
          for (const { head, bytes } of states) {
            const target = `${directory}/${file++}.db`;
            const chain = await chains.resolve(PLACE.lineage, head.txid);
            const built = await materialize(backend, chain, head.digest, target);
            assertEquals(built, { page_size, page_count: bytes.length / page_size, digest: head.digest });
            const found = Deno.readFileSync(target);
            assert(found.length === bytes.length && found.every((byte, i) => byte === bytes[i]), `txid ${head.txid}`);
            assertEquals(Deno.statSync(target).mode! & 0o777, 0o600);
            Deno.removeSync(target);
          }
        },
      ),
      { seed: 20260105, numRuns: 25 },
    );
  }));

const CHANGES = [{ size: 5, touched: [1], seed: 1 }, { size: 6, touched: [2], seed: 2 }, {
  size: 2,
  touched: [0],
  seed: 3,
}];

Deno.test("what is not the object that was meant is refused, and leaves no file", () =>
  withDirectory(async (directory) => {
    const { backend, states } = await history(512, CHANGES);
    const other = await history(512, CHANGES.map((change) => ({ ...change, seed: change.seed + 9 })));
    const [head, target] = [states.at(-1)!.head, `${directory}/x.db`];
    const chain = await new Chains(backend).resolve(PLACE.lineage, head.txid);
    await fails("corrupt", materialize(backend, chain, "f".repeat(16), target));
    for (const { key } of chain.objects) {
      const { bytes } = await backend.get(key);
      // The same name, another history. Both begin with the same snapshot.
      if (key !== chain.objects[0]!.key) {
        await backend.put(key, (await other.backend.get(key)).bytes);
        await fails("corrupt", materialize(backend, chain, head.digest, target));
      }
      // Another object's bytes under this name.
      const stranger = chain.objects.find((object) => object.key !== key)!.key;
      await backend.put(key, (await backend.get(stranger)).bytes);
      await fails("corrupt", materialize(backend, chain, head.digest, target));
      for (const end of [0, 1, bytes.length - 1]) {
        await backend.put(key, bytes.subarray(0, end));
        await fails("corrupt", materialize(backend, chain, head.digest, target));
      }
      await backend.delete(key);
      await fails("chain_gap", materialize(backend, chain, head.digest, target));
      await backend.put(key, bytes);
    }
    // One segment left out: what follows does not follow.
    const gapped = { ...chain, objects: chain.objects.filter(({ last }) => last !== 3) };
    await fails("corrupt", materialize(backend, gapped, head.digest, target));
    assertEquals([...Deno.readDirSync(directory)], []);
    await materialize(backend, chain, head.digest, target);
    await fails("already_exists", materialize(backend, chain, head.digest, target));
    assertEquals(Deno.statSync(target).size, states.at(-1)!.bytes.length);
  }));

Deno.test("a difference for a page that was not present is damage, also if it once was", () =>
  withDirectory(async (directory) => {
    const backend = new MemoryBackend();
    const old = new Uint8Array(3 * 512).fill(7, 2 * 512);
    const stale = pagesOf(old, 512).get(3)!;
    const snapshot = await writeSnapshot(backend, PLACE, { txid: 1, image: imageOf(old, 512) });
    const shrunk = await writeSegment(backend, PLACE, {
      prev: snapshot.head,
      txid: 2,
      changes: { pages: [1], page_count: 2, low_page_count: 2, commits: 1 },
      image: imageOf(old.slice(0, 2 * 512), 512),
    });
    const grown = old.slice().fill(8, 2 * 512 + 500);
    for (const known of [2, 3]) {
      // At 3 the writer gets a wrong premise.
      const checksums = PageChecksums.ofSnapshot(() => crc32(stale), known);
      const changes = { pages: [3], page_count: 3, low_page_count: 2, commits: 1, before: new Map([[3, stale]]) };
      const segment = { prev: shrunk.head, txid: 3, changes, image: imageOf(grown, 512), checksums };
      const { head } = await writeSegment(backend, PLACE, segment);
      const chain = await new Chains(backend).resolve(PLACE.lineage, 3);
      const build = materialize(backend, chain, head.digest, `${directory}/x.db`);
      if (known === 3) assertStringIncludes((await fails("corrupt", build)).message, "page 3 was not there");
      else await build;
      await Deno.remove(`${directory}/x.db`).catch(() => {});
    }
  }));

Deno.test("a store that stalls, fails or ends early is the error that it is, and leaves no file", () =>
  withDirectory(async (directory) => {
    const { backend, states } = await history(4096, CHANGES);
    const head = states.at(-1)!.head;
    const chain = await new Chains(backend).resolve(PLACE.lineage, head.txid);
    for (const nth of [1, 2, 3, 4]) {
      for (
        const [fault, code] of [
          [{ kind: "before", code: "unavailable" }, "unavailable"],
          [{ kind: "before", code: "denied" }, "denied"],
          [{ kind: "truncate", after_bytes: 30, code: "stalled" }, "stalled"],
          [{ kind: "truncate", after_bytes: 30 }, "corrupt"],
        ] as const
      ) {
        let seen = 0;
        const plan: FaultPlan = ({ method }) => method === "getStream" && ++seen === nth ? fault : undefined;
        await fails(code, materialize(new FaultyBackend(backend, plan), chain, head.digest, `${directory}/x.db`));
      }
    }
    const controller = new AbortController();
    const plan: FaultPlan = ({ count }) => void (count === 3 && controller.abort());
    const { signal } = controller;
    await fails(
      "interrupted",
      materialize(new FaultyBackend(backend, plan), chain, head.digest, `${directory}/x.db`, { signal }),
    );
    assertEquals([...Deno.readDirSync(directory)], []);
  }));

Deno.test("progress ends at the bytes of the chain", () =>
  withDirectory(async (directory) => {
    const { backend, states } = await history(4096, CHANGES);
    const head = states.at(-1)!.head;
    const chain = await new Chains(backend).resolve(PLACE.lineage, head.txid);
    const seen: [number, number | undefined][] = [];
    const onProgress = (done: number, total: number | undefined) => seen.push([done, total]);
    await materialize(backend, chain, head.digest, `${directory}/x.db`, { onProgress });
    assertEquals(seen.at(-1), [chain.bytes, chain.bytes]);
  }));

Deno.test("a write that is repeated repeats its bytes", async () => {
  const [one, two] = [await history(4096, CHANGES), await history(4096, CHANGES)];
  const key = segmentKey(PLACE.lineage, 1, 1, 2);
  assertEquals((await one.backend.get(key)).bytes, (await two.backend.get(key)).bytes);
  assertEquals(one.states.map(({ head }) => head), two.states.map(({ head }) => head));
});

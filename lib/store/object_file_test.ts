import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { DatabaseSync } from "node:sqlite";
import { TaskdError } from "../errors.ts";
import { lockPage } from "../sqlite/header.ts";
import { MAX_BLOCK_BYTES } from "./_object_layout.ts";
import {
  anyObject,
  chunksOf,
  decode,
  decodeByRange,
  encodeObject,
  page,
  type Pages,
  pagesOf,
  PREV,
  readPage,
  segment,
  snapshot,
  sourceOf,
} from "./_object_testing.ts";
import {
  assertGrowth,
  decodePages,
  type ObjectHeader,
  type ObjectIndex,
  ObjectWriter,
  readIndex,
  verifyImage,
} from "./object_file.ts";

Deno.test("what was written comes back, in one pass and by range, at every page size", async () => {
  await fc.assert(
    fc.asyncProperty(
      anyObject,
      fc.integer({ min: 1, max: 100000 }),
      async ({ header, pages, options }, chunk_bytes) => {
        const { bytes, digest } = encodeObject(header, pages, options);
        const expected = { pages, header, digest };
        assertEquals(await decode(bytes, chunk_bytes), expected);
        assertEquals(await decodeByRange(bytes), expected);
        const source = sourceOf(bytes);
        const index = await readIndex(source);
        assertEquals(index.pages, pages.size);
        for (let pgno = 0; pgno <= header.page_count + 1; pgno++) {
          assertEquals(index.page(pgno)?.crc, pages.has(pgno) ? crc32(pages.get(pgno)!) : undefined);
          if (!pages.has(pgno)) assertEquals(await readPage(source, index, pgno), undefined);
        }
      },
    ),
    { numRuns: 60 },
  );
});

Deno.test("several pages at once write the same bytes as one by one", () => {
  const pages = pagesOf(1024, 37);
  const one_by_one = encodeObject(snapshot(1024, 37), pages, { block_bytes: 8192 });
  const image = new Uint8Array(37 * 1024);
  for (const [pgno, bytes] of pages) image.set(bytes, (pgno - 1) * 1024);
  const at_once = encodeObject(snapshot(1024, 37), [[1, image]], { block_bytes: 8192 });
  const in_three = encodeObject(
    snapshot(1024, 37),
    [[1, image.subarray(0, 5120)], [6, image.subarray(5120, 6144)], [7, image.subarray(6144)]],
    { block_bytes: 8192 },
  );
  assertEquals(at_once, one_by_one);
  assertEquals(in_three, one_by_one);
});

/** The pages as they were before: the same, a little other, or quite other. */
const anyBefore = fc.record({
  changes: fc.array(fc.record({ pgno: fc.integer({ min: 1, max: 40 }), bytes: fc.constantFrom(0, 1, 20, 100_000) })),
  unknown: fc.array(fc.integer({ min: 1, max: 40 })),
});

Deno.test("differences from the pages before come back as the pages, in one pass and by range", async () => {
  await fc.assert(
    fc.asyncProperty(anyObject, anyBefore, async ({ header, pages, options }, { changes, unknown }) => {
      fc.pre(header.kind === "segment");
      const before: Pages = new Map([...pages].map(([pgno, bytes]) => [pgno, bytes.slice()]));
      for (const { pgno, bytes } of changes) before.get(pgno)?.subarray(5, 5 + bytes).fill(pgno);
      const known = (pgno: number) => unknown.includes(pgno) ? undefined : before.get(pgno);
      const { bytes, digest } = encodeObject(header, pages, { ...options, before: known });
      assertEquals(digest, encodeObject(header, pages, options).digest);
      assertEquals(await decode(bytes, 1000, before), { pages, header, digest });
      assertEquals(await decodeByRange(bytes, before), { pages, header, digest });
    }),
    { numRuns: 100 },
  );
});

Deno.test("a small change to a page of noise takes under 150 bytes", () => {
  const before = page(4096, 3, 1);
  const after = before.slice();
  after.fill(9, 2000, 2020);
  const object = encodeObject(segment(4096, 1_000_000), [[654_321, after]], { before: () => before });
  assert(object.bytes.length < 150, `${object.bytes.length} bytes`);
});

Deno.test("a page that became quite another is written as it is", async () => {
  const pages: Pages = new Map([[3, page(4096, 3, 1)]]);
  const object = encodeObject(segment(4096, 9), pages, { before: () => page(4096, 4, 1) });
  assertEquals((await decode(object.bytes)).pages, pages);
});

Deno.test("differences are refused where what was before is missing or is something else", async () => {
  const before: Pages = new Map([[3, page(512, 3, 1)], [4, page(512, 4, 1)]]);
  const after: Pages = new Map([...before].map(([pgno, bytes]) => [pgno, bytes.slice().fill(9, 50, 60)]));
  const { bytes } = encodeObject(segment(512, 9), after, { before: (pgno) => before.get(pgno) });
  assertEquals((await decode(bytes, undefined, before)).pages, after);
  const other = new Map(before).set(4, page(512, 5, 1));
  for (const read of [(was?: Pages) => decode(bytes, undefined, was), (was?: Pages) => decodeByRange(bytes, was)]) {
    for (const [was, problem] of [[undefined, "not at hand"], [other, "the checksum of page 4 is wrong"]] as const) {
      assertEquals((await assertRejects(() => read(was), TaskdError, problem)).code, "corrupt");
    }
  }
});

Deno.test("a buffer may be reused as soon as add() has returned", async () => {
  const writer = new ObjectWriter(segment(512, 9));
  const buffer = new Uint8Array(512);
  const chunks: Uint8Array[] = [];
  for (const pgno of [2, 3, 9]) chunks.push(...writer.add(pgno, buffer.fill(pgno)));
  chunks.push(...writer.finish());
  const { pages } = await decode(new Uint8Array(await new Blob(chunks as BlobPart[]).arrayBuffer()));
  assertEquals([...pages], [2, 3, 9].map((pgno) => [pgno, new Uint8Array(512).fill(pgno)]));
});

Deno.test("a segment of one nearly empty page takes under 150 bytes", () => {
  const bytes = new Uint8Array(4096);
  bytes.set([13, 0, 0, 0, 1, 15, 248, 0, 15, 248]);
  bytes.set([6, 1, 2, 25, 104, 101, 108, 108], 4088);
  const object = encodeObject(segment(4096, 1_000_000), [[654_321, bytes]]);
  assert(object.bytes.length < 150, `${object.bytes.length} bytes`);
});

Deno.test("the digest says what an object holds and not how it is packed", () => {
  const pages = pagesOf(1024, 20);
  const header = snapshot(1024, 20);
  const { digest } = encodeObject(header, pages);
  assertEquals(encodeObject(header, pages, { level: 9, block_bytes: 1024 }).digest, digest);
  assertEquals(encodeObject({ ...header, kind: "image-index" }, pages).digest, digest);
  const other = new Map(pages).set(20, page(1024, 99, 0.5));
  const base = segment(1024, 20);
  const digests = [
    digest,
    encodeObject(header, other).digest,
    encodeObject({ ...header, last_txid: 8 }, pages).digest,
    encodeObject(base, pages).digest,
    encodeObject({ ...base, prev: "1123456789abcdef" }, pages).digest,
    encodeObject({ ...base, first_txid: 5 }, pages).digest,
    encodeObject({ ...base, page_count: 21 }, pages).digest,
    encodeObject(base, [[1, pages.get(1)!]]).digest,
    encodeObject(base, [[2, pages.get(1)!]]).digest,
    encodeObject(base, []).digest,
  ];
  assertEquals(new Set(digests).size, digests.length);
});

Deno.test("the writer refuses what a reader would refuse", () => {
  const lock = lockPage(65536);
  const big = segment(65536, lock + 5);
  const refused: [ObjectHeader, [number, Uint8Array][]][] = [
    [segment(512, 9), [[0, new Uint8Array(512)]]],
    [segment(512, 9), [[10, new Uint8Array(512)]]],
    [segment(512, 9), [[9, new Uint8Array(1024)]]],
    [segment(512, 9), [[3, new Uint8Array(512)], [3, new Uint8Array(512)]]],
    [segment(512, 9), [[3, new Uint8Array(1024)], [4, new Uint8Array(512)]]],
    [segment(512, 9), [[3, new Uint8Array(511)]]],
    [segment(512, 9), [[3, new Uint8Array(0)]]],
    [segment(512, 9), [[1.5, new Uint8Array(512)]]],
    [big, [[lock, new Uint8Array(65536)]]],
    [big, [[lock - 1, new Uint8Array(3 * 65536)]]],
    [snapshot(512, 3), [[1, new Uint8Array(1024)]]],
    [snapshot(512, 3), [[1, new Uint8Array(512)], [3, new Uint8Array(512)]]],
    [{ ...snapshot(512, 3), prev: PREV }, []],
    [{ ...snapshot(512, 3), first_txid: 1 }, []],
    [{ ...segment(512, 3), last_txid: 4 }, []],
    [{ ...segment(512, 3), last_txid: 2 ** 53 }, []],
    [{ ...segment(512, 3), prev: "x" }, []],
    [segment(1000, 3), []],
    [segment(512, 0), []],
    [segment(512, 2 ** 32 - 1), []],
  ];
  const nothing_before = () => encodeObject(snapshot(512, 1), pagesOf(512, 1), { before: () => new Uint8Array(512) });
  assertEquals(assertThrows(nothing_before, TaskdError).code, "internal");
  for (const [header, pages] of refused) {
    const error = assertThrows(() => encodeObject(header, pages), TaskdError);
    assertEquals(error.code, "internal", error.message);
  }
});

Deno.test("the lock page is never stored and reads as zeros from a snapshot", async () => {
  const lock = lockPage(65536);
  const header = snapshot(65536, lock + 1);
  const before = new Uint8Array(64 * 65536); // 256 of these are the 1 GiB before the lock page
  const write = (kind: "snapshot" | "image-index") => {
    const writer = new ObjectWriter({ ...header, kind }, { block_bytes: MAX_BLOCK_BYTES });
    const chunks: Uint8Array[] = [];
    for (let pgno = 1; pgno < lock; pgno += 64) chunks.push(...writer.add(pgno, before));
    chunks.push(...writer.add(lock + 1, page(65536, 5, 1)), ...writer.finish());
    return new Blob(chunks as BlobPart[]).bytes();
  };
  const source = sourceOf(await write("snapshot"));
  const index = await readIndex(source);
  assertEquals([index.pages, index.page(lock)], [lock, undefined]);
  assertEquals(await readPage(source, index, lock), new Uint8Array(65536));
  assertEquals(await readPage(source, index, lock + 1), page(65536, 5, 1));
  assertEquals(await readPage(source, index, lock + 2), undefined);
  const image_index = await readIndex(sourceOf(await write("image-index")));
  assertEquals(image_index.digest, index.digest);
  const end = new Uint8Array(3 * 65536).fill(7, 65536, 2 * 65536);
  end.set(page(65536, 5, 1), 2 * 65536);
  verifyImage(image_index, lock - 1, end);
});

Deno.test("verifyImage() names the first page that differs", async () => {
  const pages = pagesOf(512, 6);
  const index: ObjectIndex = await readIndex(
    sourceOf(encodeObject({ ...snapshot(512, 6), kind: "image-index" }, pages).bytes),
  );
  const image = new Uint8Array(6 * 512);
  for (const [pgno, bytes] of pages) image.set(bytes, (pgno - 1) * 512);
  verifyImage(index, 1, image);
  verifyImage(index, 4, image.subarray(3 * 512));
  image[4 * 512 + 3]! ^= 1;
  assertThrows(() => verifyImage(index, 1, image), TaskdError, "page 5 of the image is damaged");
  assertThrows(() => verifyImage(index, 7, image.subarray(0, 512)), TaskdError, "page 7");
});

Deno.test("a small object is read by range in one request, a large one in few", async () => {
  const small = sourceOf(encodeObject(segment(4096, 99), [[3, page(4096, 3, 1)]]).bytes);
  await readIndex(small);
  assertEquals(small.reads, 1);
  const large = sourceOf(encodeObject(snapshot(512, 4000), pagesOf(512, 4000, 1)).bytes);
  await readIndex(large);
  assertEquals(large.reads, 2);
  const huge_index = encodeObject({ ...snapshot(512, 40000), kind: "image-index" }, [[1, new Uint8Array(40000 * 512)]]);
  const huge = sourceOf(huge_index.bytes);
  await readIndex(huge);
  assertEquals(huge.reads, 3);
});

Deno.test("a snapshot of a real database comes back byte for byte and is smaller", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const db = new DatabaseSync(`${dir}/a.db`);
    db.exec("CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, note TEXT)");
    db.exec(`WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 20000)
      INSERT INTO t SELECT v, 'Customer ' || (v * 7919 % 1000), 'order ' || hex(v * 104729) || ' shipped' FROM n`);
    db.close();
    const image = await Deno.readFile(`${dir}/a.db`);
    const { bytes } = encodeObject(snapshot(4096, image.length / 4096), [[1, image]]);
    assert(bytes.length < image.length * 0.35);
    const { pages } = await decode(bytes);
    assertEquals(await new Blob([...pages.values()] as BlobPart[]).bytes(), image);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("leaving the loop early releases the source", async () => {
  const { bytes } = encodeObject(snapshot(512, 100), pagesOf(512, 100, 1), { block_bytes: 1024 });
  let released = false;
  async function* chunks() {
    try {
      yield* chunksOf(bytes, 100);
    } finally {
      released = true;
    }
  }
  for await (const run of decodePages(chunks(), bytes.length)) {
    assertEquals(run.pgno, 1);
    break;
  }
  assert(released);
});

Deno.test("assertGrowth() requires every page of the growth except the lock page", () => {
  const lock = lockPage(65536);
  assertGrowth(3, new Set([1]), { page_size: 512, page_count: 2 });
  assertGrowth(3, new Set([4, 5]), { page_size: 512, page_count: 5 });
  assertGrowth(lock - 2, new Set([lock - 1, lock + 1]), { page_size: 65536, page_count: lock + 1 });
  assertThrows(() => assertGrowth(3, new Set([5]), { page_size: 512, page_count: 5 }), TaskdError, "page 4");
  const error = assertThrows(
    () => assertGrowth(3, new Set([4, 6]), { page_size: 512, page_count: 6 }),
    TaskdError,
    "page 5",
  );
  assertEquals(error.code, "capture_failed");
});

Deno.test("the bytes are those of the example in docs/reference/format.md", async () => {
  const page_text = await Deno.readTextFile(new URL("../../docs/reference/format.md", import.meta.url));
  const example = page_text.slice(page_text.indexOf("### Example"));
  const header: ObjectHeader = { ...snapshot(512, 2), kind: "image-index", last_txid: 5 };
  const { bytes, digest } = encodeObject(header, [[1, new Uint8Array(1024).fill(1, 512)]]);
  const lines = example.split("\n").filter((line) => line.startsWith("    "));
  assertEquals(bytes.toHex(), lines.join("").replaceAll(" ", ""));
  assert(example.includes(digest));
  // No release may change them.
  assertEquals(
    createHash("sha256").update(bytes).digest("hex"),
    "a60db5601dba5c14d2b11bd50f5ede4fc0e7d8e8a6971571f59395c96d573c0b",
  );
});

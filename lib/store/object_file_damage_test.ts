import { assertEquals, assertRejects } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { crc32, zstdCompressSync } from "node:zlib";
import { type ErrorCode, TaskdError } from "../errors.ts";
import {
  BlockTable,
  encodeFooter,
  encodeHeader,
  encodeIndex,
  MAX_BLOCK_BYTES,
  objectDigest,
} from "./_object_layout.ts";
import {
  anyObject,
  chunksOf,
  decode,
  decodeByRange,
  encodeObject,
  page,
  type Pages,
  pagesOf,
  segment,
  snapshot,
} from "./_object_testing.ts";
import { PageTable } from "./_page_table.ts";
import { decodePages, type ObjectHeader } from "./object_file.ts";

async function assertDamaged(
  bytes: Uint8Array,
  what: string,
  code: ErrorCode = "corrupt",
  before: Pages = new Map(),
): Promise<void> {
  const readers = { decode: () => decode(bytes, undefined, before), decodeByRange: () => decodeByRange(bytes, before) };
  for (const [name, read] of Object.entries(readers)) {
    const error = await assertRejects(read, TaskdError, undefined, `${name} of ${what}`);
    assertEquals(error.code, code, `${name} of ${what}: ${error.message}`);
  }
}

Deno.test("every flipped bit of an object is found", async () => {
  const before = pagesOf(512, 9, 1);
  const changed: Pages = new Map([2, 3, 7].map((pgno) => [pgno, before.get(pgno)!.slice().fill(1, 9, 20)]));
  const samples = {
    differences: encodeObject(segment(512, 9), changed, {
      before: (pgno) => pgno === 3 ? undefined : before.get(pgno),
    }),
    segment: encodeObject(segment(512, 9), [[2, page(512, 2, 0.1)], [3, page(512, 3, 0.1)], [7, page(512, 7, 0.1)]]),
    "raw segment": encodeObject(segment(512, 9), [[9, page(512, 9, 1)]]),
    "empty segment": encodeObject(segment(512, 9), []),
    snapshot: encodeObject(snapshot(512, 3), pagesOf(512, 3, 0.1), { block_bytes: 1024 }),
    "image index": encodeObject({ ...snapshot(512, 3), kind: "image-index" }, pagesOf(512, 3)),
  };
  for (const [name, { bytes }] of Object.entries(samples)) {
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const bad = bytes.slice();
      bad[bit >> 3]! ^= 1 << (bit & 7);
      await assertDamaged(bad, `${name} with bit ${bit} flipped`, "corrupt", before);
    }
  }
});

Deno.test("an object cut or lengthened at any byte is found", async () => {
  const { bytes } = encodeObject(snapshot(512, 5), pagesOf(512, 5, 0.2), { block_bytes: 1024 });
  for (let length = 0; length < bytes.length; length++) {
    await assertDamaged(bytes.subarray(0, length), `${length} bytes`);
  }
  for (const extra of [1, 24, 44, 1000]) {
    const longer = new Uint8Array(bytes.length + extra);
    longer.set(bytes);
    await assertDamaged(longer, `${extra} zeros more`);
    longer.set(bytes.subarray(-extra), bytes.length);
    if (extra !== 24) await assertDamaged(longer, `${extra} bytes more`);
  }
  // A stream that is shorter or longer than the store says.
  for (
    const [stream, size] of [[bytes.subarray(0, -1), bytes.length], [bytes, bytes.length - 1], [
      bytes,
      bytes.length + 1,
    ]] as const
  ) {
    await assertRejects(
      () => Array.fromAsync(decodePages(chunksOf(stream), size)),
      TaskdError,
      "Cannot read a stored object",
    );
  }
});

Deno.test("random damage is always found", async () => {
  const edit = fc.record({ at: fc.nat(), bytes: fc.uint8Array({ minLength: 1, maxLength: 12 }) });
  await fc.assert(
    fc.asyncProperty(
      anyObject,
      fc.array(edit, { minLength: 1, maxLength: 4 }),
      async ({ header, pages, options }, edits) => {
        const { bytes } = encodeObject(header, pages, options);
        const bad = bytes.slice();
        for (const { at, bytes: patch } of edits) {
          const from = at % bad.length;
          bad.set(patch.subarray(0, bad.length - from), from);
        }
        fc.pre(bad.some((byte, i) => byte !== bytes[i]));
        await assertDamaged(bad, "a damaged object");
      },
    ),
    { numRuns: 150 },
  );
});

Deno.test("garbage never reads as an object", async () => {
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 400 }), fc.boolean(), async (garbage, with_header) => {
      const header = encodeHeader(segment(512, 9));
      const bytes = with_header ? new Uint8Array([...header, ...garbage]) : garbage;
      await assertDamaged(bytes, "garbage");
    }),
    { numRuns: 300 },
  );
});

/** An object with correct checksums around any block. */
function forge(header: ObjectHeader, tag: number, runs: number[], payload: Uint8Array, pages: PageTable): Uint8Array {
  const rest = runs.length + payload.length + 4;
  const length = [(rest & 127) | 128, ((rest >> 7) & 127) | 128, (rest >> 14) & 127];
  const block = new Uint8Array([tag, ...length, ...runs, ...payload, 0, 0, 0, 0]);
  if (length[2] === 0) throw new Error("the payload is too short for a number of three bytes");
  new DataView(block.buffer).setUint32(block.length - 4, crc32(block.subarray(0, -4)));
  const blocks = new BlockTable();
  blocks.push(block.length, pages.length);
  const index = encodeIndex(pages, blocks);
  const digest = objectDigest(header, pages);
  const footer = encodeFooter({ index_offset: blocks.offsets[1]!, index_crc: crc32(index), digest });
  return new Uint8Array([...encodeHeader(header), ...block, ...index, ...footer]);
}

Deno.test("a block that unpacks to more than it claims is refused before it is unpacked whole", async () => {
  const bomb = zstdCompressSync(new Uint8Array(1 << 29));
  const pages = new PageTable();
  pages.append(1, crc32(new Uint8Array(512)));
  await assertDamaged(forge(segment(512, 9), 2, [1, 0, 0], bomb, pages), "a bomb");
});

Deno.test("a block that claims more pages than fit into one is refused", async () => {
  const count = MAX_BLOCK_BYTES / 512 + 1;
  const pages = new PageTable();
  for (let i = 1; i <= count; i++) pages.append(i, 0);
  const runs = [1, 0, ((count - 1) & 127) | 128, (count - 1) >> 7];
  await assertDamaged(forge(segment(512, 1 << 20), 2, runs, page(20000, 1, 1), pages), "a huge block");
});

Deno.test("a well-formed block with other pages than the index lists is refused", async () => {
  const bytes = page(65536, 1, 1);
  const pages = new PageTable();
  pages.append(2, crc32(bytes));
  await assertDamaged(forge(segment(65536, 9), 1, [1, 0, 0], bytes, pages), "page 1 listed as page 2");
  const wrong = new PageTable();
  wrong.append(1, crc32(bytes) ^ 1);
  await assertDamaged(forge(segment(65536, 9), 1, [1, 0, 0], bytes, wrong), "a page with another checksum");
  const right = new PageTable();
  right.append(1, crc32(bytes));
  assertEquals((await decode(forge(segment(65536, 9), 1, [1, 0, 0], bytes, right))).pages.get(1), bytes);
});

Deno.test("differences of no page, of a page the block does not hold, or in a snapshot are refused", async () => {
  const [before, after] = [page(65536, 1, 1), page(65536, 2, 1)];
  const difference = after.map((byte, i) => byte ^ before[i]!);
  const pages = new PageTable();
  pages.append(2, crc32(after));
  const forged = (header: ObjectHeader, runs: number[], table = pages) =>
    forge(header, 3, runs, zstdCompressSync(difference), table);
  const was: Pages = new Map([1, 2, 3].map((pgno) => [pgno, before]));
  const held = [1, 1, 0]; // page 2
  const good = forged(segment(65536, 9), [...held, 1, 1, 0]);
  assertEquals((await decode(good, undefined, was)).pages.get(2), after);
  for (
    const [what, runs] of Object.entries({ none: [0], "page 1": [1, 0, 0], "page 3": [1, 2, 0], "2 and 3": [1, 1, 1] })
  ) {
    await assertDamaged(forged(segment(65536, 9), [...held, ...runs]), `the difference of ${what}`, "corrupt", was);
  }
  const first = new PageTable();
  first.append(1, crc32(after));
  await assertDamaged(forged(snapshot(65536, 1), [1, 0, 0, 1, 0, 0], first), "a snapshot of one", "corrupt", was);
});

Deno.test("a newer format version is named as such, a damaged version byte is damage", async () => {
  const { bytes } = encodeObject(segment(512, 9), [[1, page(512, 1, 0)]]);
  const damaged = bytes.slice();
  damaged[8] = 2;
  await assertDamaged(damaged, "a damaged version");
  new DataView(damaged.buffer).setUint32(40, crc32(damaged.subarray(0, 40)));
  await assertDamaged(damaged, "version 2", "unsupported_format");
});

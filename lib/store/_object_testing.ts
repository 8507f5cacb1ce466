/**
 * What the tests of stored objects share: headers, pages, writing at once, and both ways of reading.
 */

import { crc32 } from "node:zlib";
import fc from "../../tests/packages/fast_check.ts";
import { lockPage } from "../sqlite/header.ts";
import { ByteWriter, corrupt } from "./_bytes.ts";
import { decodeBlock } from "./_object_reader.ts";
import {
  decodePages,
  NO_PREV,
  type ObjectHeader,
  type ObjectIndex,
  ObjectWriter,
  type ObjectWriterOptions,
  type PageBefore,
  type RangeSource,
  type ReadBefore,
  readIndex,
} from "./object_file.ts";

const PAGE_SIZES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];
export const PREV = "0123456789abcdef";

export type Pages = Map<number, Uint8Array>;

export function segment(page_size: number, page_count: number): ObjectHeader {
  return { kind: "segment", page_size, page_count, first_txid: 4, last_txid: 7, prev: PREV };
}

export function snapshot(page_size: number, page_count: number): ObjectHeader {
  return { kind: "snapshot", page_size, page_count, first_txid: 0, last_txid: 7, prev: NO_PREV };
}

export function sourceOf(bytes: Uint8Array): RangeSource & { reads: number } {
  return {
    size: bytes.length,
    reads: 0,
    read(offset, length) {
      this.reads++;
      return Promise.resolve(bytes.subarray(offset, offset + length));
    },
  };
}

export async function* chunksOf(bytes: Uint8Array, chunk_bytes = 65536): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += chunk_bytes) {
    yield await Promise.resolve(bytes.subarray(at, at + chunk_bytes));
  }
}

/** What was before a segment, for its readers; nothing where none is given. */
function readerOf(before: Pages | undefined): ReadBefore | undefined {
  return before && ((pgno, into) => into.set(before.get(pgno)!));
}

/** Reads the whole object in one pass. */
export async function decode(bytes: Uint8Array, chunk_bytes?: number, before?: Pages) {
  const pages: Pages = new Map();
  const reader = decodePages(chunksOf(bytes, chunk_bytes), bytes.length, readerOf(before));
  for (;;) {
    const next = await reader.next();
    if (next.done) return { pages, ...next.value };
    const { pgno, bytes: run } = next.value;
    const page_size = new DataView(bytes.buffer, bytes.byteOffset).getUint8(10);
    for (let i = 0; i << page_size < run.length; i++) {
      pages.set(pgno + i, run.subarray(i << page_size, (i + 1) << page_size));
    }
  }
}

/** Reads the whole object by range, page by page. */
export async function decodeByRange(bytes: Uint8Array, before?: Pages) {
  const source = sourceOf(bytes);
  const index = await readIndex(source);
  const pages: Pages = new Map();
  if (index.header.kind !== "image-index") {
    for (const [pgno] of index.entries()) pages.set(pgno, (await readPage(source, index, pgno, readerOf(before)))!);
  }
  return { pages, header: index.header, digest: index.digest };
}

/** Writes a small object at once; `pages` as for {@linkcode ObjectWriter.add}. */
export function encodeObject(
  header: ObjectHeader,
  pages: Iterable<readonly [pgno: number, bytes: Uint8Array]>,
  options: ObjectWriterOptions & { before?: PageBefore } = {},
): { bytes: Uint8Array<ArrayBuffer>; digest: string } {
  const writer = new ObjectWriter(header, options);
  const out = new ByteWriter(256);
  for (const [pgno, bytes] of pages) {
    for (const chunk of writer.add(pgno, bytes, options.before)) out.append(chunk);
  }
  for (const chunk of writer.finish()) out.append(chunk);
  return { bytes: out.bytes().slice(), digest: writer.digest };
}

/**
 * Reads one page through an object's index.
 *
 * @returns Undefined when the object does not hold the page; zeros for the lock page of a snapshot.
 * @throws {TaskdError} `corrupt`; the source's own errors pass through.
 */
export async function readPage(
  source: RangeSource,
  index: ObjectIndex,
  pgno: number,
  readBefore?: ReadBefore,
): Promise<Uint8Array | undefined> {
  const { header } = index;
  const entry = index.page(pgno);
  if (entry === undefined) {
    const is_lock_page = pgno === lockPage(header.page_size) && pgno <= header.page_count;
    return is_lock_page && header.kind === "snapshot" ? new Uint8Array(header.page_size) : undefined;
  }
  const { offset, length } = entry.block!;
  for (const run of decodeBlock(await source.read(offset, length), header, offset, readBefore)) {
    const at = (pgno - run.pgno) * header.page_size;
    if (at < 0 || at >= run.bytes.length) continue;
    const page = run.bytes.subarray(at, at + header.page_size);
    if (crc32(page) !== entry.crc) throw corrupt(`the checksum of page ${pgno} is wrong`);
    return page;
  }
  throw corrupt(`the block at byte ${offset} does not hold page ${pgno}`);
}

/** A page that compresses as little (`noise`) or as well as asked. */
export function page(page_size: number, seed: number, noise: number): Uint8Array {
  const bytes = new Uint8Array(page_size);
  let state = seed >>> 0 || 1;
  for (let i = 0; i < page_size * noise; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  bytes[page_size - 1] = seed;
  return bytes;
}

export function pagesOf(page_size: number, page_count: number, noise = 0.5): Pages {
  return new Map(Array.from({ length: page_count }, (_, i) => [i + 1, page(page_size, i + 1, noise)]));
}

export const anyObject = fc.record({
  page_size: fc.constantFrom(...PAGE_SIZES),
  page_count: fc.integer({ min: 1, max: 40 }),
  holes: fc.array(fc.integer({ min: 1, max: 40 })),
  kind: fc.constantFrom("segment" as const, "snapshot" as const),
  noise: fc.constantFrom(0, 0.3, 1),
  block_bytes: fc.constantFrom(1, 5000, 70000, 262144),
  level: fc.constantFrom(1, 3),
  seed: fc.nat(1000),
}).map(({ page_size, page_count, holes, kind, noise, seed, ...options }) => {
  const header = kind === "segment" ? segment(page_size, page_count) : snapshot(page_size, page_count);
  const pages: Pages = new Map();
  for (let pgno = 1; pgno <= page_count; pgno++) {
    if (kind === "snapshot" || !holes.includes(pgno)) pages.set(pgno, page(page_size, pgno + seed, noise));
  }
  return { header, pages, options };
});

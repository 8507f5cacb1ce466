/**
 * What the tests of stored objects share: headers, pages, and both ways of reading.
 */

import fc from "../../tests/packages/fast_check.ts";
import {
  decodePages,
  NO_PREV,
  type ObjectHeader,
  type RangeSource,
  type ReadBefore,
  readIndex,
  readPage,
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

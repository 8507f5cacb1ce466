/**
 * Reads stored objects: the index and single pages by range, or all pages in one pass.
 * Nothing is believed that a checksum does not cover; damage of any kind is `corrupt`, and no length
 * in an object makes a reader allocate more than a block or the object's own size.
 */

import { crc32, zstdDecompressSync } from "node:zlib";
import { lockPage } from "../sqlite/header.ts";
import { ByteReader, corrupt } from "./_bytes.ts";
import { ChunkReader } from "./_chunk_reader.ts";
import { BlockTable, decodeFooter, decodeHeader, decodeIndex, exclusiveOr, objectDigest } from "./_object_layout.ts";
import { takeRuns } from "./_object_layout.ts";
import { FOOTER_BYTES, HEADER_BYTES, MAX_BLOCK_BYTES, MAX_STORED_BLOCK_BYTES, TAG } from "./_object_layout.ts";
import type { Footer, ObjectHeader } from "./_object_layout.ts";
import { PageTable, type Run } from "./_page_table.ts";

/** Bytes read from the end at first: the whole of most segments, the whole index of a snapshot up to about 100 MB. */
const TAIL_BYTES = 128 << 10;

export interface RangeSource {
  size: number;
  /** Reads `length` bytes from `offset`, fewer only at the end. */
  read(offset: number, length: number): Promise<Uint8Array>;
}

export interface PageRun {
  /** Number of the first. */
  pgno: number;
  /** Whole pages, the reader's to keep. */
  bytes: Uint8Array;
}

interface IndexedPage {
  crc: number;
  /** The block that holds it, by byte offset and length; undefined in an image index. */
  block: { offset: number; length: number } | undefined;
}

/** An object's header and index, read and checked. */
export class ObjectIndex {
  readonly header: Readonly<ObjectHeader>;
  /** The object's digest, 16 hex digits. */
  readonly digest: string;
  readonly #pages: PageTable;
  readonly #blocks: BlockTable;

  constructor(header: ObjectHeader, digest: string, pages: PageTable, blocks: BlockTable) {
    this.header = header;
    this.digest = digest;
    this.#pages = pages;
    this.#blocks = blocks;
  }

  get pages(): number {
    return this.#pages.length;
  }

  /** Where a page is; undefined when the object does not hold it. */
  page(pgno: number): IndexedPage | undefined {
    const position = this.#pages.find(pgno);
    if (position < 0) return undefined;
    const crc = this.#pages.crcAt(position);
    if (this.#blocks.length === 0) return { crc, block: undefined };
    const block = this.#blocks.find(position);
    const offset = this.#blocks.offsets[block]!;
    return { crc, block: { offset, length: this.#blocks.offsets[block + 1]! - offset } };
  }

  /** Page numbers with the CRC-32 of each page, ascending: enough to compare two databases. */
  entries(): Iterable<[pgno: number, crc: number]> {
    return this.#pages;
  }

  /** Throws `corrupt` unless these are the pages and blocks that a pass over the body saw. */
  assertSeen(pages: PageTable, blocks: BlockTable): void {
    if (blocks.offsets.join() !== this.#blocks.offsets.join()) throw corrupt("its blocks are not where its index says");
    const expected = this.#pages[Symbol.iterator]();
    for (const [pgno, crc] of pages) {
      const entry = expected.next();
      if (entry.done || entry.value[0] !== pgno) throw corrupt(`its index does not list page ${pgno}`);
      if (entry.value[1] !== crc) throw corrupt(`the checksum of page ${pgno} is wrong`);
    }
    if (!expected.next().done) throw corrupt("its index lists pages that it does not hold");
  }
}

async function readExactly(source: RangeSource, offset: number, length: number): Promise<Uint8Array> {
  const bytes = await source.read(offset, length);
  if (bytes.length !== length) throw corrupt(`it ends before byte ${offset + length}`);
  return bytes;
}

function parseIndex(header: ObjectHeader, bytes: Uint8Array, footer: Footer): ObjectIndex {
  if (crc32(bytes) !== footer.index_crc) throw corrupt("the index's checksum is wrong");
  const { pages, blocks } = decodeIndex(bytes, header);
  if (blocks.offsets.at(-1) !== footer.index_offset) throw corrupt("its blocks do not end where its index begins");
  if (objectDigest(header, pages) !== footer.digest) throw corrupt("its digest is not that of its contents");
  return new ObjectIndex(header, footer.digest, pages, blocks);
}

/**
 * Reads an object's header and index and checks both: one range read for a small object, two at
 * once for most, one more for the index of a very large one.
 *
 * @throws {TaskdError} `corrupt` or `unsupported_format`; the source's own errors pass through.
 */
export async function readIndex(source: RangeSource): Promise<ObjectIndex> {
  const { size } = source;
  if (size < HEADER_BYTES + FOOTER_BYTES) throw corrupt(`it has only ${size} bytes`);
  const tail_offset = Math.max(0, size - TAIL_BYTES);
  const [tail, head] = await Promise.all([
    readExactly(source, tail_offset, size - tail_offset),
    tail_offset === 0 ? undefined : readExactly(source, 0, HEADER_BYTES),
  ]);
  const header = decodeHeader(head ?? tail);
  const footer = decodeFooter(tail.subarray(-FOOTER_BYTES), size);
  const length = size - FOOTER_BYTES - footer.index_offset;
  if (length > maxIndexBytes(header)) throw corrupt("its index is longer than it can be");
  const index = footer.index_offset >= tail_offset
    ? tail.subarray(footer.index_offset - tail_offset, -FOOTER_BYTES)
    : await readExactly(source, footer.index_offset, length);
  return parseIndex(header, index, footer);
}

/** At worst every page is a block and a run of its own. */
function maxIndexBytes(header: ObjectHeader): number {
  return 16 + header.page_count * (10 + 10 + 4);
}

/**
 * Fills `into` with a page as the chain has it before the segment that is read; a page that was not there is `corrupt`.
 * Without it a segment that holds differences cannot be read.
 */
export type ReadBefore = (pgno: number, into: Uint8Array) => void;

/** Throws `corrupt` unless a block's checksum is right; returns how to call the block. */
function requireBlockChecksum(block: Uint8Array, offset: number): string {
  const what = `the block at byte ${offset}`;
  const checksum = new ByteReader(block.subarray(-4), what).uint32();
  if (crc32(block.subarray(0, -4)) !== checksum) throw corrupt(`the checksum of ${what} is wrong`);
  return what;
}

/** Decodes a whole block and makes every check of it. */
export function decodeBlock(
  block: Uint8Array,
  header: ObjectHeader,
  offset: number,
  readBefore?: ReadBefore,
): PageRun[] {
  const what = requireBlockChecksum(block, offset);
  const input = new ByteReader(block.subarray(0, -4), what);
  const tag = input.byte();
  if ((tag !== TAG.raw && tag !== TAG.zstd && tag !== TAG.differences) || input.varint() !== input.left + 4) {
    throw corrupt(`${what} does not begin as one`);
  }
  const runs = takeRuns(input, header);
  const raw_bytes = runs.reduce((sum, run) => sum + run.count, 0) * header.page_size;
  if (raw_bytes === 0 || raw_bytes > Math.max(MAX_BLOCK_BYTES, header.page_size)) {
    throw corrupt(`${what} claims ${raw_bytes} bytes of pages`);
  }
  const differences = tag === TAG.differences ? takeRuns(input, header) : [];
  const payload = input.take(input.left);
  const raw = tag === TAG.raw ? payload : unpack(payload, raw_bytes, what);
  if (raw.length !== raw_bytes) throw corrupt(`${what} holds ${raw.length} bytes of pages, not ${raw_bytes}`);
  let at = 0;
  const pages = runs.map(({ first, count }) => {
    const bytes = raw.subarray(at, at += count * header.page_size);
    return { pgno: first, bytes };
  });
  if (tag === TAG.differences) {
    if (header.kind !== "segment" || differences.length === 0) throw corrupt(`${what} does not begin as one`);
    if (readBefore === undefined) throw corrupt(`${what} holds differences, and what was before is not at hand`);
    addBefore(pages, differences, header, readBefore, what);
  }
  return pages;
}

function addBefore(
  pages: PageRun[],
  differences: Run[],
  { page_size }: ObjectHeader,
  readBefore: ReadBefore,
  what: string,
): void {
  const before = new Uint8Array(page_size);
  let next = 0;
  for (const { first, count } of differences) {
    for (let pgno = first; pgno < first + count; pgno++) {
      const holds = ({ pgno: start, bytes }: PageRun) => pgno < start + bytes.length / page_size;
      while (next < pages.length && !holds(pages[next]!)) next++;
      const run = pages[next];
      if (run === undefined || pgno < run.pgno) throw corrupt(`${what} has the difference of a page it does not hold`);
      readBefore(pgno, before);
      const at = (pgno - run.pgno) * page_size;
      exclusiveOr(run.bytes.subarray(at, at + page_size), before);
    }
  }
}

function unpack(payload: Uint8Array, raw_bytes: number, what: string): Uint8Array {
  try {
    const { buffer, byteOffset, length } = zstdDecompressSync(payload, { maxOutputLength: raw_bytes });
    return new Uint8Array(buffer, byteOffset, length); // not a Buffer, whose slice() shares memory
  } catch (cause) {
    throw corrupt(`${what} cannot be decompressed`, cause);
  }
}

/**
 * Checks pages of a plain image against its index.
 *
 * @param pgno Number of the first page.
 * @param bytes Whole consecutive pages; the lock page may be among them and is ignored.
 * @throws {TaskdError} `corrupt`, with the number of the first page that differs.
 */
export function verifyImage(index: ObjectIndex, pgno: number, bytes: Uint8Array): void {
  const { page_size } = index.header;
  const lock = lockPage(page_size);
  for (let at = 0; at < bytes.length; at += page_size) {
    const page = pgno + at / page_size;
    if (page === lock) continue;
    const entry = index.page(page);
    if (entry === undefined) throw corrupt(`the image has page ${page}, which its index does not list`);
    if (entry.crc !== crc32(bytes.subarray(at, at + page_size))) throw corrupt(`page ${page} of the image is damaged`);
  }
}

/** A block as it is stored, its checksum not compared yet. */
interface StoredBlock {
  header: ObjectHeader;
  block: Uint8Array;
  offset: number;
}

/** Reads all blocks of an object in one pass; then the index, the digest and that nothing follows are checked. */
async function* storedBlocks(
  chunks: AsyncIterable<Uint8Array>,
  size: number,
): AsyncGenerator<StoredBlock, ObjectIndex> {
  const input = new ChunkReader(chunks);
  try {
    const header = decodeHeader(await input.take(HEADER_BYTES));
    for (;;) {
      const offset = input.offset;
      const tag = await input.take(1);
      if (tag[0] === TAG.index) break;
      if (header.kind === "image-index") throw corrupt("an image index holds a block");
      yield { header, block: await takeBlock(input, tag[0]!), offset };
    }
    const index_offset = input.offset - 1;
    const rest = size - FOOTER_BYTES - input.offset;
    if (rest < 0 || rest > maxIndexBytes(header)) throw corrupt("its index is shorter or longer than it can be");
    const index_bytes = new Uint8Array(1 + rest); // begins with the tag, 0
    index_bytes.set(await input.take(rest), 1);
    const footer = decodeFooter(await input.take(FOOTER_BYTES), size);
    if (footer.index_offset !== index_offset) throw corrupt("its index is not where its footer says");
    if (!await input.ended()) throw corrupt(`bytes follow after byte ${size}`);
    return parseIndex(header, index_bytes, footer);
  } finally {
    await input.close();
  }
}

/**
 * Reads all pages of an object in one pass, in runs. Every block is checked before its pages are handed out;
 * the index, the digest and that nothing follows are checked at the end. So a consumer must not
 * publish what it made of the pages before the generator has completed.
 *
 * @param chunks The object's bytes.
 * @param size Its size in the store, in bytes.
 * @returns Header and digest, as the generator's return value.
 * @throws {TaskdError} `corrupt` or `unsupported_format`; the stream's own errors pass through.
 */
export async function* decodePages(
  chunks: AsyncIterable<Uint8Array>,
  size: number,
  readBefore?: ReadBefore,
): AsyncGenerator<PageRun, { header: ObjectHeader; digest: string }> {
  const stored = storedBlocks(chunks, size);
  const pages = new PageTable();
  const blocks = new BlockTable();
  try {
    for (;;) {
      const next = await stored.next();
      if (next.done) {
        const index = next.value;
        if (index.header.kind !== "image-index") index.assertSeen(pages, blocks);
        return { header: index.header, digest: index.digest };
      }
      const { header, block, offset } = next.value;
      let count = 0;
      for (const run of decodeBlock(block, header, offset, readBefore)) {
        if (run.pgno <= pages.last) throw corrupt(`page ${run.pgno} comes after page ${pages.last}`);
        for (let at = 0; at < run.bytes.length; at += header.page_size) {
          pages.append(run.pgno + at / header.page_size, crc32(run.bytes.subarray(at, at + header.page_size)));
        }
        count += run.bytes.length / header.page_size;
        yield run;
      }
      blocks.push(block.length, count);
    }
  } finally {
    await stored.return(undefined as never);
  }
}

/**
 * Compares every stored byte of an object with the checksum that covers it, and decodes nothing but the index.
 *
 * @throws {TaskdError} `corrupt` or `unsupported_format`; the stream's own errors pass through.
 */
export async function readThrough(chunks: AsyncIterable<Uint8Array>, size: number): Promise<ObjectIndex> {
  const stored = storedBlocks(chunks, size);
  for (;;) {
    const next = await stored.next();
    if (next.done) return next.value;
    const { block, offset } = next.value;
    try {
      requireBlockChecksum(block, offset);
    } catch (error) {
      await stored.return(undefined as never);
      throw error;
    }
  }
}

/** Takes the rest of a block whose first byte was `tag`; returns all of it. */
async function takeBlock(input: ChunkReader, tag: number): Promise<Uint8Array> {
  const head = [tag];
  let length = 0;
  for (let scale = 1;; scale *= 128) {
    const byte = (await input.take(1))[0]!;
    head.push(byte);
    length += (byte & 127) * scale;
    if (byte < 128) break;
    if (scale === 128 ** 3) throw corrupt("a block's length is malformed");
  }
  if (length > MAX_STORED_BLOCK_BYTES) throw corrupt("a block is longer than it can be");
  if (length < 4) throw corrupt("a block is shorter than it can be");
  const block = new Uint8Array(head.length + length);
  block.set(head);
  block.set(await input.take(length), head.length);
  return block;
}

/**
 * The bytes of stored objects, for readers and writers: header, runs, index and footer, each turned into values and
 * back, with every check that needs nothing but the bytes. docs/reference/format.md describes the format.
 */

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { TaskdError } from "../errors.ts";
import { isPageSize, lockPage } from "../sqlite/header.ts";
import { ByteReader, ByteWriter, corrupt } from "./_bytes.ts";
import { PageTable, type Run } from "./_page_table.ts";
import type { Txid } from "./names.ts";

/** Bytes of the header; those up to the checksum's end keep their meaning in every format version. */
export const HEADER_BYTES = 44;
export const FOOTER_BYTES = 24;
const FORMAT_VERSION = 1;
/** Most raw bytes in a block: what a reader allocates for one, even if the object declares more. */
export const MAX_BLOCK_BYTES = 4 << 20;
/** Most stored bytes in a block after its length: the pages raw, two 5-byte numbers for each, twice, a checksum. */
export const MAX_STORED_BLOCK_BYTES = MAX_BLOCK_BYTES + (MAX_BLOCK_BYTES / 512) * 20 + 16;
/** SQLite's largest page number. */
const MAX_PAGE_COUNT = 0xfffffffe;

/** First byte of each part after the header. */
export const TAG = { index: 0, raw: 1, zstd: 2, differences: 3 } as const;

/** The 8 bytes at the start of every object; the last ones show a transfer that rewrites line ends. */
const MAGIC = new Uint8Array([0x74, 0x61, 0x73, 0x6b, 0x64, 0x0d, 0x0a, 0x1a]); // "taskd\r\n\x1a"

const KINDS: Record<ObjectFileKind, number> = { segment: 1, snapshot: 2, "image-index": 3 };

/** `prev` of an object that begins a chain. */
export const NO_PREV = "0000000000000000";

/** What an object is: pages changed, a whole database, or the checksums of a plain image beside it. */
export type ObjectFileKind = "segment" | "snapshot" | "image-index";

export interface ObjectHeader {
  kind: ObjectFileKind;
  page_size: number;
  /** Pages of the database after `last_txid`. */
  page_count: number;
  /** The txid before the first that a segment holds; 0 for the other kinds. */
  first_txid: Txid;
  /** The txid that the chain reaches with this object. */
  last_txid: Txid;
  /** Digest of the object before it in the chain, 16 hex digits; all zeros except for a segment. */
  prev: string;
}

/** Where the index lies and what it must add up to. */
export interface Footer {
  index_offset: number;
  index_crc: number;
  digest: string;
}

/** What is wrong with a header's values; undefined when nothing is. Writers and readers both ask. */
export function headerProblem(header: ObjectHeader): string | undefined {
  const { kind, page_size, page_count, first_txid, last_txid, prev } = header;
  if (!isPageSize(page_size)) return `page size ${page_size} is not one of SQLite's`;
  if (!Number.isInteger(page_count) || page_count < 1 || page_count > MAX_PAGE_COUNT) {
    return `page count ${page_count} is out of range`;
  }
  if (![first_txid, last_txid].every((txid) => Number.isSafeInteger(txid) && txid >= 0)) {
    return `txids ${first_txid} to ${last_txid} are out of range`;
  }
  if (!/^[0-9a-f]{16}$/.test(prev)) return "the previous object's digest is not 16 hex digits";
  if (kind === "segment") {
    return last_txid > first_txid ? undefined : `a segment cannot go from txid ${first_txid} to ${last_txid}`;
  }
  if (first_txid !== 0) return `a ${kind} begins at txid 0, not ${first_txid}`;
  return prev === NO_PREV ? undefined : `a ${kind} has no previous object`;
}

/** Pages that an object of this header must hold in all; undefined for a segment, which may hold any. */
export function requiredPages(header: ObjectHeader): number | undefined {
  if (header.kind === "segment") return undefined;
  return header.page_count - (lockPage(header.page_size) <= header.page_count ? 1 : 0);
}

export function encodeHeader(header: ObjectHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  bytes[8] = FORMAT_VERSION;
  putFields(view, 9, KINDS[header.kind], header);
  view.setUint32(40, crc32(bytes.subarray(0, 40)));
  return bytes;
}

/** Kind, page size, page count, txids and prev: 31 bytes from `at`, also the beginning of what the digest is over. */
function putFields(view: DataView, at: number, kind: number, header: ObjectHeader): void {
  view.setUint8(at, kind);
  view.setUint8(at + 1, Math.log2(header.page_size));
  view.setUint8(at + 2, 0);
  view.setUint32(at + 3, header.page_count);
  view.setBigUint64(at + 7, BigInt(header.first_txid));
  view.setBigUint64(at + 15, BigInt(header.last_txid));
  view.setBigUint64(at + 23, BigInt(`0x${header.prev}`));
}

/** Reads a header; a version after this one is `unsupported_format`, anything else wrong `corrupt`. */
export function decodeHeader(bytes: Uint8Array): ObjectHeader {
  if (bytes.length < HEADER_BYTES) throw corrupt(`it ends after ${bytes.length} bytes, inside its header`);
  if (MAGIC.some((byte, i) => bytes[i] !== byte)) throw corrupt("it does not begin as one");
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_BYTES);
  // Before the version, so that a damaged version byte is distinguished from a newer format.
  if (view.getUint32(40) !== crc32(bytes.subarray(0, 40))) throw corrupt("the header's checksum is wrong");
  const version = view.getUint8(8);
  if (version > FORMAT_VERSION) {
    throw new TaskdError("unsupported_format", `Cannot read a stored object of format version ${version}`, {
      hint: `This program reads version ${FORMAT_VERSION}; use the newer one that wrote the store`,
    });
  }
  const kind = (Object.keys(KINDS) as ObjectFileKind[]).find((name) => KINDS[name] === view.getUint8(9));
  if (version !== FORMAT_VERSION || kind === undefined || view.getUint8(11) !== 0) {
    throw corrupt("the header's version, kind or reserved byte is not known");
  }
  const header: ObjectHeader = {
    kind,
    page_size: 2 ** view.getUint8(10),
    page_count: view.getUint32(12),
    first_txid: Number(view.getBigUint64(16)),
    last_txid: Number(view.getBigUint64(24)),
    prev: view.getBigUint64(32).toString(16).padStart(16, "0"),
  };
  const problem = headerProblem(header);
  if (problem !== undefined) throw corrupt(problem);
  return header;
}

/**
 * The object's digest: the first 8 bytes, as hex, of SHA-256 over its content and not over
 * its compression. An image index counts as the snapshot that it describes, so both forms of one
 * snapshot have one digest.
 */
export function objectDigest(header: ObjectHeader, pages: PageTable): string {
  const hash = createHash("sha256");
  const fields = new Uint8Array(31);
  putFields(new DataView(fields.buffer), 0, header.kind === "segment" ? KINDS.segment : KINDS.snapshot, header);
  hash.update(fields);
  const batch = new DataView(new ArrayBuffer(65536));
  let at = 0;
  for (const [pgno, crc] of pages) {
    batch.setUint32(at, pgno);
    batch.setUint32(at + 4, crc);
    at += 8;
    if (at === batch.byteLength) {
      hash.update(batch);
      at = 0;
    }
  }
  hash.update(new Uint8Array(batch.buffer, 0, at));
  return hash.digest("hex").slice(0, 16);
}

export function encodeFooter(footer: Footer): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(FOOTER_BYTES);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(footer.index_offset));
  view.setUint32(8, footer.index_crc);
  view.setBigUint64(12, BigInt(`0x${footer.digest}`));
  view.setUint32(20, crc32(bytes.subarray(0, 20)));
  return bytes;
}

/** Reads the footer, the last bytes of an object of `size` bytes. */
export function decodeFooter(bytes: Uint8Array, size: number): Footer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, FOOTER_BYTES);
  if (view.getUint32(20) !== crc32(bytes.subarray(0, 20))) {
    throw corrupt("the footer's checksum is wrong, so the end is damaged or missing");
  }
  const index_offset = Number(view.getBigUint64(0));
  if (index_offset < HEADER_BYTES || index_offset >= size - FOOTER_BYTES) {
    throw corrupt("the footer points to an index outside the object");
  }
  return { index_offset, index_crc: view.getUint32(8), digest: view.getBigUint64(12).toString(16).padStart(16, "0") };
}

/** Where the blocks lie and how many pages each holds. */
export class BlockTable {
  /** Byte offset of each block, and of the end of the last. */
  readonly offsets: number[] = [HEADER_BYTES];
  /** Pages before each block, and in all. */
  readonly pages_before: number[] = [0];

  /** Adds the next block, `bytes` long in the object, with `pages` pages. */
  push(bytes: number, pages: number): void {
    this.offsets.push(this.offsets.at(-1)! + bytes);
    this.pages_before.push(this.pages_before.at(-1)! + pages);
  }

  get length(): number {
    return this.offsets.length - 1;
  }

  get pages(): number {
    return this.pages_before.at(-1)!;
  }

  /** The block that holds the page which is number `position` among all pages. */
  find(position: number): number {
    let [low, high] = [0, this.length];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.pages_before[middle]! <= position) low = middle;
      else high = middle;
    }
    return low;
  }
}

export function encodeIndex(pages: PageTable, blocks: BlockTable): Uint8Array<ArrayBuffer> {
  const out = new ByteWriter(16 + blocks.length * 8 + pages.runs.length * 6 + pages.length * 4);
  out.byte(TAG.index);
  out.varint(blocks.length);
  for (let i = 0; i < blocks.length; i++) {
    out.varint(blocks.offsets[i + 1]! - blocks.offsets[i]!);
    out.varint(blocks.pages_before[i + 1]! - blocks.pages_before[i]!);
  }
  putRuns(out, pages.runs);
  for (let i = 0; i < pages.length; i++) out.uint32(pages.crcAt(i));
  return out.bytes();
}

/** Reads the index, whose checksum the caller has compared, of an object of this header. */
export function decodeIndex(bytes: Uint8Array, header: ObjectHeader): { pages: PageTable; blocks: BlockTable } {
  const input = new ByteReader(bytes, "the index");
  if (input.byte() !== TAG.index) throw corrupt("the index does not begin as one");
  const blocks = new BlockTable();
  for (let left = input.varint(); left > 0; left--) blocks.push(input.varint(), input.varint());
  const pages = new PageTable();
  const runs = takeRuns(input, header);
  const total = runs.reduce((sum, run) => sum + run.count, 0);
  if (input.left !== total * 4) throw corrupt(`the index lists ${total} pages and has checksums for another number`);
  pages.reserve(total);
  for (const { first, count } of runs) {
    for (let i = 0; i < count; i++) pages.append(first + i, input.uint32());
  }
  const required = requiredPages(header);
  if (required !== undefined && total !== required) {
    throw corrupt(`a ${header.kind} of ${header.page_count} pages holds ${total}, not ${required}`);
  }
  if (blocks.pages !== (header.kind === "image-index" ? 0 : total)) {
    throw corrupt(`its blocks hold ${blocks.pages} pages and its index ${total}`);
  }
  return { pages, blocks };
}

/** Turns a page into its bitwise difference from the page before it, or the difference back into the page. */
export function exclusiveOr(page: Uint8Array, before: Uint8Array): void {
  for (let i = 0; i < page.length; i++) page[i]! ^= before[i]!;
}

/** Writes runs: their number, then for each the gap since the one before (page 1 for the first) and length - 1. */
export function putRuns(out: ByteWriter, runs: readonly Run[]): void {
  out.varint(runs.length);
  let next = 1;
  for (const { first, count } of runs) {
    out.varint(first - next);
    out.varint(count - 1);
    next = first + count;
  }
}

/** Reads runs; pages are then ascending, within the database and none is the lock page. */
export function takeRuns(input: ByteReader, header: ObjectHeader): Run[] {
  const lock = lockPage(header.page_size);
  const runs: Run[] = [];
  let next = 1;
  for (let left = input.varint(); left > 0; left--) {
    const gap = input.varint();
    if (gap === 0 && runs.length > 0) throw corrupt("two runs of pages touch each other");
    const first = next + gap;
    const count = input.varint() + 1;
    next = first + count;
    if (next - 1 > header.page_count) throw corrupt(`it holds page ${next - 1} of ${header.page_count}`);
    if (first <= lock && lock < next) throw corrupt(`it holds page ${lock}, which SQLite never uses`);
    runs.push({ first, count });
  }
  return runs;
}

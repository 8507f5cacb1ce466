/**
 * Reads SQLite's write-ahead log: which pages the committed transactions in it
 * changed, and where their newest bytes lie. Does no I/O of its own. Guarantees
 * that nothing is reported which SQLite itself would not recover: a frame counts
 * only if its salts are the header's and the running checksum holds, and only up to a
 * whole commit. The format is that of https://sqlite.org/fileformat2.html#walformat.
 */

import { crc32 } from "node:zlib";
import { isPageSize } from "./header.ts";

export const WAL_HEADER_BYTES = 32;
export const WAL_FRAME_HEADER_BYTES = 24;

/** The low bit set: checksums are over big-endian words. */
const MAGIC_LITTLE_ENDIAN = 0x377f0682;
const MAGIC_BIG_ENDIAN = 0x377f0683;
/** The only version that SQLite has ever written. */
const WAL_VERSION = 3007000;

const READ_BYTES = 1 << 20;
/** Shared by all calls, which are synchronous; made at the first one. A poll of an idle log then allocates no buffer. */
let shared: Uint8Array<ArrayBuffer> | undefined;

/** The fields of the file's header; checksums and salts are unsigned 32-bit numbers. */
export interface WalHeader {
  /** Whether checksums are over big-endian words. */
  big_endian_checksums: boolean;
  page_size: number;
  /** Grows by one at each reset. */
  salt1: number;
  /** Random, new at each reset. */
  salt2: number;
  /** The two halves of the header's checksum; the running checksum starts from it. */
  checksum1: number;
  checksum2: number;
}

/** A place between two frames from which reading can go on. */
export interface WalPosition {
  offset: number;
  /** The two halves of the running checksum of everything before. */
  checksum1: number;
  checksum2: number;
}

export interface WalCommit {
  /** Page number to byte offset of the page's newest bytes in the file; none is past `page_count`. */
  pages: Map<number, number>;
  /** CRC-32 of the newest bytes of these pages, and perhaps of others. */
  checksums: Map<number, number>;
  /** Pages of the database after the last of the transactions. */
  page_count: number;
  /** The fewest pages after any of the transactions: pages above were dropped, and count only if in `pages`. */
  low_page_count: number;
  commits: number;
  end: WalPosition;
}

/** Fills `into` from `offset` and returns how many bytes it could; fewer only at the end of the file. */
export type WalRead = (offset: number, into: Uint8Array) => number;

/** Running checksum over pairs of words: SQLite's walChecksumBytes(). Mutated in place. */
class Checksum {
  s1: number;
  s2: number;

  constructor(s1: number, s2: number) {
    this.s1 = s1 | 0;
    this.s2 = s2 | 0;
  }

  addBytes(view: DataView, from: number, to: number, little_endian: boolean): void {
    let { s1, s2 } = this;
    for (let i = from; i < to; i += 8) {
      s1 = (s1 + view.getInt32(i, little_endian) + s2) | 0;
      s2 = (s2 + view.getInt32(i + 4, little_endian) + s1) | 0;
    }
    this.s1 = s1;
    this.s2 = s2;
  }
}

/**
 * Reads the header of a -wal file.
 *
 * @param bytes The beginning of the file; what follows the first 32 bytes is ignored.
 * @returns Undefined unless magic, version, page size and checksum hold: SQLite then takes the log for empty.
 */
export function parseWalHeader(bytes: Uint8Array): WalHeader | undefined {
  if (bytes.length < WAL_HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, WAL_HEADER_BYTES);
  const magic = view.getUint32(0);
  if (magic !== MAGIC_LITTLE_ENDIAN && magic !== MAGIC_BIG_ENDIAN) return undefined;
  if (view.getUint32(4) !== WAL_VERSION) return undefined;
  const page_size = view.getUint32(8);
  if (!isPageSize(page_size)) return undefined;
  const header: WalHeader = {
    big_endian_checksums: magic === MAGIC_BIG_ENDIAN,
    page_size,
    salt1: view.getUint32(16),
    salt2: view.getUint32(20),
    checksum1: view.getUint32(24),
    checksum2: view.getUint32(28),
  };
  const sum = new Checksum(0, 0);
  sum.addBytes(view, 0, 24, !header.big_endian_checksums);
  return sum.s1 >>> 0 === header.checksum1 && sum.s2 >>> 0 === header.checksum2 ? header : undefined;
}

export function walFrameBytes(header: WalHeader): number {
  return WAL_FRAME_HEADER_BYTES + header.page_size;
}

export function walStart(header: WalHeader): WalPosition {
  return { offset: WAL_HEADER_BYTES, checksum1: header.checksum1, checksum2: header.checksum2 };
}

/**
 * Reads every whole transaction from `from` on, merged into one.
 *
 * Ends at the first frame that is incomplete, has page number 0, other salts or a
 * wrong checksum; frames past the last commit are not reported. A page past
 * the end of the database at some commit is dropped at that commit, as SQLite does, and is back
 * only if a later one writes it again.
 *
 * @param from {@linkcode walStart}, or the `end` of an earlier answer under the same header.
 * @param options With `trusted`, salts and
 * checksums are not checked: for frames that SQLite itself counts.
 * @returns Undefined when there is no whole transaction.
 */
export function readCommits(
  header: WalHeader,
  from: WalPosition,
  read: WalRead,
  options: { trusted?: boolean } = {},
): WalCommit | undefined {
  const { page_size, salt1, salt2 } = header;
  const frame_bytes = walFrameBytes(header);
  const { trusted = false } = options;
  const little_endian = !header.big_endian_checksums;
  const bytes = shared ??= new Uint8Array(READ_BYTES);
  const view = new DataView(bytes.buffer);
  // Whole frames per read, so that none is ever split.
  const chunk = bytes.subarray(0, READ_BYTES - READ_BYTES % frame_bytes);

  const sum = new Checksum(from.checksum1, from.checksum2);
  const pages = new Map<number, number>();
  const checksums = new Map<number, number>();
  let open: number[] = []; // page numbers of the transaction being read, in frame order
  let open_checksums: number[] = []; // and their checksums
  let open_offset = from.offset; // where its first frame begins
  let top = 0; // highest page number ever put in `pages`
  let result: Omit<WalCommit, "pages" | "checksums"> | undefined;

  for (let offset = from.offset;;) {
    const got = read(offset, chunk);
    const whole = got - got % frame_bytes;
    for (let at = 0; at < whole; at += frame_bytes) {
      const pgno = view.getUint32(at);
      const ours = trusted || (view.getUint32(at + 8) === salt1 && view.getUint32(at + 12) === salt2);
      if (pgno === 0 || !ours) return result && { pages, checksums, ...result };
      const data = at + WAL_FRAME_HEADER_BYTES;
      if (trusted) {
        sum.s1 = view.getInt32(at + 16);
        sum.s2 = view.getInt32(at + 20);
      } else {
        sum.addBytes(view, at, at + 8, little_endian);
        sum.addBytes(view, data, data + page_size, little_endian);
      }
      if (sum.s1 !== view.getInt32(at + 16) || sum.s2 !== view.getInt32(at + 20)) {
        return result && { pages, checksums, ...result };
      }
      open.push(pgno);
      open_checksums.push(crc32(bytes.subarray(data, data + page_size)));
      const page_count = view.getUint32(at + 4);
      if (page_count === 0) continue;

      for (let i = 0; i < open.length; i++) {
        pages.set(open[i]!, open_offset + i * frame_bytes + WAL_FRAME_HEADER_BYTES);
        checksums.set(open[i]!, open_checksums[i]!);
        if (open[i]! > top) top = open[i]!;
      }
      if (top > page_count) {
        for (const page of pages.keys()) if (page > page_count) pages.delete(page);
        top = page_count;
      }
      open_offset = offset + at + frame_bytes;
      result = {
        page_count,
        low_page_count: Math.min(result?.low_page_count ?? page_count, page_count),
        commits: (result?.commits ?? 0) + 1,
        end: { offset: open_offset, checksum1: sum.s1 >>> 0, checksum2: sum.s2 >>> 0 },
      };
      open = [];
      open_checksums = [];
    }
    if (got < chunk.length) return result && { pages, checksums, ...result };
    offset += whole;
  }
}

/**
 * Writes stored objects: pages in, finished chunks out, with one block of pages in
 * memory at a time. Refuses to write what a reader would refuse to read.
 */

import { constants, crc32, zstdCompressSync } from "node:zlib";
import { TaskdError } from "../errors.ts";
import { lockPage } from "../sqlite/header.ts";
import { ByteWriter } from "./_bytes.ts";
import { BlockTable, encodeFooter, encodeHeader, encodeIndex, exclusiveOr, headerProblem } from "./_object_layout.ts";
import { objectDigest, putRuns, requiredPages } from "./_object_layout.ts";
import { MAX_BLOCK_BYTES, TAG } from "./_object_layout.ts";
import type { ObjectHeader } from "./_object_layout.ts";
import { PageTable, type Run, runsOf } from "./_page_table.ts";

/** Raw bytes of a block: one page is read at the cost of one block, and larger ones measured no smaller. */
const DEFAULT_BLOCK_BYTES = 256 << 10;
/** On pages of a realistic database level 3 measured no smaller than level 1 and a third slower. */
const DEFAULT_LEVEL = 1;

export interface ObjectWriterOptions {
  /** zstd level, default 1. */
  level?: number;
  /** Raw bytes in a block, default 256 KiB, at most 4 MiB; a block holds at least one page. */
  block_bytes?: number;
}

/**
 * The page as it was before the segment, for certain; undefined where that is not known. A page that is written as its
 * difference from another is lost.
 */
export type PageBefore = (pgno: number) => Uint8Array | undefined;

function defect(problem: string): TaskdError {
  return new TaskdError("internal", `Cannot write a stored object: ${problem}`);
}

/** Writes one object; the chunks that its methods return, in order, are the object's bytes. */
export class ObjectWriter {
  readonly #header: ObjectHeader;
  readonly #lock_page: number;
  readonly #level: number;
  readonly #block: Uint8Array<ArrayBuffer>;
  #block_length = 0;
  #block_runs: Run[] = [];
  /** Pages of the block that are written as differences, with their place in it. */
  #block_differences: { pgno: number; at: number; before: Uint8Array }[] = [];
  readonly #pages = new PageTable();
  readonly #blocks = new BlockTable();
  #out: Uint8Array<ArrayBuffer>[];
  #digest: string | undefined;

  /** Begins an object; a header that makes no sense is `internal`. */
  constructor(header: ObjectHeader, options: ObjectWriterOptions = {}) {
    const problem = headerProblem(header);
    if (problem !== undefined) throw defect(problem);
    const block_bytes = options.block_bytes ?? DEFAULT_BLOCK_BYTES;
    if (!(block_bytes > 0 && block_bytes <= MAX_BLOCK_BYTES)) throw defect(`blocks of ${block_bytes} bytes`);
    this.#header = { ...header };
    this.#lock_page = lockPage(header.page_size);
    this.#level = options.level ?? DEFAULT_LEVEL;
    const block_pages = header.kind === "image-index" ? 0 : Math.max(1, Math.floor(block_bytes / header.page_size));
    this.#block = new Uint8Array(Math.min(block_pages, header.page_count) * header.page_size);
    this.#out = [encodeHeader(header)];
  }

  get pages(): number {
    return this.#pages.length;
  }

  /** Returns the CRC-32 of a page that was added, undefined for any other. It retains these alone of the writer. */
  get checksumOf(): (pgno: number) => number | undefined {
    const pages = this.#pages;
    return (pgno) => {
      const position = pages.find(pgno);
      return position < 0 ? undefined : pages.crcAt(position);
    };
  }

  /** The object's digest; only after {@linkcode finish}. */
  get digest(): string {
    if (this.#digest === undefined) throw defect("its digest is known only at the end");
    return this.#digest;
  }

  /**
   * Adds a page, or several consecutive ones in one go. Page numbers must ascend, lie
   * within the database and leave out the lock page; anything else is `internal`.
   *
   * @param pgno Number of the first page.
   * @param bytes Whole pages; they may be reused after the call.
   * @param before What the pages of a segment were; a page that is little changed is written as its difference. What
   * it returns must stay as it is until the object is finished.
   * @returns Chunks that are ready to be written, often none; for an image index always none.
   */
  add(pgno: number, bytes: Uint8Array, before?: PageBefore): Uint8Array<ArrayBuffer>[] {
    const { page_size, page_count, kind } = this.#header;
    const count = bytes.length / page_size;
    const last = pgno + count - 1;
    if (this.#digest !== undefined) throw defect("it is finished already");
    if (!Number.isInteger(count) || count < 1) throw defect(`${bytes.length} bytes are not pages of ${page_size}`);
    if (!Number.isInteger(pgno) || pgno <= this.#pages.last) {
      throw defect(`page ${pgno} comes after page ${this.#pages.last}`);
    }
    if (last > page_count) throw defect(`page ${last} is past the end at page ${page_count}`);
    if (pgno <= this.#lock_page && this.#lock_page <= last) throw defect(`page ${this.#lock_page} is the lock page`);
    for (let i = 0; i < count; i++) {
      this.#pages.append(pgno + i, crc32(bytes.subarray(i * page_size, (i + 1) * page_size)));
    }
    if (kind === "image-index") return [];
    if (before && kind !== "segment") throw defect(`nothing is before a ${kind}`);
    for (let done = 0; done < count;) {
      const fits = Math.min(count - done, (this.#block.length - this.#block_length) / page_size);
      this.#fill(pgno + done, bytes.subarray(done * page_size, (done + fits) * page_size), before);
      done += fits;
    }
    return this.#take();
  }

  /** Ends the object. A snapshot or image index that lacks a page is `internal`. */
  finish(): Uint8Array<ArrayBuffer>[] {
    const required = requiredPages(this.#header);
    if (required !== undefined && this.pages !== required) {
      throw defect(`a ${this.#header.kind} of ${this.#header.page_count} pages got ${this.pages}, not ${required}`);
    }
    if (this.#block_length > 0) this.#endBlock();
    this.#digest = objectDigest(this.#header, this.#pages);
    const index = encodeIndex(this.#pages, this.#blocks);
    const index_offset = this.#blocks.offsets.at(-1)!;
    this.#out.push(index, encodeFooter({ index_offset, index_crc: crc32(index), digest: this.#digest }));
    return this.#take();
  }

  #take(): Uint8Array<ArrayBuffer>[] {
    const out = this.#out;
    this.#out = [];
    return out;
  }

  /** Puts consecutive pages, no more than fit, into the block. */
  #fill(pgno: number, bytes: Uint8Array, before: PageBefore | undefined): void {
    const { page_size } = this.#header;
    const count = bytes.length / page_size;
    const run = this.#block_runs.at(-1);
    if (run !== undefined && run.first + run.count === pgno) run.count += count;
    else this.#block_runs.push({ first: pgno, count });
    this.#block.set(bytes, this.#block_length);
    for (let i = 0; before && i < count; i++) {
      const old = before(pgno + i);
      if (old === undefined || !alike(bytes.subarray(i * page_size, (i + 1) * page_size), old)) continue;
      this.#block_differences.push({ pgno: pgno + i, at: this.#block_length + i * page_size, before: old });
    }
    this.#block_length += bytes.length;
    if (this.#block_length === this.#block.length) this.#endBlock();
  }

  #endBlock(): void {
    const raw = this.#block.subarray(0, this.#block_length);
    const differences = this.#block_differences;
    this.#exclusiveOrBlock();
    const packed = zstdCompressSync(raw, { params: { [constants.ZSTD_c_compressionLevel]: this.#level } });
    const smaller = packed.length < raw.length;
    if (!smaller) this.#exclusiveOrBlock();
    const payload = smaller ? packed : raw;
    const runs = new ByteWriter();
    putRuns(runs, this.#block_runs);
    const tag = !smaller ? TAG.raw : differences.length > 0 ? TAG.differences : TAG.zstd;
    if (tag === TAG.differences) putRuns(runs, [...runsOf(differences.map(({ pgno }) => pgno))]);
    const runs_bytes = runs.bytes();
    const head = new ByteWriter();
    head.byte(tag);
    head.varint(runs_bytes.length + payload.length + 4);
    const head_bytes = head.bytes();
    const out = new ByteWriter(head_bytes.length + runs_bytes.length + payload.length + 4);
    for (const part of [head_bytes, runs_bytes, payload]) out.append(part);
    out.uint32(crc32(out.bytes()));
    const block = out.bytes();
    this.#out.push(block);
    this.#blocks.push(block.length, raw.length / this.#header.page_size);
    this.#block_length = 0;
    this.#block_runs = [];
    this.#block_differences = [];
  }

  /** Turns the block's pages that are to be written as differences into these, or back. */
  #exclusiveOrBlock(): void {
    for (const { at, before } of this.#block_differences) {
      exclusiveOr(this.#block.subarray(at, at + this.#header.page_size), before);
    }
  }
}

/** Whether at least half of a page's bytes are unchanged: below that the page compresses better than its difference. */
function alike(page: Uint8Array, before: Uint8Array): boolean {
  let same = 0;
  for (let i = 0; i < page.length; i++) if (page[i] === before[i]) same++;
  return same * 2 >= page.length;
}

/**
 * Asserts that a transaction that made the database grow holds every page it grew by, so that
 * no page is ever made up; a missing one is `capture_failed`.
 *
 * @param previous_page_count Pages before; if the database was smaller in between, pages at its smallest.
 * @param pages The pages that the transaction holds.
 * @param after The database after it.
 */
export function assertGrowth(
  previous_page_count: number,
  pages: { has(pgno: number): boolean },
  after: { page_size: number; page_count: number },
): void {
  const lock = lockPage(after.page_size);
  for (let pgno = previous_page_count + 1; pgno <= after.page_count; pgno++) {
    if (pgno !== lock && !pages.has(pgno)) {
      throw new TaskdError(
        "capture_failed",
        `Cannot store a change from ${previous_page_count} to ${after.page_count} pages: page ${pgno} is missing`,
      );
    }
  }
}

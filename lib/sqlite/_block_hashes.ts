/**
 * What a database held, by a SHA-256 of each block: bookkeeping of wal_tail.ts.
 *
 * The invariant: each hash is of the block as of the last commit that had been read at some moment, and none of the
 * block's pages was taken since to be stored. Commits before that moment were seen. So a block that has the same hash later was
 * changed, on the whole, by none that was not. A block that is read while a checkpoint writes to it differs later: that is harmless.
 */

import { createHash } from "node:crypto";
import type { CheckoutFile } from "./checkout_file.ts";

/** The largest page, so that no page lies in two blocks. */
const BLOCK_BYTES = 64 << 10;
/** Blocks read in one go: 4 MiB, a few milliseconds. */
const STEP = 64;
/** Files of more than this are never compared: 1 GiB takes a second of a core at each flush. */
const MOST_BLOCKS = (1 << 30) / BLOCK_BYTES;

export class BlockHashes {
  readonly #file: CheckoutFile;
  readonly #page_size: number;
  readonly #block_pages: number;
  readonly #inLog: (pgno: number) => number | undefined;
  readonly #hashes = new Map<number, string>();
  readonly #buffer = new Uint8Array(BLOCK_BYTES);
  #next = 0;

  /** `inLog` returns the byte offset of a page that the log has newer than the main file. */
  constructor(file: CheckoutFile, page_size: number, inLog: (pgno: number) => number | undefined) {
    this.#file = file;
    this.#inLog = inLog;
    this.#page_size = page_size;
    this.#block_pages = BLOCK_BYTES / page_size;
  }

  clear(): void {
    this.#hashes.clear();
    this.restart();
  }

  /** Forgets the blocks of pages that are stored as they are now. */
  forget(pages: Iterable<number>): void {
    if (this.#hashes.size === 0) return;
    for (const pgno of pages) this.#hashes.delete(Math.floor((pgno - 1) / this.#block_pages));
  }

  get possible(): boolean {
    return this.#blocks <= MOST_BLOCKS;
  }

  /** Reads some of the blocks that are not known; whether all are known now. */
  read(): boolean {
    const blocks = this.#blocks;
    let steps = STEP;
    for (let block = 0; block < blocks; block++) {
      if (this.#hashes.has(block)) continue;
      if (steps-- === 0) return false;
      this.#hashes.set(block, this.#hash(block));
    }
    return true;
  }

  /** The next comparison begins at the first block, wherever the one before was given up. */
  restart(): void {
    this.#next = 0;
  }

  /** Compares some of the blocks and reports the pages of those that differ; whether it was the last of them. */
  compare(onDifference: (first_page: number, pages: number) => void): boolean {
    const blocks = this.#blocks;
    for (const end = this.#next + STEP; this.#next < end && this.#next < blocks; this.#next++) {
      const block = this.#next;
      if (this.#hashes.get(block) !== this.#hash(block)) onDifference(block * this.#block_pages + 1, this.#block_pages);
    }
    if (this.#next < blocks) return false;
    this.#next = 0;
    return true;
  }

  get #blocks(): number {
    return Math.ceil(this.#file.mainSize() / BLOCK_BYTES);
  }

  #hash(block: number): string {
    const size = this.#page_size;
    const count = this.#file.readMain(block * BLOCK_BYTES, this.#buffer);
    for (let i = 0; i < Math.floor(count / size); i++) {
      const offset = this.#inLog(block * this.#block_pages + i + 1);
      if (offset !== undefined) this.#file.readWal(offset, this.#buffer.subarray(i * size, (i + 1) * size));
    }
    return createHash("sha256").update(this.#buffer.subarray(0, count)).digest("base64");
  }
}

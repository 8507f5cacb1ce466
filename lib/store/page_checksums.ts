/**
 * The checksums of a branch's pages at its durable end: a page is written as a difference only from one that they prove
 * to be in the store. A checksum is that of the page as the chain has it, or undefined where that is not certain.
 */

import { crc32 } from "node:zlib";
import type { Backend } from "../backend/backend.ts";
import type { Chain, ChainObject } from "./chain.ts";
import { nextTurn } from "../clock.ts";
import { inParallel } from "../in_parallel.ts";
import { lockPage } from "../sqlite/header.ts";
import { pageRuns } from "../sqlite/page_runs.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import { objectDigest } from "./_object_layout.ts";
import { PageTable } from "./_page_table.ts";
import { NO_PREV, type ObjectIndex } from "./object_file.ts";
import { readObjectIndex } from "./object_index.ts";

/** Returns the CRC-32 of a page in one object; undefined where the object does not hold it. */
export type ChecksumOf = (pgno: number) => number | undefined;

/** Most chain objects whose indexes are read: those of a fork's longer chain are not worth the time. */
const MAX_OBJECTS = 64;
const PARALLEL = 8;
const TURN_PAGES = 1 << 14;

/**
 * What all pages of a database come to, in hex: the digest that a snapshot of it would have as of transaction 0. It proves
 * a whole image where objects are gone. Goes by `known`, without reading the image, where that is given.
 */
export async function contentOf(
  image: Pick<DatabaseImage, "page_size" | "page_count"> & Partial<DatabaseImage>,
  known?: PageChecksums,
): Promise<string> {
  const { page_size, page_count } = image;
  const pages = new PageTable();
  const lock = lockPage(page_size);
  const runs: Iterable<[number, Uint8Array]> = known ? [] : pageRuns(image as DatabaseImage);
  for (const [first, bytes] of runs) {
    for (let pgno = first, at = 0; at < bytes.length; pgno++, at += page_size) {
      if (pgno !== lock) pages.append(pgno, crc32(bytes.subarray(at, at + page_size)));
    }
    await nextTurn();
  }
  for (let pgno = 1; known && pgno <= page_count; pgno++) {
    // With one that is not known the digest is that of nothing.
    if (pgno !== lock) pages.append(pgno, known.of(pgno) ?? 0);
    if (pgno % TURN_PAGES === 0) await nextTurn();
  }
  return objectDigest({ kind: "snapshot", page_size, page_count, first_txid: 0, last_txid: 0, prev: NO_PREV }, pages);
}

/** The checksums at one end, which moves with every object that is stored after it. */
export class PageChecksums {
  /** One for each object of the chain, the newest last. */
  readonly #objects: ChecksumOf[];
  /** Those that were before the snapshot that they begin with, as far as this process has stored it. */
  readonly #former: readonly ChecksumOf[];
  #page_count: number;

  private constructor(objects: ChecksumOf[], page_count: number, former: readonly ChecksumOf[] = []) {
    this.#objects = objects;
    this.#former = former;
    this.#page_count = page_count;
  }

  /**
   * Reads the indexes of a chain's objects, 4 bytes a page.
   *
   * @param digest The ref's digest of the chain's last object.
   * @returns Undefined where that would take too long or fails now: finding damage is not its job.
   */
  static async load(backend: Backend, chain: Chain, digest: string): Promise<PageChecksums | undefined> {
    if (chain.objects.length > MAX_OBJECTS) return undefined;
    return await PageChecksums.read(backend, chain.objects, digest).catch(() => undefined);
  }

  /**
   * The same of a chain of any length, and without `digest` of whatever its last object is; undefined where its objects do
   * not belong together. Errors of reading pass.
   */
  static async read(
    backend: Backend,
    objects: readonly ChainObject[],
    digest?: string,
  ): Promise<PageChecksums | undefined> {
    const indexes: ObjectIndex[] = [];
    await inParallel(objects.entries(), PARALLEL, async ([i, object]) => {
      indexes[i] = await readObjectIndex(backend, object);
    });
    const last = indexes.at(-1)!;
    const linked = indexes.every(({ header }, i) => i === 0 || header.prev === indexes[i - 1]!.digest);
    if (!linked || (digest ?? last.digest) !== last.digest) return undefined;
    return new PageChecksums(indexes.map((index) => (pgno) => index.page(pgno)?.crc), last.header.page_count);
  }

  get page_count(): number {
    return this.#page_count;
  }

  /** Begins anew with a snapshot that was stored after `former`. */
  static ofSnapshot(checksumOf: ChecksumOf, page_count: number, former?: PageChecksums): PageChecksums {
    return new PageChecksums([checksumOf], page_count, former && former.#objects);
  }

  /** Moves the end on by a segment that was stored. */
  add(checksumOf: ChecksumOf, page_count: number): void {
    this.#objects.push(checksumOf);
    this.#page_count = page_count;
  }

  /** CRC-32 of a page at the end; undefined for one that is not there. */
  of(pgno: number): number | undefined {
    // Pages past the end may still be in objects from before the database shrank.
    if (pgno > this.#page_count) return undefined;
    for (let i = this.#objects.length - 1; i >= 0; i--) {
      const checksum = this.#objects[i]!(pgno);
      if (checksum !== undefined) return checksum;
    }
    return undefined;
  }

  /** Whether a page with this checksum is one that the branch had at an earlier end, as far as known, and not at this one. */
  isOlder(pgno: number, checksum: number): boolean {
    if (this.of(pgno) === checksum) return false;
    return [...this.#objects, ...this.#former].some((object) => object(pgno) === checksum);
  }

  /** The first page of an image that is not as it should be, 0 where only their number differs; undefined for none. */
  async firstDifference(image: DatabaseImage): Promise<number | undefined> {
    if (image.page_count !== this.#page_count) return 0;
    for await (const pgno of this.differences(image)) return pgno;
    return undefined;
  }

  /** The pages of an image that are not as they should be. */
  async *differences(image: DatabaseImage): AsyncGenerator<number> {
    const { page_size } = image;
    const lock = lockPage(page_size);
    for (const [first, bytes] of pageRuns(image)) {
      for (let pgno = first, at = 0; at < bytes.length; pgno++, at += page_size) {
        if (pgno !== lock && crc32(bytes.subarray(at, at + page_size)) !== this.of(pgno)) yield pgno;
      }
      await nextTurn();
    }
  }
}

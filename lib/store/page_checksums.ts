/**
 * The checksums of a branch's pages at its durable end: a page is written as a difference only from one that they prove
 * to be in the store. A checksum is that of the page as the chain has it, or undefined where that is not certain.
 */

import type { Backend } from "../backend/backend.ts";
import type { Chain } from "./chain.ts";
import { inParallel } from "../in_parallel.ts";
import type { ObjectIndex } from "./object_file.ts";
import { readObjectIndex } from "./object_index.ts";

/** Returns the CRC-32 of a page in one object; undefined where the object does not hold it. */
export type ChecksumOf = (pgno: number) => number | undefined;

/** Most chain objects whose indexes are read: those of a fork's longer chain are not worth the time. */
const MAX_OBJECTS = 64;
/** Indexes read at once. */
const PARALLEL = 8;

/** The checksums at one end, which moves with every object that is stored after it. */
export class PageChecksums {
  /** One for each object of the chain, the newest last. */
  readonly #objects: ChecksumOf[];
  /** Pages of the database at the end. */
  #page_count: number;

  private constructor(objects: ChecksumOf[], page_count: number) {
    this.#objects = objects;
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
    const indexes: ObjectIndex[] = [];
    try {
      await inParallel(chain.objects.entries(), PARALLEL, async ([i, object]) => {
        indexes[i] = await readObjectIndex(backend, object);
      });
    } catch {
      return undefined;
    }
    const last = indexes.at(-1)!;
    const linked = indexes.every(({ header }, i) => i === 0 || header.prev === indexes[i - 1]!.digest);
    if (!linked || last.digest !== digest) return undefined;
    return new PageChecksums(indexes.map((index) => (pgno) => index.page(pgno)?.crc), last.header.page_count);
  }

  /** Begins anew with a snapshot that was stored. */
  static ofSnapshot(checksumOf: ChecksumOf, page_count: number): PageChecksums {
    return new PageChecksums([checksumOf], page_count);
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
}

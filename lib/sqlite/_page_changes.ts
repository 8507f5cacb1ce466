/**
 * Which pages of a live database changed, and where their newest bytes lie: bookkeeping of wal_tail.ts.
 */

import type { WalCommit } from "./wal.ts";

/** Most bytes of former pages that are kept: enough for small transactions, where a difference is worth most. */
const BEFORE_BYTES = 256 << 10;

export interface Changes {
  /** Page numbers, ascending, none of them the lock page. */
  pages: number[];
  /** Pages of the database after the last commit. */
  page_count: number;
  /** Fewest pages that the database had at any of the commits: what lies beyond must be among the pages. */
  low_page_count: number;
  commits: number;
  /** Some of the pages as they were when changes were last taken. */
  before?: ReadonlyMap<number, Uint8Array>;
  /** CRC-32 of the pages, as far as known. */
  checksums?: ReadonlyMap<number, number>;
}

/** Pages seen in the log, and those of them that were not taken yet. */
export class PageChanges {
  /** Newest byte offset in the log of each page that the main file may not have yet. */
  #overlay = new Map<number, number>();
  readonly #changed = new Set<number>();
  #commits = 0;
  #low_page_count = Infinity;
  #before = new Map<number, Uint8Array>();
  #checksums = new Map<number, number>();
  page_count = 0;

  get dirty(): boolean {
    return this.#changed.size > 0 || this.#commits > 0;
  }

  /** Whether pages may lie in the log alone. */
  get inLog(): boolean {
    return this.#overlay.size > 0;
  }

  /**
   * CRC-32 that a page must have in the main file; undefined where it need not have one.
   *
   * @param stored That of the page when changes were last taken.
   */
  checksumInMain(pgno: number, stored: (pgno: number) => number | undefined): number | undefined {
    if (this.#overlay.has(pgno)) return undefined;
    return this.#changed.has(pgno) ? this.#checksums.get(pgno) : stored(pgno);
  }

  /** Where the log has a page that the main file may not have yet. */
  offsetOf(pgno: number): number | undefined {
    return this.#overlay.get(pgno);
  }

  /** The offsets of pages in the log as they are now, unaffected by later additions. */
  overlay(): ReadonlyMap<number, number> {
    return new Map(this.#overlay);
  }

  /**
   * Keeps pages that a commit is about to change for the first time since changes were taken, as many as there is room for.
   *
   * @param read Reads the page that is not committed over yet, from the offset in the log, or else from the main file;
   * undefined where it cannot.
   */
  keepBefore(
    commit: WalCommit,
    page_size: number,
    read: (pgno: number, offset: number | undefined) => Uint8Array | undefined,
  ): void {
    for (const pgno of commit.pages.keys()) {
      if ((this.#before.size + 1) * page_size > BEFORE_BYTES) return;
      if (pgno > this.page_count || this.#changed.has(pgno)) continue;
      const page = read(pgno, this.#overlay.get(pgno));
      if (page) this.#before.set(pgno, page);
    }
  }

  /** Counts pages as changed by a commit that was not seen. */
  add(first: number, count: number): void {
    for (let pgno = first; pgno < first + count && pgno <= this.page_count; pgno++) {
      this.#changed.add(pgno);
      if (!this.#overlay.has(pgno)) this.#checksums.delete(pgno);
    }
  }

  merge(commit: WalCommit): void {
    for (const [pgno, offset] of commit.pages) {
      this.#overlay.set(pgno, offset);
      this.#changed.add(pgno);
      this.#checksums.set(pgno, commit.checksums.get(pgno)!);
    }
    // Pages past the end at some commit are gone; what grew back is in the commits' own pages.
    const low = commit.low_page_count;
    if (low < this.page_count) {
      const gone = (pgno: number) => pgno > low && !commit.pages.has(pgno);
      for (const pgno of this.#changed) if (gone(pgno)) this.#changed.delete(pgno);
      for (const pgno of this.#overlay.keys()) if (gone(pgno)) this.#overlay.delete(pgno);
    }
    this.#low_page_count = Math.min(this.#low_page_count, low);
    this.page_count = commit.page_count;
    this.#commits += commit.commits;
  }

  /** The main file has every page now. */
  folded(): void {
    this.#overlay.clear();
  }

  /** Returns and forgets the changes, except the lock page, which is never stored. */
  take(lock_page: number): Changes {
    const changes = {
      pages: [...this.#changed].filter((pgno) => pgno !== lock_page).sort((a, b) => a - b),
      page_count: this.page_count,
      low_page_count: Math.min(this.#low_page_count, this.page_count),
      commits: this.#commits,
      before: this.#before,
      checksums: this.#checksums,
    };
    this.forgetChanges();
    return changes;
  }

  giveBack(changes: Changes): void {
    for (const pgno of changes.pages) {
      const checksum = changes.checksums?.get(pgno);
      // What was seen since is newer.
      if (checksum !== undefined && !this.#changed.has(pgno)) this.#checksums.set(pgno, checksum);
      if (pgno <= this.page_count) this.#changed.add(pgno);
      // What was kept since is of a state that was never stored.
      this.#before.delete(pgno);
    }
    for (const [pgno, page] of changes.before ?? []) this.#before.set(pgno, page);
    this.#commits += changes.commits;
    this.#low_page_count = Math.min(this.#low_page_count, changes.low_page_count);
  }

  /** Nothing counts as changed any more; where pages lie is still known. */
  forgetChanges(): void {
    this.#changed.clear();
    this.#commits = 0;
    this.#low_page_count = Infinity;
    this.#before = new Map();
    this.#checksums = new Map();
  }
}

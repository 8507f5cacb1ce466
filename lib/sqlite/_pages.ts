/**
 * Which pages of two images differ, and to which tables and indexes they belong.
 */

import { Buffer } from "node:buffer";
import { nextTurn } from "../clock.ts";
import { throwIfInterrupted } from "../errors.ts";
import { changedPages } from "./changed_pages.ts";
import { ImageFile } from "./checkout_file.ts";
import type { OtherPages } from "./diff_result.ts";
import { DATABASE_HEADER_BYTES, lockPage } from "./header.ts";
import type { Side } from "./side.ts";

/** `marks` has 1 for each page that differs, by number, the file's header aside; `pages_changed` counts that, too. */
export async function differingPages(path_a: string, path_b: string, signal: AbortSignal | undefined) {
  using a = ImageFile.open(path_a);
  using b = ImageFile.open(path_b);
  const marks = new Uint8Array(Math.max(a.page_count, b.page_count) + 1);
  if (a.page_size !== b.page_size) return { marks: marks.fill(1, 1), pages_changed: marks.length - 1 };
  const shared = Math.min(a.page_count, b.page_count);
  const changed = (await changedPages(a, b, { signal })).filter((pgno) => pgno <= shared);
  for (const pgno of changed) marks[pgno] = 1;
  if (marks[1] === 1) {
    const [before, after] = [a, b].map((image) => {
      const page = new Uint8Array(image.page_size);
      image.readPages(1, 1, page);
      return page.subarray(DATABASE_HEADER_BYTES);
    });
    if (Buffer.compare(before!, after!) === 0) marks[1] = 0;
  }
  return { marks: marks.fill(1, shared + 1), pages_changed: changed.length + marks.length - 1 - shared };
}

type Owner = Pick<OtherPages, "where" | "name">;

const DEFINITIONS: Owner = { where: "definitions" };
const FREE: Owner = { where: "free" };
const POINTERS: Owner = { where: "pointer map" };
const UNUSED: Owner = { where: "unused" };

export class PageOwners {
  readonly #owners: Owner[] = [UNUSED];
  readonly #of_page: Uint32Array;
  readonly #touched = new Set<string>();
  /**
   * Pages in no tree and not free, of a database with a pointer map. SQLite looks there for the next page of a long
   * value: https://sqlite.org/fileformat2.html#pointer_map_or_ptrmap_pages.
   */
  unused = 0;
  /** Whether what SQLite reads of untouched tables may differ: by the pointer map, or by pages that are in none. */
  pointers_touched = false;

  private constructor(page_count: number) {
    this.#of_page = new Uint32Array(page_count + 1);
  }

  /** Reads every page of the image; `marks` are those that differ. */
  static async read(side: Side, marks: Uint8Array, signal: AbortSignal | undefined): Promise<PageOwners> {
    const { file, entries } = side;
    const owners = new PageOwners(file.page_count);
    owners.#add(POINTERS, file.pointerMapPages());
    owners.#add(FREE, file.freePages());
    const trees = entries.filter(({ type, root }) => root > 0 && (type === "table" || type === "index"));
    for (const { type, name, root } of [{ type: "", name: "", root: 1 }, ...trees]) {
      throwIfInterrupted(signal);
      const owner: Owner = type === "" ? DEFINITIONS : { where: type as "table" | "index", name };
      const index = owners.#owners.push(owner) - 1;
      for (const { pgno, overflow } of file.pages(root)) {
        for (const page of [pgno, ...overflow]) {
          owners.#of_page[page] = index;
          if (marks[page] === 1) owners.#touched.add(`${owner.where} ${name}`);
        }
      }
      await nextTurn();
    }
    const lock = lockPage(file.page_size);
    if (lock <= file.page_count) marks[lock] = 0;
    if (file.has_pointer_map) owners.#notePointers(marks, lock);
    return owners;
  }

  #notePointers(marks: Uint8Array, lock: number): void {
    for (let page = 1; page < this.#of_page.length; page++) {
      const owner = this.of(page);
      if (owner === UNUSED && page !== lock) this.unused++;
      if (marks[page] === 1 && (owner === UNUSED || owner === POINTERS)) this.pointers_touched = true;
    }
  }

  #add(owner: Owner, pages: Iterable<number>): void {
    const index = this.#owners.push(owner) - 1;
    for (const page of pages) if (page < this.#of_page.length) this.#of_page[page] = index;
  }

  isTouched(where: "table" | "index", name: string): boolean {
    return this.#touched.has(`${where} ${name}`);
  }

  of(page: number): Owner | undefined {
    return page < this.#of_page.length ? this.#owners[this.#of_page[page]!] : undefined;
  }
}

/** The pages that differ and belong, in neither image, to what `explains` accepts, counted by their owner. */
export function otherPages(
  marks: Uint8Array,
  [before, after]: readonly [PageOwners, PageOwners],
  explains: (owner: Owner) => boolean,
): OtherPages[] {
  const counts = new Map<string, OtherPages>();
  for (let page = marks.indexOf(1); page >= 0; page = marks.indexOf(1, page + 1)) {
    const [old, now] = [before.of(page), after.of(page)];
    if (old && explains(old) || now && explains(now)) continue;
    const owner = now ?? old!;
    const key = `${owner.where}\0${owner.name}`;
    counts.getOrInsert(key, { ...owner, pages: 0 }).pages++;
  }
  return [...counts.values()];
}

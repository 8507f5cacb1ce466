/**
 * The b-trees of a database image, page by page: https://sqlite.org/fileformat2.html#b_tree_pages. For finding out which
 * pages belong to what, and which leaves of two tables are the same; values are read by SQLite. Hostile images lead it
 * nowhere: a page that cannot be one of a tree has no children.
 */

import { Buffer } from "node:buffer";
import { ImageFile } from "./checkout_file.ts";
import { DATABASE_HEADER_BYTES, lockPage } from "./header.ts";

const KIND = { index: 2, table: 5, index_leaf: 10, table_leaf: 13 } as const;
/** A tree of the most pages has this many levels and a few. */
const MAX_DEPTH = 40;
/** What is read at once where pages are read one after the other, with at most so many between two. */
const AHEAD_BYTES = 128 << 10;
const MAX_GAP = 8;

export interface TreePage {
  pgno: number;
  bytes: Uint8Array;
  /** With the highest rowid that one may hold, in a table with rowids. */
  children: { pgno: number; low?: bigint | undefined; high?: bigint }[];
  /** Pages in which its rows go on. */
  overflow: number[];
  /** Of a leaf of a table with rowids that has rows: the first and the last of them. */
  rowids?: [first: bigint, last: bigint];
  /** It is one of a table with rowids, and they are in order, between those of the pages beside it. */
  sorted: boolean;
}

/** A page to read, and between which rowids it lies. */
interface Step {
  pgno: number;
  depth: number;
  low?: bigint | undefined;
  high?: bigint | undefined;
}

export class TreeFile implements Disposable {
  readonly page_size: number;
  readonly page_count: number;
  /** The file's first 100 bytes. */
  readonly header: DataView<ArrayBuffer>;
  readonly #file: ImageFile;
  readonly #usable: number;
  /** Pages that were read together. */
  #ahead = { first: 0, bytes: new Uint8Array() };
  #last = 0;

  constructor(path: string) {
    this.#file = ImageFile.open(path);
    ({ page_size: this.page_size, page_count: this.page_count } = this.#file);
    const first = this.page_count > 0 ? this.read(1) : new Uint8Array(DATABASE_HEADER_BYTES);
    this.header = new DataView(first.buffer as ArrayBuffer, 0, DATABASE_HEADER_BYTES);
    this.#usable = this.page_size - this.header.getUint8(20);
  }

  /** The page's bytes, which nothing may change. Those of a tree mostly lie one after the other: then some are read at once. */
  read(pgno: number): Uint8Array {
    let { first, bytes } = this.#ahead;
    const is_next = pgno > this.#last && pgno - this.#last <= MAX_GAP;
    this.#last = pgno;
    if (pgno < first || pgno >= first + bytes.length / this.page_size) {
      const most = Math.max(1, Math.floor(AHEAD_BYTES / this.page_size));
      const count = is_next ? Math.min(most, this.page_count - pgno + 1) : 1;
      [first, bytes] = [pgno, new Uint8Array(count * this.page_size)];
      this.#file.readPages(first, count, bytes);
      if (count > 1) this.#ahead = { first, bytes };
    }
    const from = (pgno - first) * this.page_size;
    return bytes.subarray(from, from + this.page_size);
  }

  has(pgno: number): boolean {
    return pgno >= 1 && pgno <= this.page_count;
  }

  /** The pages of a tree in the order of its keys; without leaves that end at or before the rowid `after`. */
  *pages(root: number, after?: bigint): Generator<TreePage, undefined> {
    let left = this.page_count;
    const stack: Step[] = [{ pgno: root, depth: 0 }];
    for (let next = stack.pop(); next !== undefined && left-- > 0; next = stack.pop()) {
      const { depth, low, high } = next;
      if (!this.has(next.pgno)) continue;
      const page = this.#parse(next);
      yield page;
      if (depth === MAX_DEPTH) continue;
      page.children.forEach((child, i) => child.low = i === 0 ? low : page.children[i - 1]!.high);
      for (const child of page.children.reverse()) {
        if (after !== undefined && child.high !== undefined && child.high <= after) break;
        stack.push({ high, ...child, depth: depth + 1 });
      }
    }
  }

  /** Whether a tree is one of a table with rowids, in which every row can be found by its rowid. */
  isSorted(root: number): boolean {
    for (const { sorted, children } of this.pages(root)) {
      if (!sorted || children.some(({ pgno }) => !this.has(pgno))) return false;
    }
    return this.has(root);
  }

  /** Whether two files hold the same row content in a leaf. */
  sameLeaf(page: TreePage, other: TreeFile, its: TreePage): boolean {
    return page.pgno === its.pgno && Buffer.compare(page.bytes, its.bytes) === 0 &&
      page.overflow.every((pgno, i) =>
        its.overflow[i] === pgno && Buffer.compare(this.read(pgno), other.read(pgno)) === 0
      );
  }

  *freePages(): Generator<number> {
    let left = this.page_count;
    for (let trunk = this.header.getUint32(32); this.has(trunk) && left-- > 0;) {
      yield trunk;
      const view = viewOf(this.read(trunk));
      const count = Math.min(view.getUint32(4), this.page_size / 4 - 2);
      for (let i = 0; i < count; i++) {
        const pgno = view.getUint32(8 + 4 * i);
        if (this.has(pgno) && left-- > 0) yield pgno;
      }
      trunk = view.getUint32(0);
    }
  }

  /** Of an auto-vacuum database: https://sqlite.org/fileformat2.html#incremental_vacuum_settings. */
  get has_pointer_map(): boolean {
    return this.header.getUint32(52) !== 0;
  }

  *pointerMapPages(): Generator<number> {
    if (!this.has_pointer_map) return;
    const step = Math.floor(this.#usable / 5) + 1;
    const lock = lockPage(this.page_size);
    for (let pgno = 2; pgno <= this.page_count; pgno += step) yield pgno === lock ? pgno + 1 : pgno;
  }

  #parse({ pgno, low, high }: Step): TreePage {
    const bytes = this.read(pgno);
    const view = viewOf(bytes);
    const start = pgno === 1 ? DATABASE_HEADER_BYTES : 0;
    const kind = bytes[start];
    const of_table = kind === KIND.table || kind === KIND.table_leaf;
    const page: TreePage = { pgno, bytes, children: [], overflow: [], sorted: of_table };
    const inner = kind === KIND.index || kind === KIND.table;
    if (!inner && kind !== KIND.index_leaf && kind !== KIND.table_leaf) return page;
    const cells = start + (inner ? 12 : 8);
    const stated = view.getUint16(start + 3);
    const count = Math.min(stated, Math.floor((this.page_size - cells) / 2));
    if (count < stated || inner && count === 0) page.sorted = false;
    let last = low;
    for (let i = 0; i < count; i++) {
      const at = view.getUint16(cells + 2 * i);
      if (at + (inner ? 5 : 2) > bytes.length) {
        page.sorted = false;
        continue;
      }
      if (inner) page.children.push({ pgno: view.getUint32(at) });
      const rowid = kind === KIND.table
        ? page.children.at(-1)!.high = rowidAt(bytes, at + 4)
        : this.#follow(page, view, at + (inner ? 4 : 0), of_table);
      if (!of_table) continue;
      if (last !== undefined && rowid <= last || high !== undefined && rowid > high) page.sorted = false;
      last = rowid;
    }
    if (inner) page.children.push({ pgno: view.getUint32(start + 8) });
    return page;
  }

  /** Adds to `page` what a cell's payload at `at` says, and returns its rowid, if it has one. */
  #follow(page: TreePage, view: DataView, at: number, with_rowid: boolean): bigint {
    const payload = varint(page.bytes, at);
    let body = payload.end;
    let rowid = 0n;
    if (with_rowid) {
      const { value, end } = varint(page.bytes, body);
      body = end;
      rowid = BigInt.asIntN(64, value);
      if (page.rowids === undefined) page.rowids = [rowid, rowid];
      else if (rowid < page.rowids[0]) page.rowids[0] = rowid;
      else if (rowid > page.rowids[1]) page.rowids[1] = rowid;
    }
    const usable = this.#usable;
    const length = Number(payload.value);
    const most = with_rowid ? usable - 35 : Math.floor((usable - 12) * 64 / 255) - 23;
    if (length <= most) return rowid;
    const least = Math.floor((usable - 12) * 32 / 255) - 23;
    const rest = least + (length - least) % (usable - 4);
    const first = body + (rest <= most ? rest : least);
    if (first + 4 > page.bytes.length) return rowid;
    let left = Math.min(Math.ceil(length / (usable - 4)), this.page_count);
    for (let pgno = view.getUint32(first); this.has(pgno) && left-- > 0;) {
      page.overflow.push(pgno);
      pgno = viewOf(this.read(pgno)).getUint32(0);
    }
    return rowid;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
}

function rowidAt(bytes: Uint8Array, at: number): bigint {
  return BigInt.asIntN(64, varint(bytes, at).value);
}

/** https://sqlite.org/fileformat2.html#varint */
function varint(bytes: Uint8Array, at: number): { value: bigint; end: number } {
  let small = 0;
  for (let i = 0; i < 4; i++) {
    const byte = bytes[at + i] ?? 0;
    small = small << 7 | byte & 0x7f;
    if (byte < 0x80) return { value: BigInt(small), end: at + i + 1 };
  }
  let value = BigInt(small);
  for (let i = 4; i < 8; i++) {
    const byte = bytes[at + i] ?? 0;
    value = value << 7n | BigInt(byte & 0x7f);
    if (byte < 0x80) return { value, end: at + i + 1 };
  }
  return { value: value << 8n | BigInt(bytes[at + 8] ?? 0), end: at + 9 };
}

/**
 * Ranges of rowids, ascending and apart, outside of which two sorted tables hold the same rows: those of the leaves that
 * are not the same page with the same content.
 */
export function* differingRanges(
  [a, root_a]: readonly [TreeFile, number],
  [b, root_b]: readonly [TreeFile, number],
  after?: bigint,
): Generator<[low: bigint, high: bigint]> {
  const [left, right] = [leaves(a, root_a, after), leaves(b, root_b, after)];
  let range: [bigint, bigint] | undefined;
  let x = left.next().value;
  let y = right.next().value;
  while (x || y) {
    const order = x === undefined ? 1 : y === undefined ? -1 : Number(x.rowids[1] - y.rowids[1]);
    if (order !== 0 || !a.sameLeaf(x!, b, y!)) {
      const high = (order <= 0 ? x! : y!).rowids[1];
      let low = x === undefined || y !== undefined && y.rowids[0] < x.rowids[0] ? y!.rowids[0] : x.rowids[0];
      if (range !== undefined && low <= range[1] + 1n) {
        low = range[0];
      } else if (range !== undefined) yield range;
      range = [low, range !== undefined && range[1] > high ? range[1] : high];
    }
    if (order <= 0) x = left.next().value;
    if (order >= 0) y = right.next().value;
  }
  if (range !== undefined) yield range;
}

type Leaf = TreePage & Required<Pick<TreePage, "rowids">>;

function* leaves(file: TreeFile, root: number, after: bigint | undefined): Generator<Leaf, undefined> {
  for (const page of file.pages(root, after)) if (page.rowids !== undefined) yield page as Leaf;
}

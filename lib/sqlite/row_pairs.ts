/**
 * The rows of one table that differ between two sides, one after the other, in memory for a few rows. Every row of either
 * side is either equal to its counterpart, or in one of the pairs that come out.
 *
 * Rows with a rowid are read in its order, and only where the pages of the two tables differ. Where the primary key is
 * not the rowid, a row that has moved to another one is found by its key. Rows without a rowid are read in the order of
 * their key.
 */

import { isSameName } from "./image.ts";
import type { Column, Finder, Side, Span, StoredRow, StoredTable } from "./side.ts";
import { defaultOf } from "./side.ts";
import { compareValues, sameValue, type Value } from "./row_values.ts";
import { differingRanges } from "./_tree.ts";

const [LOWEST, HIGHEST] = [-(2n ** 63n), 2n ** 63n - 1n];

/** Rows that belong together; the place to go on from is after them. */
export interface Pair {
  before?: StoredRow | undefined;
  after?: StoredRow | undefined;
  /** Equal ones come out too where values of columns are counted. */
  equal?: boolean;
}

/** How two versions of a table are compared; one of them may be missing. */
export interface PairPlan {
  before: StoredTable | undefined;
  after: StoredTable | undefined;
  by_rowid: boolean;
  /** Names of the columns that are read, those of the primary key first. */
  columns_before: string[];
  columns_after: string[];
  /** Of each column of the second, its place in the first; -1 of one that was added. */
  places: number[];
  renamed: { name: string; from: string }[];
  added: { name: string; place: number; fallback: Value }[];
  removed: { name: string; place: number }[];
  /** How many columns, in both first, find a row: 0 where only the rowid does. */
  key_length: number;
}

export function planOf(before: StoredTable | undefined, after: StoredTable | undefined, encoding: string): PairPlan {
  const [old, now] = [before?.columns ?? [], after?.columns ?? []];
  const one = (after ?? before)!;
  const is = (name: string) => ({ name: other }: Column) => isSameName(name, other);
  const same_length = old.length === now.length;
  const places = now.map(({ name, type }, i) => {
    const place = old.findIndex(is(name));
    if (place >= 0 || !same_length || now.some(is(old[i]!.name))) return place;
    return old[i]!.type === type ? i : -1;
  });
  const both = before !== undefined && after !== undefined;
  const by_rowid = one.rowid !== undefined && (!both || before.rowid !== undefined);
  const keys = before?.key ?? one.key;
  const same_key = !both || keys.length === after.key.length &&
      keys.every((name, i) => places[now.findIndex(is(after.key[i]!))] === old.findIndex(is(name)));
  // Of two tables: those of the key, then those that both have. Nothing else would find the same row.
  const of_key = (side: Column[], table: StoredTable | undefined) =>
    same_key ? (table?.key ?? []).map((name) => side.findIndex(is(name))) : [];
  const ordered = (count: number, first: number[]) => [
    ...first,
    ...Array.from({ length: count }, (_, i) => i).filter((i) => !first.includes(i)),
  ];
  const now_order = ordered(now.length, of_key(now, after));
  const old_order = ordered(old.length, of_key(old, before));
  const found = now_order.map((i) => places[i]! < 0 ? -1 : old_order.indexOf(places[i]!));
  const key_length = same_key ? one.key.length : 0;
  return {
    before,
    after,
    by_rowid,
    columns_before: old_order.map((i) => old[i]!.name),
    columns_after: now_order.map((i) => now[i]!.name),
    places: found,
    renamed: now_order.flatMap((i) => {
      const from = old[places[i]!]?.name;
      return from === undefined || from === now[i]!.name ? [] : [{ name: now[i]!.name, from }];
    }),
    added: !both
      ? []
      : now_order.flatMap((i, place) =>
        found[place]! < 0 ? [{ name: now[i]!.name, place, fallback: defaultOf(now[i]!, encoding) }] : []
      ),
    removed: !both ? [] : old_order.flatMap((i, place) => found.includes(place) ? [] : [{ name: old[i]!.name, place }]),
    key_length: by_rowid && one.alias !== undefined ? 0 : key_length,
  };
}

/** Where a part of the pairs begins: after a rowid, or after so many rows of each side; at the start without both. */
export interface Place {
  /** Rows are read only where pages differ. */
  narrow?: boolean;
  /** Every row can be found by its rowid. */
  sorted?: boolean;
  rowid?: bigint;
  skip?: [before: number, after: number];
}

/** Where a pass begins, and whether equal rows come out, too. */
type Start = Place & { equal?: boolean };

/** Rows between two breaks, in which aborts and the process's other work get their turn. */
const ROWS_PER_TURN = 10_000;

export interface FoundPair {
  pair: Pair;
  next: Place;
}

/** The pairs that differ from `place` on; nothing where it is time for a break. */
export function* differingRows(a: Side, b: Side, plan: PairPlan, place: Start): Generator<FoundPair | undefined> {
  if (plan.by_rowid) yield* byRowid(a, b, plan, place);
  else yield* byOrder(a, b, plan, place);
}

function* byRowid(a: Side, b: Side, plan: PairPlan, place: Start): Generator<FoundPair | undefined> {
  const { before, after } = plan;
  if (place.rowid === HIGHEST) return;
  const low = place.rowid === undefined ? LOWEST : place.rowid + 1n;
  const spans = place.narrow && before && after
    ? differingRanges([a.file, before.root], [b.file, after.root], place.rowid)
    : [[low, HIGHEST] as const];
  const moves = plan.key_length > 0 && before !== undefined && after !== undefined
    ? new Moves(plan, a.finder(before, plan.columns_before), b.finder(after, plan.columns_after))
    : undefined;
  const { skip: done = [0, 0], sorted = false, narrow = false } = place;
  for (const [from, high] of spans) {
    const span: Span = { low: from < low ? low : from, high };
    // Not every module of a virtual table takes bounds.
    const within = span.low === LOWEST && high === HIGHEST ? {} : { span };
    const rows_a = before
      ? a.rows(before, { columns: plan.columns_before, sorted, skip: done[0], ...within })
      : nothing();
    const rows_b = after ? b.rows(after, { columns: plan.columns_after, sorted, skip: done[1], ...within }) : nothing();
    const count = counter(done);
    yield* merged(rows_a, rows_b, (x, y) => Number(x.rowid - y.rowid), (x, y) => {
      const skip = count(x, y);
      const next: Place = sorted ? { narrow, sorted, rowid: (x ?? y)!.rowid } : { skip };
      return pairsAt(plan, moves, x, y).filter(({ equal }) => !equal || place.equal).map((pair) => ({ pair, next }));
    });
  }
}

function counter([before, after]: readonly [number, number]) {
  return (x: StoredRow | undefined, y: StoredRow | undefined): [number, number] => {
    if (x) before++;
    if (y) after++;
    return [before, after];
  };
}

function* byOrder(a: Side, b: Side, plan: PairPlan, place: Start): Generator<FoundPair | undefined> {
  const { before, after, key_length } = plan;
  const at = place.skip ?? [0, 0];
  const shared = plan.places.flatMap((old, i) => old < 0 ? [] : [[old, i] as const]);
  const order = key_length > 0 ? shared.slice(0, key_length) : shared;
  const ordered = (columns: string[], side: 0 | 1) =>
    before && after ? order.map((pair) => columns[pair[side]]!) : columns.slice(0, key_length || columns.length);
  const [columns_a, columns_b] = [plan.columns_before, plan.columns_after];
  const rows_a = before ? a.rows(before, { columns: columns_a, order: ordered(columns_a, 0), skip: at[0] }) : nothing();
  const rows_b = after ? b.rows(after, { columns: columns_b, order: ordered(columns_b, 1), skip: at[1] }) : nothing();
  const compare = (x: StoredRow, y: StoredRow) => {
    for (const [i, j] of order) {
      const by = compareValues(x.values[i]!, y.values[j]!);
      if (by !== 0) return by;
    }
    return 0;
  };
  const count = counter(at);
  yield* merged(rows_a, rows_b, compare, (x, y) => {
    const skip = count(x, y);
    const equal = x !== undefined && y !== undefined && isEqual(plan, x, y);
    return equal && !place.equal ? [] : [{ pair: { before: x, after: y, equal }, next: { skip } }];
  });
}

function* merged<T>(
  rows_a: Generator<StoredRow, undefined>,
  rows_b: Generator<StoredRow, undefined>,
  compare: (a: StoredRow, b: StoredRow) => number,
  pairs: (a: StoredRow | undefined, b: StoredRow | undefined) => T[],
): Generator<T | undefined> {
  try {
    let a = rows_a.next().value;
    let b = rows_b.next().value;
    for (let steps = 1; a !== undefined || b !== undefined; steps++) {
      if (steps % ROWS_PER_TURN === 0) yield undefined;
      const order = a === undefined ? 1 : b === undefined ? -1 : compare(a, b);
      yield* pairs(order <= 0 ? a : undefined, order >= 0 ? b : undefined);
      if (order <= 0) a = rows_a.next().value;
      if (order >= 0) b = rows_b.next().value;
    }
  } finally {
    rows_a.return(undefined);
    rows_b.return(undefined);
  }
}

function* nothing(): Generator<StoredRow, undefined> {}

/** Whether everything is the same that is kept of a row: an added column has its default. */
function isEqual(plan: PairPlan, a: StoredRow, b: StoredRow): boolean {
  return plan.places.every((place, i) => place < 0 || sameValue(a.values[place]!, b.values[i]!)) &&
    plan.added.every(({ place, fallback }) => sameValue(b.values[place]!, fallback));
}

function pairsAt(
  plan: PairPlan,
  moves: Moves | undefined,
  before: StoredRow | undefined,
  after: StoredRow | undefined,
): Pair[] {
  if (before && after && (moves === undefined || moves.sameKey(before, after))) {
    return [{ before, after, equal: isEqual(plan, before, after) }];
  }
  if (moves === undefined) return [{ before, after }];
  const there = before && moves.after(before);
  if (there && there.rowid === after?.rowid) return [{ before, after, equal: false }];
  return [
    ...before === undefined ? [] : [{ before, after: there }],
    ...after === undefined || moves.isShown(after) ? [] : [{ after }],
  ];
}

/** Finds rows that have another rowid in the other side, by their key. */
class Moves {
  readonly #plan: PairPlan;
  readonly #a: Finder;
  readonly #b: Finder;

  constructor(plan: PairPlan, a: Finder, b: Finder) {
    this.#plan = plan;
    this.#a = a;
    this.#b = b;
  }

  #key({ values }: StoredRow): Value[] {
    return values.slice(0, this.#plan.key_length);
  }

  sameKey(before: StoredRow, after: StoredRow): boolean {
    const now = this.#key(after);
    return this.#key(before).every((value, i) => sameValue(value, now[i]!));
  }

  /** The row of the second side with the key of a row of the first, if each of the two finds the other. */
  after(before: StoredRow): StoredRow | undefined {
    const key = this.#key(before);
    if (key.includes(null) || this.#a.rowid(key) !== before.rowid) return undefined;
    const rowid = this.#b.rowid(key);
    const after = rowid === undefined ? undefined : this.#b.row(rowid);
    return after !== undefined && this.#a.rowid(this.#key(after)) === before.rowid ? after : undefined;
  }

  /** Whether a row of the second side comes out, or came, with the one of the first that has its key. */
  isShown(after: StoredRow): boolean {
    const key = this.#key(after);
    if (key.includes(null)) return false;
    const rowid = this.#a.rowid(key);
    const before = rowid === undefined ? undefined : this.#a.row(rowid);
    if (before === undefined || this.after(before)?.rowid !== after.rowid) return false;
    // A damaged table can have two rows of one key: then the other one is its counterpart.
    const beside = this.#b.row(before.rowid);
    return beside === undefined || !this.sameKey(before, beside);
  }
}

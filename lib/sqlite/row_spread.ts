/**
 * On which values of each column the rows of a table fall that differ: what a person sees of 31,000 rows at once.
 *
 * A row counts with what it holds, a removed one with what it held. Bins get wider as values come, so that memory is
 * bounded whatever the rows are, and the same rows give the same bins.
 */

import type { JsonValue } from "./diff_result.ts";
import type { Pair, PairPlan } from "./row_pairs.ts";
import { isText, showValue, type Text, type Value } from "./row_values.ts";

/** Fewer rows are read one by one. */
export const SPREAD_ROWS = 200;
/** Most bins of a column: the months of a year. */
export const MAX_BINS = 12;
/** Most columns of a table that are counted. */
export const MAX_SPREAD_COLUMNS = 8;
/** Most texts of a column that are counted at a time. */
const MAX_TEXTS = 256;
const MAX_TEXT_BYTES = 64;
/** Bins below this share of the rows are no help. */
const MIN_SHARE = 0.01;
const DATE = /^\d{4}-\d\d(?!\d)/;
/** Characters of a date: a day, a month, a year, ten, a hundred, a thousand, any. */
const DATE_LENGTHS = [10, 7, 4, 3, 2, 1, 0];

/** Rows between two values, both included; of one value when `to` is absent. */
export interface SpreadBin {
  from: JsonValue;
  to?: JsonValue;
  rows: number;
}

export interface ColumnSpread {
  column: string;
  bins: SpreadBin[];
  /** Rows that are in no bin. */
  other: number;
  /** Texts are at least as frequent as their bins say: there were too many to count. */
  at_least?: true;
}

/** The spread of one table's rows. */
export class RowSpread {
  #rows = 0;
  #columns: { name: string; place: number; counter: ColumnCounter }[] | undefined;

  add(plan: PairPlan, { before, after }: Pair): void {
    const row = (after ?? before)!;
    this.#columns ??= namesOf(plan).slice(0, MAX_SPREAD_COLUMNS).map((column) => ({
      ...column,
      counter: new ColumnCounter(),
    }));
    this.#rows++;
    const gone = after === undefined && plan.after !== undefined;
    for (const { place, counter } of this.#columns) {
      const at = gone && place >= 0 ? plan.places[place]! : place;
      // -1 is the rowid; of a removed row, also a column that it never had.
      if (at >= 0) counter.add(row.values[at]!);
      else if (place < 0) counter.add(row.rowid);
    }
  }

  /** Undefined of few rows, and where no value is frequent. */
  finish(): ColumnSpread[] | undefined {
    if (this.#rows < SPREAD_ROWS) return undefined;
    const found = (this.#columns ?? []).map(({ name, counter }) => ({ column: name, ...counter.finish(this.#rows) }));
    const spreads = found.filter(({ bins }) => bins.length > 0);
    return spreads.length === 0 ? undefined : spreads;
  }
}

function namesOf(plan: PairPlan): { name: string; place: number }[] {
  const table = (plan.after ?? plan.before)!;
  const names = plan.after === undefined ? plan.columns_before : plan.columns_after;
  return [
    ...plan.by_rowid && plan.key_length === 0 && table.alias === undefined ? [{ name: table.rowid!, place: -1 }] : [],
    ...names.map((name, place) => ({ name, place })),
  ];
}

class ColumnCounter {
  #nulls = 0;
  readonly #numbers = new Ranges<bigint | number>((value, level) => Math.floor(Number(value) / 2 ** (level - 10)));
  readonly #dates = new Ranges<string>((value, level) => value.slice(0, DATE_LENGTHS[level]));
  /** By Misra and Gries: each that is more frequent than one in 257 stays. */
  readonly #texts = new Map<string, number>();
  #dropped = 0;
  #decoder: TextDecoder | undefined;

  add(value: Value): void {
    if (value === null) this.#nulls++;
    else if (typeof value === "bigint" || typeof value === "number") this.#numbers.add(value);
    else if (isText(value) && value.text.length <= MAX_TEXT_BYTES) this.#addText(value);
  }

  #addText({ text: bytes, encoding }: Text): void {
    this.#decoder ??= new TextDecoder(encoding, { ignoreBOM: true });
    const text = this.#decoder.decode(bytes);
    if (DATE.test(text)) return this.#dates.add(text);
    const count = this.#texts.get(text);
    if (count !== undefined || this.#texts.size < MAX_TEXTS) return void this.#texts.set(text, (count ?? 0) + 1);
    this.#dropped++;
    for (const [other, rows] of this.#texts) {
      if (rows === 1) this.#texts.delete(other);
      else this.#texts.set(other, rows - 1);
    }
  }

  finish(rows: number): Omit<ColumnSpread, "column"> {
    const least = Math.max(2, rows * MIN_SHARE);
    const texts = [...this.#texts].filter(([, count]) => count >= least)
      .sort(([x, a], [y, b]) => b - a || (x < y ? -1 : 1)).slice(0, MAX_BINS);
    const bins = [
      ...this.#numbers.bins((value) => showValue(value, { most: 0 })),
      ...this.#dates.bins((text) => text),
      ...texts.map(([from, count]): SpreadBin => ({ from, rows: count })),
      ...this.#nulls === 0 ? [] : [{ from: null, rows: this.#nulls }],
    ];
    const other = rows - bins.reduce((sum, bin) => sum + bin.rows, 0);
    return { bins, other, ...this.#dropped > 0 && texts.length > 0 && { at_least: true as const } };
  }
}

/** Bins that hold what has the same key at a level; at the next level, keys fall together. */
class Ranges<T extends bigint | number | string> {
  readonly #keyOf: (value: T, level: number) => number | string;
  #level = 0;
  #bins = new Map<number | string, { from: T; to: T; rows: number }>();

  constructor(keyOf: (value: T, level: number) => number | string) {
    this.#keyOf = keyOf;
  }

  add(value: T): void {
    this.#put({ from: value, to: value, rows: 1 });
    while (this.#bins.size > MAX_BINS) {
      const bins = this.#bins;
      this.#bins = new Map();
      this.#level++;
      for (const bin of bins.values()) this.#put(bin);
    }
  }

  #put({ from, to, rows }: { from: T; to: T; rows: number }): void {
    const key = this.#keyOf(from, this.#level);
    const bin = this.#bins.get(key);
    if (bin === undefined) return void this.#bins.set(key, { from, to, rows });
    if (from < bin.from) bin.from = from;
    if (to > bin.to) bin.to = to;
    bin.rows += rows;
  }

  bins(show: (value: T) => JsonValue): SpreadBin[] {
    return [...this.#bins.values()].sort((a, b) => a.from < b.from ? -1 : 1)
      .map(({ from, to, rows }) => ({ from: show(from), ...from != to && { to: show(to) }, rows }));
  }
}

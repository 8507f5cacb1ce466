/**
 * The rows of one table in a merge: each is held against the target's, decided cell by cell, and applied.
 */

import { nameKey } from "../sqlite/image.ts";
import type { JsonValue } from "../sqlite/diff_result.ts";
import type { Pair, PairPlan } from "../sqlite/row_pairs.ts";
import { defaultOf } from "../sqlite/side.ts";
import { sameValue, showValue, type Value } from "../sqlite/row_values.ts";
import type { TableToMerge } from "./source_changes.ts";
import type { MergeConflict, MergeSide } from "./conflicts.ts";
import { ConstraintBroken, keyOf, locate, type Locator, SHOWN_BYTES, type Target } from "./target.ts";
import type { TargetRow, TargetTable } from "./target.ts";

const NO_COLUMN = "the target has no such column";

/** Says what is in conflict, and learns who wins; undefined where that is not decided. */
export type ReportConflict = (conflict: MergeConflict) => MergeSide | undefined;

/** What became of one table's rows. */
export interface MergedTable {
  /** The table. */
  table: string;
  /** Rows that came. */
  rows_added: number;
  /** Rows that went. */
  rows_removed: number;
  /** Rows that changed. */
  rows_changed: number;
  /** Rows that were there, or gone, as in the source. */
  rows_already: number;
}

/** What a changed row asks for, in the order in which tables carry it out. */
export type RowKind = "removed" | "changed" | "added";

/** A column that the source writes, and where a row of either image has it. */
interface Cell {
  name: string;
  source: number;
  /** -1 of a column that the base has not; then `fallback` is what its rows have there. */
  base: number;
  fallback: Value;
}

interface Decided {
  at: Locator;
  row: TargetRow | undefined;
  /** Places among the cells, and what they become. */
  set: Map<number, Value>;
  does: "insert" | "update" | "delete" | "nothing";
}

export class TableMerge {
  readonly changed: TableToMerge;
  counts: MergedTable;
  readonly #plan: PairPlan;
  readonly #target: Target;
  #table: TargetTable | undefined;
  #cells: Cell[] = [];
  /** Columns that only the target has, and what rows have there that nothing was written to. */
  #own: { name: string; fallback: Value }[] = [];
  /** Columns of the source that the target has not: such as both had may stay away while nothing was written to them. */
  #missing: Cell[] = [];
  /** Rows that another one was in the way of. */
  #refused: { key: Record<string, JsonValue>; at: Locator; row: TargetRow }[] = [];

  constructor(changed: TableToMerge, target: Target) {
    this.changed = changed;
    this.#plan = changed.plan;
    this.#target = target;
    this.counts = this.#zero();
  }

  get name(): string {
    return this.changed.name;
  }

  get plan(): PairPlan {
    return this.#plan;
  }

  #zero(): MergedTable {
    return { table: this.changed.name, rows_added: 0, rows_removed: 0, rows_changed: 0, rows_already: 0 };
  }

  /** Looks at the target's table; false where there is none. */
  prepare(): boolean {
    this.counts = this.#zero();
    const table = this.#target.table(this.name);
    this.#table = table;
    if (table === undefined) return false;
    const { columns_before, columns_after, places, added, after } = this.#plan;
    const cells = after === undefined
      ? columns_before.map((name, place): Cell => ({ name, source: -1, base: place, fallback: null }))
      : columns_after.map((name, place): Cell => ({
        name,
        source: place,
        base: places[place]!,
        fallback: added.find((column) => column.place === place)?.fallback ?? null,
      }));
    const there = new Set(table.columns.map(nameKey));
    this.#cells = cells.filter(({ name }) => there.has(nameKey(name)));
    const generated = new Set(table.generated.map(nameKey));
    this.#missing = after === undefined
      ? []
      : cells.filter(({ name }) => !there.has(nameKey(name)) && !generated.has(nameKey(name)));
    const known = new Set([...columns_before, ...columns_after].map(nameKey));
    const own = table.columns.filter((name) => !known.has(nameKey(name)));
    const fallbacks = this.#target.defaults(table, own);
    this.#own = own.map((name, i) => ({ name, fallback: fallbacks[i]! }));
    return true;
  }

  /** Reports columns that the source writes and the target lacks, and rows that nothing names. */
  requireColumns(report: ReportConflict): void {
    const { by_rowid, key_length } = this.#plan;
    if (key_length === 0 && (!by_rowid || this.#table!.rowid === undefined)) {
      return void report({
        kind: "definition",
        table: this.name,
        detail: "columns of it hide the rowid: no row has a name",
      });
    }
    for (const { name: column, source, base } of this.#missing) {
      if (base >= 0 && source >= key_length) continue;
      report({ kind: "definition", table: this.name, column, detail: NO_COLUMN });
    }
  }

  /** Reports what the source has written to columns that the target has dropped, of each column once. */
  #requireUnwritten(pair: Pair, report: ReportConflict): void {
    const { before, after } = pair;
    const lost = this.#missing.filter(({ source, base }) => {
      const unwritten = before === undefined ? this.#defaultOf(source) : before.values[base]!;
      return !sameValue(unwritten, after!.values[source]!);
    });
    for (const { name: column, source } of lost) {
      const theirs = { [column]: showValue(after!.values[source]!, { most: SHOWN_BYTES }) };
      report({ ...this.#conflict("definition", pair), column, theirs, detail: NO_COLUMN });
    }
    this.#missing = this.#missing.filter((cell) => !lost.includes(cell));
  }

  #defaultOf(source: number): Value {
    const { after, columns_after } = this.#plan;
    return defaultOf(after!.columns.find(({ name }) => name === columns_after[source])!, this.#target.encoding);
  }

  static kindOf({ before, after }: Pair): RowKind {
    return before === undefined ? "added" : after === undefined ? "removed" : "changed";
  }

  /** Reports what is in conflict, and changes nothing. */
  look(pair: Pair, report: ReportConflict): void {
    this.#decide(pair, (conflict) => isSpeltOtherwise(conflict) ? undefined : report(conflict));
  }

  apply(pair: Pair, report: ReportConflict): void {
    const decided = this.#decide(pair, report);
    const { at, row, set, does } = decided;
    const [target, table] = [this.#target, this.#table!];
    const key = () => this.keyOf(pair);
    if (does === "nothing") return;
    if (does === "delete") target.delete(table, at);
    else if (does === "insert") {
      const values = this.#cells.map((_, i) => set.get(i)!);
      this.#guarded(key, report, () => target.insert(table, this.#names, { rowid: this.#rowidFor(pair), values }));
    } else {
      const places = [...set.keys()];
      try {
        target.update(table, places.map((i) => this.#cells[i]!.name), [...set.values()], at);
      } catch (error) {
        if (!(error instanceof ConstraintBroken)) throw error;
        // Two rows that swap a unique value are in each other's way, one by one.
        const values = row!.values.map((value, i) => set.has(i) ? set.get(i)! : value);
        this.#refused.push({ key: key(), at: this.#exact(at, row!), row: { rowid: row!.rowid, values } });
      }
    }
    this.counts[does === "delete" ? "rows_removed" : does === "insert" ? "rows_added" : "rows_changed"]++;
  }

  /** Writes the rows that were in each other's way, all at once. */
  settle(report: ReportConflict): void {
    const [refused, target, table] = [this.#refused, this.#target, this.#table!];
    this.#refused = [];
    if (refused.length === 0) return;
    const own = this.#own.map(({ name }) => name);
    const whole = refused.map(({ key, at, row }) => {
      const kept = own.length === 0 ? [] : target.row(table, own, at)!.values;
      return { key, row: { ...row, values: [...row.values, ...kept] } };
    });
    for (const { at } of refused) target.delete(table, at);
    for (const { key, row } of whole) {
      this.#guarded(() => key, report, () => target.insert(table, [...this.#names, ...own], row));
    }
  }

  #guarded(key: () => Record<string, JsonValue>, report: ReportConflict, write: () => void): void {
    try {
      write();
    } catch (error) {
      if (!(error instanceof ConstraintBroken)) throw error;
      report({ kind: "constraint", table: this.name, key: key(), detail: error.message });
    }
  }

  get #names(): string[] {
    return this.#cells.map(({ name }) => name);
  }

  /** The rowid that an inserted row has in the source, where no column is it. */
  #rowidFor({ after }: Pair): bigint | undefined {
    return this.#plan.by_rowid && this.#plan.after?.alias === undefined ? after?.rowid : undefined;
  }

  #exact(at: Locator, { rowid }: TargetRow): Locator {
    return rowid === undefined ? at : { rowid };
  }

  #decide(pair: Pair, report: ReportConflict): Decided {
    const { before, after } = pair;
    const at = this.locate(pair);
    const row = this.#target.row(this.#table!, this.#names, at);
    const nothing: Decided = { at, row, set: new Map(), does: "nothing" };
    const already = () => {
      this.counts.rows_already++;
      return nothing;
    };
    if (after === undefined) return row === undefined ? already() : this.#removed(pair, { at, row }, report);
    if (this.#missing.length > 0) this.#requireUnwritten(pair, report);
    const all = new Map(this.#cells.map(({ source }, i) => [i, after.values[source]!]));
    if (before === undefined && row === undefined) return { at, row, set: all, does: "insert" };
    if (row === undefined) {
      // Only values count: a row of this key that has another rowid since is not a changed one.
      if (this.#changedCells(pair).length === 0) return nothing;
      const side = report({
        ...this.#conflict("deleted_and_changed", pair),
        base: this.#shown((i) => this.#baseValue(before!.values, i)),
        theirs: this.#shown((i) => all.get(i)!),
      });
      return side === "theirs" ? { at, row, set: all, does: "insert" } : nothing;
    }
    if (before === undefined) return this.#insertedTwice(pair, { at, row, all }, report) ?? already();
    return this.#changed(pair, { at, row }, report) ?? already();
  }

  #removed(pair: Pair, { at, row }: { at: Locator; row: TargetRow }, report: ReportConflict): Decided {
    const base = pair.before!.values;
    const remove: Decided = { at: this.#exact(at, row), row, set: new Map(), does: "delete" };
    const differing = this.#cells.flatMap((_, i) => sameValue(row.values[i]!, this.#baseValue(base, i)) ? [] : [i]);
    const written = this.#ownWritten(at);
    if (differing.length === 0 && Object.keys(written).length === 0) return remove;
    const side = report({
      ...this.#conflict("changed_and_deleted", pair),
      base: this.#shown((i) => this.#baseValue(base, i), differing),
      ours: { ...this.#shown((i) => row.values[i]!, differing), ...written },
    });
    return side === "theirs" ? remove : { ...remove, does: "nothing" };
  }

  /** What was written to a row's columns that the source does not know. */
  #ownWritten(at: Locator): Record<string, JsonValue> {
    if (this.#own.length === 0) return {};
    const { values } = this.#target.row(this.#table!, this.#own.map(({ name }) => name), at)!;
    return Object.fromEntries(
      this.#own.flatMap(({ name, fallback }, i) =>
        sameValue(values[i]!, fallback) ? [] : [[name, showValue(values[i]!, { most: SHOWN_BYTES })]]
      ),
    );
  }

  #insertedTwice(
    pair: Pair,
    { at, row, all }: { at: Locator; row: TargetRow; all: Map<number, Value> },
    report: ReportConflict,
  ): Decided | undefined {
    const differing = [...all].filter(([i, value]) => !sameValue(row.values[i]!, value));
    if (differing.length === 0) return undefined;
    const places = differing.map(([i]) => i);
    const side = report({
      ...this.#conflict("inserted_twice", pair),
      ours: this.#shown((i) => row.values[i]!, places),
      theirs: this.#shown((i) => all.get(i)!, places),
    });
    return { at: this.#exact(at, row), row, set: new Map(differing), does: side === "theirs" ? "update" : "nothing" };
  }

  #changed(pair: Pair, { at, row }: { at: Locator; row: TargetRow }, report: ReportConflict): Decided | undefined {
    const set = new Map<number, Value>();
    let decided = false;
    const changed = this.#changedCells(pair);
    if (!this.#isKnown(pair, row, changed)) {
      const all = this.#cells.map(({ source }) => pair.after!.values[source]!);
      if (all.every((value, i) => sameValue(value, row.values[i]!))) return undefined;
      const side = report({
        ...this.#conflict("changed_twice", pair),
        base: this.#shown((i) => this.#baseValue(pair.before!.values, i)),
        ours: this.#shown((i) => row.values[i]!),
        theirs: this.#shown((i) => all[i]!),
      });
      const does = side === "theirs" ? "update" : "nothing";
      return { at: this.#exact(at, row), row, set: new Map(changed.map((i) => [i, all[i]!])), does };
    }
    for (const i of changed) {
      const [base, ours, theirs] = [
        this.#baseValue(pair.before!.values, i),
        row.values[i]!,
        pair.after!.values[this.#cells[i]!.source]!,
      ];
      if (sameValue(ours, theirs)) continue;
      if (!sameValue(ours, base)) {
        const { name } = this.#cells[i]!;
        const show = (value: Value, other: Value) => showValue(value, { most: SHOWN_BYTES, other });
        const side = report({
          ...this.#conflict("changed_twice", pair),
          column: name,
          base: { [name]: show(base, ours) },
          ours: { [name]: show(ours, theirs) },
          theirs: { [name]: show(theirs, ours) },
        });
        decided = true;
        if (side !== "theirs") continue;
      }
      set.set(i, theirs);
    }
    if (set.size === 0 && !decided) return undefined;
    return { at: this.#exact(at, row), row, set, does: set.size === 0 ? "nothing" : "update" };
  }

  /**
   * Whether a row is the one that the source changed. Of a table without a key, or where that is NULL, only the rowid says
   * so, which others get: then the cells that the source left have to be as it left them.
   */
  #isKnown({ before }: Pair, row: TargetRow, changed: readonly number[]): boolean {
    const { by_rowid, key_length, after, before: table } = this.#plan;
    const has_key = key_length > 0 && !before!.values.slice(0, key_length).includes(null);
    if (!by_rowid || has_key || (after ?? table)!.alias !== undefined) return true;
    return row.values.every((value, i) => changed.includes(i) || sameValue(value, this.#baseValue(before!.values, i)));
  }

  /** Places of the cells that the source changed. */
  #changedCells({ before, after }: Pair): number[] {
    return this.#cells.flatMap(({ source }, i) =>
      sameValue(this.#baseValue(before!.values, i), after!.values[source]!) ? [] : [i]
    );
  }

  #baseValue(values: readonly Value[], i: number): Value {
    const { base, fallback } = this.#cells[i]!;
    return base < 0 ? fallback : values[base]!;
  }

  locate(pair: Pair): Locator {
    return locate(this.#plan, pair);
  }

  /** A row's key, as people and decisions name it. */
  keyOf(pair: Pair): Record<string, JsonValue> {
    return keyOf(this.#plan, pair);
  }

  #conflict(kind: MergeConflict["kind"], pair: Pair): Pick<MergeConflict, "kind" | "table" | "key"> {
    return { kind, table: this.name, key: this.keyOf(pair) };
  }

  #shown(value: (place: number) => Value, places = this.#cells.map((_, i) => i)): Record<string, JsonValue> {
    return Object.fromEntries(places.map((i) => [this.#cells[i]!.name, showValue(value(i), { most: SHOWN_BYTES })]));
  }
}

/** A row of the same key in other letters may be one that the source removes: that is known once it is to be applied. */
function isSpeltOtherwise({ kind, key = {}, ours = {} }: MergeConflict): boolean {
  return kind === "inserted_twice" && Object.keys(key).some((name) => name in ours);
}

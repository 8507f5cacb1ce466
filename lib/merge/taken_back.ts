/**
 * What a merge has brought, to be taken back: of all that its source had changed only what the target did not have by
 * itself, and in its place what the target had. The rest was the target's own, and stays. A merge that was taken back is
 * a merge in turn: what that brought is what the first had brought, and the target did not have undone by itself.
 */

import { nameKey } from "../sqlite/image.ts";
import type { SettingDiff } from "../sqlite/diff_result.ts";
import { type Pair, type PairPlan, planOf } from "../sqlite/row_pairs.ts";
import { sameValue, type Value } from "../sqlite/row_values.ts";
import { type Column, defaultOf, type StoredRow, type StoredTable } from "../sqlite/side.ts";
import { placeOf } from "./conflicts.ts";
import { keyOf, locate, type Locator, Target, type TargetTable } from "./target.ts";

/** What is taken back of a table. */
export interface TableTakenBack {
  /** How the pairs are to be read that come out. */
  plan: PairPlan;
  /** Rows that are equal otherwise may differ in columns that the merge's base had not. */
  reads_all: boolean;
  /** Of a row as the merge brought it, and as it was in the merge's base. */
  of(pair: Pair): Pair | undefined;
}

/** The target as a merge found it. */
export interface FoundTarget {
  /** Its image. */
  path: string;
  /** Places that were in conflict and stayed as it had them; see `placeOf`. */
  left?: readonly string[] | undefined;
}

/**
 * A merge, or what took one back, as it is taken back: each of them seen against what it found. The one that is taken
 * back now is the last; each takes back the one before.
 */
export class TakenBack implements Disposable {
  readonly #found: readonly Before[];

  /** @param targets What each of them found. */
  constructor(targets: readonly FoundTarget[]) {
    const found: Before[] = [];
    try {
      for (const target of targets) found.push(new Before(target));
    } catch (error) {
      for (const each of found) each[Symbol.dispose]();
      throw error;
    }
    this.#found = found;
  }

  /** Whether what the one at a place brought is what is the source now: every second one went the other way. */
  #isTurned(place: number): boolean {
    return (this.#found.length - place) % 2 === 0;
  }

  /** Whether one of them brought a definition in vain: it was there. */
  hadDefinition({ base, source, ...named }: Definition & { source: string | undefined }): boolean {
    return this.#found.some((found, i) => found.hadDefinition({ ...named, base: this.#isTurned(i) ? source : base }));
  }

  /** Whether one of them brought a header field in vain: it was as that. */
  hadSetting({ setting, before, after }: SettingDiff): boolean {
    return this.#found.some((found, i) =>
      found.hadSetting(this.#isTurned(i) ? { setting, before: after, after: before } : { setting, before, after })
    );
  }

  /**
   * What is to be taken back of a table; undefined where that is nothing.
   *
   * @param read How the pairs are read: as the last of them brought it, and as it was in that one's base.
   */
  table(read: PairPlan): TableTakenBack | undefined {
    let [before, after] = [read.before, read.after];
    if (this.#isTurned(0)) [before, after] = [after, before];
    const steps: TableTakenBack[] = [];
    for (const [i, found] of this.#found.entries()) {
      if (i > 0) [before, after] = [after, before];
      const step = found.table(before, after);
      if (step === undefined) return undefined;
      steps.push(step);
      ({ before, after } = step.plan);
    }
    const last = steps.at(-1);
    if (last === undefined) return { plan: read, reads_all: false, of: (pair) => pair };
    return {
      plan: last.plan,
      reads_all: steps.some(({ reads_all }) => reads_all),
      of: (pair) => {
        let seen: Pair | undefined = this.#isTurned(0) ? turned(pair) : pair;
        for (const [i, step] of steps.entries()) {
          if (i > 0) seen = turned(seen);
          seen = step.of(seen);
          if (seen === undefined) return undefined;
        }
        // The last one takes columns away with their cells.
        return isSame(last.plan, seen) ? undefined : seen;
      },
    };
  }

  [Symbol.dispose](): void {
    for (const found of this.#found) found[Symbol.dispose]();
  }
}

function turned({ before, after }: Pair): Pair {
  return { before: after, after: before };
}

/** Whether a row has the same cells on both sides, in all columns of the second. */
function isSame({ places }: PairPlan, { before, after }: Pair): boolean {
  if (before === undefined || after === undefined) return false;
  return places.every((place, i) => place >= 0 && sameValue(before.values[place]!, after.values[i]!));
}

interface Definition {
  type: string;
  name: string;
  base: string | undefined;
}

/** The target as it was before the merge. */
class Before implements Disposable {
  readonly #image: Target;
  readonly #definitions: ReadonlyMap<string, unknown>;
  readonly #left: ReadonlySet<string>;

  constructor({ path, left = [] }: FoundTarget) {
    this.#left = new Set(left);
    this.#image = new Target(path, { busy_timeout_ms: 0, image: true });
    const found = this.#image.query("SELECT type || ' ' || lower(name), sql FROM main.sqlite_schema");
    this.#definitions = new Map(found.map(([name, sql]) => [String(name), sql]));
  }

  /** Whether it had a definition as the merge brought it. */
  hadDefinition({ type, name, base }: Definition): boolean {
    return (this.#definitions.get(`${type} ${nameKey(name)}`) ?? undefined) === base;
  }

  /** Whether it had a header field as the merge brought it. */
  hadSetting({ setting, before }: SettingDiff): boolean {
    if (setting !== "user_version" && setting !== "application_id") return false;
    return String(this.#image.query(`PRAGMA ${setting}`)[0]![0]) === before;
  }

  /**
   * What is to be taken back of a table; undefined where that is nothing.
   *
   * @param brought As the merge brought it.
   * @param base As the merge's base had it.
   */
  table(brought: StoredTable | undefined, base: StoredTable | undefined): TableTakenBack | undefined {
    const { name } = (brought ?? base)!;
    const { encoding } = this.#image;
    const plan = planOf(brought, base, encoding);
    const had = this.hadDefinition({ type: "table", name, base: brought?.sql });
    // Both had dropped it.
    if (brought === undefined && had) return undefined;
    const table = this.#image.table(name);
    if (table === undefined) return { plan, reads_all: false, of: (pair) => pair };
    const is_definition_back = base !== undefined && !had && brought?.sql !== base.sql;
    const reads_all = plan.removed.length > 0;
    if (brought === undefined || is_definition_back) {
      const gone = plan.removed.map(({ name, place }) => {
        return { place, fallback: defaultOf(brought!.columns.find((column) => column.name === name)!, encoding) };
      });
      const isGone = ({ before }: Pair) =>
        before !== undefined && gone.some(({ place, fallback }) => !sameValue(before.values[place]!, fallback));
      return {
        plan,
        reads_all,
        of: (pair) => {
          const has_more = isGone(pair);
          if (!has_more && isSame(plan, pair)) return undefined;
          return this.#reversal(table, plan, pair, { has_more });
        },
      };
    }
    // The definition stays. What the base had not in its columns, or had no columns for, the target may have had.
    const whole: StoredTable = { ...brought, columns: [...brought.columns, ...this.#ownColumns(table, brought)] };
    const as_is = planOf(whole, whole, encoding);
    const fallbacks = as_is.columns_after.map((name) =>
      defaultOf(whole.columns.find((column) => column.name === name)!, encoding)
    );
    const in_brought = as_is.columns_before.map((name) => plan.columns_before.indexOf(name));
    const in_base = in_brought.map((place) => place < 0 ? -1 : plan.places.indexOf(place));
    const widened = (row: StoredRow | undefined, places: readonly number[]): StoredRow | undefined =>
      row && { rowid: row.rowid, values: places.map((place, i) => place < 0 ? fallbacks[i]! : row.values[place]!) };
    return {
      plan: as_is,
      reads_all,
      of: ({ before, after }) => {
        const pair = { before: widened(before, in_brought), after: widened(after, in_base) };
        return isSame(as_is, pair) ? undefined : this.#reversal(table, as_is, pair, { fallbacks });
      },
    };
  }

  /** Columns of a table that the merge knew nothing of. */
  #ownColumns({ name, columns }: TargetTable, brought: StoredTable): Column[] {
    const known = new Set(brought.columns.map((column) => nameKey(column.name)));
    const own = columns.filter((column) => !known.has(nameKey(column)));
    if (own.length === 0) return [];
    const sql = "SELECT name, type, CAST(dflt_value AS TEXT) FROM pragma_table_xinfo(?)";
    const all = this.#image.query(sql, [name]) as [string, string, string | null][];
    return all.filter(([column]) => own.includes(column)).map(([name, type, fallback]) => ({
      name,
      type,
      key: 0,
      fallback,
    }));
  }

  /**
   * @param more.fallbacks What stands for the values of columns that the target had not.
   * @param more.has_more The merge brought cells in columns that go: what brings those again is to bring the cells.
   */
  #reversal(
    table: TargetTable,
    plan: PairPlan,
    pair: Pair,
    { fallbacks = pair.after?.values, has_more = false }: { fallbacks?: readonly Value[]; has_more?: boolean },
  ): Pair | undefined {
    const { before: brought, after: base } = pair;
    const isLeft = this.#leftOf(plan, pair);
    if (isLeft()) return undefined;
    const row = this.#row(table, plan.columns_after, locate(plan, pair));
    if (brought === undefined) {
      if (row === undefined) return undefined;
      const values = row.values.map((value, i) => value === undefined ? fallbacks![i]! : value);
      return { after: { rowid: row.rowid ?? base!.rowid, values } };
    }
    if (row === undefined) {
      // It was brought whole, unless it has only changed in columns that the merge took away.
      const is_left = base !== undefined && !has_more &&
        plan.places.every((place, i) => place < 0 || sameValue(brought.values[place]!, base.values[i]!));
      return is_left ? undefined : { before: brought };
    }
    // Cells that the source or the merge left are the target's own, on both sides of what is taken back.
    const as_brought = [...brought.values];
    let same = !has_more;
    const values = plan.columns_after.map((name, i): Value => {
      const [place, was, had] = [plan.places[i]!, base?.values[i], row.values[i]];
      if (place < 0) {
        same = false;
        return had === undefined ? was ?? null : had;
      }
      const theirs = brought.values[place]!;
      // Nothing can be brought to a column that is not there.
      if (had === undefined) return theirs;
      if (was !== undefined && (sameValue(was, theirs) || isLeft(name))) return as_brought[place] = had;
      if (!sameValue(had, theirs)) same = false;
      return had;
    });
    if (same) return undefined;
    const rowid = base === undefined ? row.rowid ?? brought.rowid : base.rowid;
    return { before: { rowid: brought.rowid, values: as_brought }, after: { rowid, values } };
  }

  /** Whether the merge left a row, or one of its cells, as it was. */
  #leftOf(plan: PairPlan, pair: Pair): (column?: string) => boolean {
    if (this.#left.size === 0) return () => false;
    const { name: table } = (plan.before ?? plan.after)!;
    const key = keyOf(plan, pair);
    return (column) => this.#left.has(placeOf({ table, key, ...column === undefined ? {} : { column } }));
  }

  /** Values by place; undefined of a column that it has not. */
  #row(table: TargetTable, columns: readonly string[], at: Locator) {
    const there = new Set(table.columns.map(nameKey));
    const known = columns.filter((column) => there.has(nameKey(column)));
    if ("key" in at && !at.key.every((column) => there.has(nameKey(column)))) return undefined;
    const row = this.#image.row(table, known, at);
    if (row === undefined) return undefined;
    const values: (Value | undefined)[] = columns.map((column) => {
      const place = known.indexOf(column);
      return place < 0 ? undefined : row.values[place];
    });
    return { rowid: row.rowid, values };
  }

  [Symbol.dispose](): void {
    this.#image[Symbol.dispose]();
  }
}

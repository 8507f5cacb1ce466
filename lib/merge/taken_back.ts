/**
 * What a merge has brought, to be taken back: of all that its source had changed only what the target did not have by
 * itself, and in its place what the target had. The rest was the target's own, and stays.
 */

import type { SettingDiff } from "../sqlite/diff_result.ts";
import type { Pair, PairPlan } from "../sqlite/row_pairs.ts";
import { sameValue, type Value } from "../sqlite/row_values.ts";
import { locate, type Locator, Target, type TargetTable } from "./target.ts";

const or = (value: Value | undefined, other: Value) => value === undefined ? other : value;

/** The target as it was before the merge. */
export class Before implements Disposable {
  readonly #image: Target;
  readonly #tables = new Map<string, TargetTable | undefined>();
  readonly #definitions: ReadonlyMap<string, unknown>;

  /** @param path Its image. */
  constructor(path: string) {
    this.#image = new Target(path, { busy_timeout_ms: 0, image: true });
    const found = this.#image.query("SELECT type || ' ' || lower(name), sql FROM main.sqlite_schema");
    this.#definitions = new Map(found.map(([name, sql]) => [String(name), sql]));
  }

  /** Whether it had a definition as the merge brought it. */
  hadDefinition({ type, name, base }: { type: string; name: string; base: string | undefined }): boolean {
    return (this.#definitions.get(`${type} ${name.toLowerCase()}`) ?? undefined) === base;
  }

  /** Whether it had a header field as the merge brought it. */
  hadSetting({ setting, before }: SettingDiff): boolean {
    if (setting !== "user_version" && setting !== "application_id") return false;
    return String(this.#image.query(`PRAGMA ${setting}`)[0]![0]) === before;
  }

  /**
   * What is to be taken back of a row.
   *
   * @param pair As the merge brought it, and as it was in the merge's base.
   */
  reversal(name: string, plan: PairPlan, pair: Pair): Pair | undefined {
    const table = this.#table(name);
    if (table === undefined) return pair;
    const { before: brought, after: base } = pair;
    const columns = plan.after === undefined ? plan.columns_before : plan.columns_after;
    const row = this.#row(table, columns, locate(plan, pair));
    if (plan.after === undefined) {
      // Of a table that the base had not, only rows that the target had not are known for the merge's.
      return row === undefined ? pair : undefined;
    }
    if (brought === undefined) {
      const values = row?.values.map((value, i) => or(value, base!.values[i]!));
      return values && { after: { rowid: row?.rowid ?? base!.rowid, values } };
    }
    const broughtAs = (i: number): Value | undefined =>
      plan.places[i]! < 0 ? undefined : brought.values[plan.places[i]!];
    if (base === undefined) {
      if (row === undefined) return pair;
      const values = row.values.map((value, i) => or(value, or(broughtAs(i), null)));
      const same = values.every((value, i) => broughtAs(i) === undefined || sameValue(value, broughtAs(i)!));
      return same ? undefined : { before: brought, after: { rowid: row.rowid ?? brought.rowid, values } };
    }
    if (row === undefined) return { before: brought };
    // Cells that the source left are the target's own, on both sides of what is taken back.
    const as_brought = [...brought.values];
    let same = true;
    const values = base.values.map((value, i) => {
      const [theirs, own] = [broughtAs(i), or(row.values[i], value)];
      if (theirs !== undefined && sameValue(value, theirs)) return as_brought[plan.places[i]!] = own;
      if (theirs === undefined || !sameValue(own, theirs)) same = false;
      return own;
    });
    if (same) return undefined;
    return { before: { rowid: brought.rowid, values: as_brought }, after: { rowid: base.rowid, values } };
  }

  #table(name: string): TargetTable | undefined {
    if (!this.#tables.has(name)) this.#tables.set(name, this.#image.table(name));
    return this.#tables.get(name);
  }

  /** Values by place; undefined of a column that it has not. */
  #row(table: TargetTable, columns: readonly string[], at: Locator) {
    const there = new Set(table.columns.map((column) => column.toLowerCase()));
    const known = columns.filter((column) => there.has(column.toLowerCase()));
    if ("key" in at && !at.key.every((column) => there.has(column.toLowerCase()))) return undefined;
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

/**
 * What one database image changed since another: the first half of a three-way merge. Rows come one after the other, in
 * memory for a few, as often as they are asked for; a small number of them is kept.
 */

import { TaskdError } from "../errors.ts";
import type { SettingDiff } from "../sqlite/diff_result.ts";
import { compareDatabases, rowPairs } from "../sqlite/row_diff.ts";
import { type Pair, type PairPlan, planOf } from "../sqlite/row_pairs.ts";
import { nameKey } from "../sqlite/image.ts";
import { bytesOf } from "../sqlite/row_values.ts";
import { Side } from "../sqlite/side.ts";
import { type FoundTarget, type TableTakenBack, TakenBack } from "./taken_back.ts";

/** About how many bytes of rows are kept from one pass to the next. */
const KEPT_BYTES = 64 << 20;
/** What a value costs beside its bytes. */
const VALUE_BYTES = 64;

/** Full-text indexes over another table's rows, or without any: they have no rows of their own. */
const EXTERNAL = /^create\s+virtual\s+table\b[\s\S]*?\busing\s+fts[345]\b[\s\S]*\bcontent\s*=/i;

/** Whether a table's rows are those of another table, or nowhere. */
export function isExternal(sql: string): boolean {
  return EXTERNAL.test(sql);
}

/** A table whose rows differ. */
export interface TableToMerge {
  name: string;
  plan: PairPlan;
  /** Whether its rows differ is known once all of them are read. */
  is_open?: boolean;
}

/** One whose rows may differ, with how many are known to. */
type FoundTable = TableToMerge & { differing: number };

/** A definition that differs, with its SQL; undefined on the side that has none. */
export interface ChangedDefinition {
  type: string;
  name: string;
  table: string;
  base: string | undefined;
  source: string | undefined;
}

/** What a source changed since a base. */
export class SourceChanges implements Disposable {
  readonly tables: readonly TableToMerge[];
  readonly definitions: readonly ChangedDefinition[];
  readonly settings: readonly SettingDiff[];
  readonly base: Side;
  readonly source: Side;
  readonly #kept: KeptPairs;
  readonly #taken_back: TakenBack | undefined;
  /** Of a merge that is taken back, by table, beside how its rows are read. */
  readonly #reversals = new Map<string, { read: PairPlan; reversal: TableTakenBack }>();

  private constructor(
    base: Side,
    source: Side,
    kept: KeptPairs,
    found: Pick<SourceChanges, "settings"> & { tables: FoundTable[]; taken_back: TakenBack | undefined },
  ) {
    const { tables, settings, taken_back } = found;
    this.base = base;
    this.source = source;
    this.#kept = kept;
    this.#taken_back = taken_back;
    this.tables = tables.flatMap(({ name, plan, differing }): TableToMerge[] => {
      if (taken_back === undefined || (plan.after ?? plan.before)!.internal) return [{ name, plan }];
      const reversal = taken_back.table(plan);
      if (reversal === undefined || differing === 0 && !reversal.reads_all) return [];
      this.#reversals.set(name, { read: plan, reversal });
      return [{ name, plan: reversal.plan, is_open: differing === 0 }];
    });
    this.settings = settings.filter((setting) => !taken_back?.hadSetting(setting));
    this.definitions = definitionsOf(base, source).filter((definition) => !taken_back?.hadDefinition(definition));
  }

  /**
   * Compares two images.
   *
   * @param options.before Of a merge that is taken back: the target as it was before that. The base is then what that
   * brought, and the source what it was merged from; see taken_back.ts. Of one that took another back itself what was
   * before that other one comes first, and so on. Empty where none is known.
   * @throws {TaskdError} `corrupt` for rows that cannot be read, and what the comparison throws.
   */
  static async read(
    base_path: string,
    source_path: string,
    { signal, before: found }: { signal?: AbortSignal | undefined; before?: readonly FoundTarget[] | undefined } = {},
  ): Promise<SourceChanges> {
    const kept = new KeptPairs();
    const onPair = (table: string, _plan: PairPlan, pair: Pair) => kept.add(table, pair);
    const { tables, settings } = await compareDatabases(base_path, source_path, { check: false, signal, onPair });
    const base = new Side(base_path);
    let source: Side | undefined;
    let taken_back: TakenBack | undefined;
    try {
      const of_source = source = new Side(source_path);
      const changed = tables.flatMap(({ table: name, unread, ...counts }): FoundTable[] => {
        if (unread !== undefined) {
          // Without what its rows are of, which nothing here may run, it is made anew after the merge.
          if (isExternal((of_source.table(name) ?? base.table(name))?.sql ?? "")) return [];
          throw new TaskdError("corrupt", `Cannot merge: not all rows of ${name} can be read: ${unread}`);
        }
        const plan = planOf(base.table(name), of_source.table(name), of_source.encoding);
        const differing = counts.rows_added + counts.rows_removed + counts.rows_changed;
        return differing + (found === undefined ? 0 : plan.removed.length + plan.added.length) === 0
          ? []
          : [{ name, plan, differing }];
      });
      taken_back = found && new TakenBack(found);
      return new SourceChanges(base, source, kept, { tables: changed, settings, taken_back });
    } catch (error) {
      taken_back?.[Symbol.dispose]();
      source?.[Symbol.dispose]();
      base[Symbol.dispose]();
      throw error;
    }
  }

  /** Whether it is a merge that is taken back. */
  get is_reversal(): boolean {
    return this.#taken_back !== undefined;
  }

  /** The rows of a table that differ; nothing where it is time for a break. */
  *rows({ name, plan }: TableToMerge): Generator<Pair | undefined> {
    const { read = plan, reversal } = this.#reversals.get(name) ?? {};
    const equal = reversal?.reads_all ?? false;
    const pairs = equal ? undefined : this.#kept.of(name);
    for (const pair of pairs ?? rowPairs(this.base, this.source, read, { equal })) {
      if (pair === undefined || reversal === undefined) yield pair;
      else {
        const back = reversal.of(pair);
        if (back !== undefined) yield back;
      }
    }
  }

  [Symbol.dispose](): void {
    this.#taken_back?.[Symbol.dispose]();
    this.base[Symbol.dispose]();
    this.source[Symbol.dispose]();
  }
}

/** The rows of the comparison, of each table all or none. */
class KeptPairs {
  readonly #pairs = new Map<string, Pair[] | "too many">();
  #bytes = 0;

  add(table: string, pair: Pair): void {
    const pairs = this.#pairs.get(table) ?? [];
    if (pairs === "too many") return;
    this.#bytes += sizeOf(pair);
    pairs.push(pair);
    this.#pairs.set(table, this.#bytes <= KEPT_BYTES ? pairs : "too many");
    if (this.#bytes > KEPT_BYTES) this.#bytes -= pairs.reduce((sum, each) => sum + sizeOf(each), 0);
  }

  of(table: string): Pair[] | undefined {
    const pairs = this.#pairs.get(table);
    return pairs === "too many" ? undefined : pairs;
  }
}

function sizeOf({ before, after }: Pair): number {
  const values = [...before?.values ?? [], ...after?.values ?? []];
  return values.reduce<number>((sum, value) => sum + VALUE_BYTES + (bytesOf(value)?.length ?? 0), 0);
}

/** What a person wrote: SQLite makes the rest itself, by what it stands for. */
function definitionsOf(base: Side, source: Side): ChangedDefinition[] {
  const [before, after] = [written((sql) => base.query(sql)), written((sql) => source.query(sql))];
  return [...new Set([...after.keys(), ...before.keys()])].flatMap((key): ChangedDefinition[] => {
    const [old, now] = [before.get(key), after.get(key)];
    if (old?.sql === now?.sql) return [];
    const { type, name, table } = (now ?? old)!;
    return [{ type, name, table, base: old?.sql, source: now?.sql }];
  });
}

interface Written {
  type: string;
  name: string;
  table: string;
  sql: string;
}

/** By type and name, in the order in which they were made; without what virtual tables have made for themselves. */
export function written(query: (sql: string) => unknown[][]): Map<string, Written> {
  return new Map(
    query(
      "SELECT type, name, tbl_name, sql FROM main.sqlite_schema WHERE sql IS NOT NULL AND name NOT IN " +
        "(SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow') ORDER BY rowid",
    )
      .map((row) => row.map(String) as [string, string, string, string])
      .filter(([, name]) => !/^sqlite_/i.test(name))
      .map(([type, name, table, sql]) => [`${type} ${nameKey(name)}`, { type, name, table, sql }]),
  );
}

/**
 * Three-way merge, row by row and cell by cell: what a source changed since a base is applied to a target that went on
 * meanwhile, as one ordinary transaction, which every application survives that has the file open.
 *
 * All or nothing: the transaction commits when every change is in, or was there, and every constraint holds; else nothing
 * of it is ever seen. What neither side touched is not written. Each row is looked at under the write lock, so that what
 * others committed until then counts. Triggers do not fire: what they do has been done in the source.
 */

import { type Clock, nextTurn, systemClock } from "../clock.ts";
import { TaskdError, throwIfInterrupted } from "../errors.ts";
import { nameKey } from "../sqlite/image.ts";
import type { Pair } from "../sqlite/row_pairs.ts";
import { isExternal, type SourceChanges } from "./source_changes.ts";
import { Decisions, MAX_CONFLICTS, type MergeConflict, type MergeSide, placeOf, type Resolution } from "./conflicts.ts";
import { applyDefinitions, type DefinitionPlan, planDefinitions } from "./definitions.ts";
import { findLostColumns } from "./dropped_columns.ts";
import { findOrphans, textOf } from "./foreign_keys.ts";
import { StillWorks } from "./still_works.ts";
import { type MergedTable, TableMerge } from "./table_merge.ts";
import { Target } from "./target.ts";

/** Places that a merge remembers as left to the target. */
const MAX_LEFT = 256;
/** Rows between two breaks. */
const ROWS_PER_TURN = 2_000;
/** Rows go before others take their place, and change before others come. */
const ORDER = ["removed", "changed", "added"] as const;

/** What a merge accepts. */
export interface ThreeWayOptions {
  /** Find conflicts and count, and change nothing. */
  check?: boolean | undefined;
  /** Decides every conflict of two values. */
  prefer?: MergeSide | undefined;
  /** Decide single conflicts, before `prefer`. */
  resolutions?: readonly Resolution[] | undefined;
  /** How long the write lock is waited for, in milliseconds. */
  busy_timeout_ms?: number | undefined;
  clock?: Clock | undefined;
  /** Ends it with `interrupted`; nothing is changed then. */
  signal?: AbortSignal | undefined;
}

/** What a merge did, or would do. */
export interface MergeReport {
  /** Whether it is in the target now, also when all of it was there before. */
  merged: boolean;
  /** Tables with rows that differ between base and source. */
  tables: MergedTable[];
  /** Definitions that are taken over, by name. */
  definitions: string[];
  /** The first conflicts that are not decided. */
  conflicts: MergeConflict[];
  /** How many there are. */
  conflicts_total: number;
  /** Milliseconds for which the write lock was held. */
  locked_ms: number;
}

/** A report, with the places where what the target has was decided for: the first of them. */
export interface MergeOutcome extends MergeReport {
  left: string[];
}

/**
 * Applies changes to the database at `path`, which other connections may have open.
 *
 * @throws {TaskdError} `busy` when the write lock is not to be had; `conflict` for definitions that cannot be run here;
 * `invalid_request` for a resolution of a conflict that there is not; `no_space`, `corrupt`, `interrupted`.
 */
export async function mergeInto(
  path: string,
  changes: SourceChanges,
  options: ThreeWayOptions = {},
): Promise<MergeOutcome> {
  using target = new Target(path, { busy_timeout_ms: options.busy_timeout_ms ?? 5_000 });
  const { encoding: ours } = target;
  const other = [changes.base, changes.source].find(({ encoding }) => encoding !== ours);
  if (other !== undefined) {
    const conflict: MergeConflict = {
      kind: "setting",
      table: "encoding",
      ours: { value: ours },
      theirs: { value: other.encoding },
    };
    const none = { tables: [], definitions: [], left: [], locked_ms: 0 };
    return { merged: false, ...none, conflicts: [conflict], conflicts_total: 1 };
  }
  // Without the lock at first: most conflicts are found before a writer has to wait.
  const looked = await new Attempt(target, changes, options).run("read");
  if (looked.conflicts_total > 0) return looked;
  return await new Attempt(target, changes, options).run(options.check ? "check" : "write");
}

/** One pass over the changes, in a transaction. */
class Attempt {
  readonly #target: Target;
  readonly #changes: SourceChanges;
  readonly #options: ThreeWayOptions;
  readonly #decisions: Decisions;
  readonly #clock: Clock;
  readonly #tables: TableMerge[];
  readonly #conflicts: MergeConflict[] = [];
  #total = 0;
  readonly #left = new Set<string>();
  #steps = 0;

  constructor(target: Target, changes: SourceChanges, options: ThreeWayOptions) {
    this.#target = target;
    this.#changes = changes;
    this.#options = options;
    this.#decisions = new Decisions(options);
    this.#clock = options.clock ?? systemClock;
    this.#tables = changes.tables
      .filter(({ plan }) => {
        const { name, kind, sql } = (plan.after ?? plan.before)!;
        return kind !== "shadow" && !/^sqlite_/i.test(name) && !isExternal(sql);
      })
      .map((table) => new TableMerge(table, target));
  }

  async run(mode: "read" | "check" | "write"): Promise<MergeOutcome> {
    const target = this.#target;
    target.begin(mode === "read" ? "read" : "write");
    const began = this.#clock.monotonic();
    try {
      const plan = planDefinitions(target, this.#changes, this.#report);
      for (const _ of findLostColumns(target, this.#changes, { plan, report: this.#report })) await this.#turn();
      if (this.#total === 0) await (mode === "read" ? this.#look(plan) : this.#apply(plan));
      if (this.#total === 0 && mode !== "read") this.#requireUsed();
      const merged = mode === "write" && this.#total === 0;
      if (merged) target.commit();
      return {
        merged,
        tables: this.#tables.filter(isCounted).map(({ counts }) => counts),
        definitions: plan.names,
        conflicts: this.#conflicts,
        conflicts_total: this.#total,
        left: [...this.#left],
        locked_ms: mode === "read" ? 0 : Math.round(this.#clock.monotonic() - began),
      };
    } finally {
      target.rollback();
    }
  }

  #requireUsed(): void {
    const [unused] = this.#decisions.unused;
    if (unused === undefined) return;
    throw new TaskdError("invalid_request", `Cannot merge: nothing is in conflict at ${unused}`, {
      hint: "One of the sides may have moved since: run it with --check, and decide what that shows",
    });
  }

  #report = (conflict: MergeConflict): MergeSide | undefined => {
    const side = this.#decisions.of(conflict);
    if (side === "ours" && this.#left.size < MAX_LEFT) this.#left.add(placeOf(conflict));
    if (side !== undefined) return side;
    this.#total++;
    if (this.#conflicts.length < MAX_CONFLICTS) this.#conflicts.push(conflict);
    return undefined;
  };

  /** Decides every row, and changes none. Tables that are to be made or remade are looked at under the lock. */
  async #look(plan: DefinitionPlan): Promise<void> {
    for (const table of this.#tables) {
      if (plan.isRemade(table.name) || !table.prepare()) continue;
      table.requireColumns(this.#report);
      if (this.#total > 0) continue;
      for await (const pair of this.#pairs(table)) table.look(pair, this.#report);
    }
  }

  async #apply(plan: DefinitionPlan): Promise<void> {
    const touched = this.#tables.map(({ name }) => name);
    const was_broken = plan.taken.length > 0 && this.#target.brokenDefinition() !== undefined;
    const had = new Set(this.#target.foreignKeys().map(textOf));
    const before = plan.taken.length > 0 ? new StillWorks(this.#target) : undefined;
    const finish = applyDefinitions(this.#target, this.#changes, { plan, touched, report: this.#report });
    const tables: TableMerge[] = [];
    for (const table of this.#tables) {
      if (table.prepare()) {
        table.requireColumns(this.#report);
        tables.push(table);
      } else if (await this.#isMissed(table)) {
        const detail = table.plan.after !== undefined
          ? "the target has no such table"
          : "the target has no such table, whose rows are to go: give it its name back, or make it again, empty";
        this.#report({ kind: "definition", table: table.name, detail });
      }
    }
    for (const kind of ORDER) {
      for (const table of this.#total === 0 ? tables : []) {
        for await (const pair of this.#pairs(table)) {
          if (TableMerge.kindOf(pair) === kind) table.apply(pair, this.#report);
        }
        table.settle(this.#report);
      }
    }
    if (this.#total > 0) return;
    const made = this.#target.foreignKeys().filter((key) => !had.has(textOf(key)));
    for await (const conflict of findOrphans(this.#target, tables, { made, pairs: (table) => this.#pairs(table) })) {
      this.#report(conflict);
    }
    if (this.#total > 0) return;
    finish();
    if (this.#total > 0) return;
    this.#raiseSequences();
    const broken = plan.taken.length > 0 && !was_broken ? this.#target.brokenDefinition() : undefined;
    if (broken !== undefined) this.#report({ kind: "definition", table: broken.name, detail: broken.message });
    else for (const conflict of before?.broken(this.#changes.source.path) ?? []) this.#report(conflict);
  }

  /**
   * Whether there are rows for a table that the target has not. One that both dropped has none to remove; what a merge
   * brought may be in a table of another name since.
   */
  async #isMissed(table: TableMerge): Promise<boolean> {
    if (table.plan.after === undefined && !this.#changes.is_reversal) return false;
    for await (const _ of this.#pairs(table)) return true;
    return false;
  }

  /** Keys that the source has given away are not given away again. */
  #raiseSequences(): void {
    const { source } = this.#changes;
    if (source.table("sqlite_sequence") === undefined || this.#target.table("sqlite_sequence") === undefined) return;
    const counting = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%autoincrement%'";
    const counts = new Map(this.#target.query(counting).map(([name]) => [nameKey(String(name)), String(name)]));
    for (const [table, seq] of source.query("SELECT name, seq FROM sqlite_sequence")) {
      if (typeof table !== "string" || typeof seq !== "bigint") continue;
      // SQLite finds it by the name as the table has it.
      const name = counts.get(nameKey(table)) ?? table;
      const [found] = this.#target.query("SELECT seq FROM sqlite_sequence WHERE name = ?", [name]);
      if (typeof found?.[0] === "bigint" && found[0] >= seq) continue;
      if (found === undefined) {
        if (!counts.has(nameKey(table))) continue;
        this.#target.run("INSERT INTO sqlite_sequence(name, seq) VALUES(?, ?)", [name, seq]);
      } else this.#target.run("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", [seq, name]);
    }
  }

  async *#pairs(table: TableMerge): AsyncGenerator<Pair> {
    for (const pair of this.#changes.rows(table.changed)) {
      await this.#turn(pair === undefined);
      if (pair !== undefined) yield pair;
    }
  }

  /** Lets others have their turn, at once or after some rows. */
  async #turn(at_once = false): Promise<void> {
    if (!at_once && ++this.#steps % ROWS_PER_TURN !== 0) return;
    await nextTurn();
    throwIfInterrupted(this.#options.signal);
  }
}

function isCounted({ changed, counts }: TableMerge): boolean {
  const { rows_added, rows_removed, rows_changed, rows_already } = counts;
  return !changed.is_open || rows_added + rows_removed + rows_changed + rows_already > 0;
}

/**
 * What differs between two database images: settings, definitions, and rows, table by table. Compares stored types and
 * bytes exactly, runs nothing that the schemas bring along, and keeps no more than the rows shown in memory. Both files
 * must be whole images that no process changes, such as cache entries.
 */

import { nextTurn } from "../clock.ts";
import { hasCode, messageOf, TaskdError, throwIfInterrupted } from "../errors.ts";
import { nameKey } from "./image.ts";
import { nearest } from "../text/nearest.ts";
import { plural } from "../text/plural.ts";
import type { ChangeKind, ColumnDiff, DatabaseDiff, JsonValue, RowDiff, RowPage, TableDiff } from "./diff_result.ts";
import type { DiffOptions, DiffRowsOptions } from "./diff_result.ts";
import { definitionDiffs, settingDiffs } from "./_definitions.ts";
import { differingPages, otherPages, PageOwners } from "./_pages.ts";
import { differingRows as pairsOf, type Pair, type PairPlan, type Place, planOf } from "./row_pairs.ts";
import { sameValue, searchOf, showValue, type Value } from "./row_values.ts";
import { Side, type StoredRow, type StoredTable } from "./side.ts";

/** Bytes of a text or blob that are shown. */
export const VALUE_BYTES = 256;
/** About how many bytes the rows of a part have in all. */
const PAGE_BYTES = 1 << 20;
/** Rows that a part leaves out before it ends: who filters gets an answer in time. */
const PASSED_ROWS = 200_000;
const PAGE_ROWS = 1_000;
const MAX_PROBLEMS = 100;

export interface CompareOptions extends DiffOptions {
  /** Takes all rows that differ, in the parts in which {@linkcode differingRows} returns a thousand with `same`. */
  onPage?: (page: TablePage) => void;
  /** Takes the same rows one by one. */
  onPair?: (table: string, plan: PairPlan, pair: Pair) => void;
  /** Whether SQLite is asked if tables that differ are sound, with their indexes; default true. */
  check?: boolean;
  /** Ends the comparison with `interrupted`. */
  signal?: AbortSignal | undefined;
}

/** A part of a table's rows; `cursor` is absent at its first. */
export type TablePage = RowPage & { table: string; cursor?: string };

export interface RowPageOptions extends DiffRowsOptions {
  /** Ends the comparison with `interrupted`. */
  signal?: AbortSignal | undefined;
}

/**
 * Compares two database images.
 *
 * @throws {TaskdError} `not_found`, `not_a_database` or `corrupt`; `not_found` also for a table that neither has.
 */
export async function compareDatabases(
  path_a: string,
  path_b: string,
  options: CompareOptions = {},
): Promise<DatabaseDiff> {
  const { signal } = options;
  const { marks, pages_changed } = await differingPages(path_a, path_b, signal);
  const same = { pages_changed, settings: [], definitions: [], tables: [], other_pages: [], problems: [] };
  if (pages_changed === 0 && options.tables === undefined) return same;
  using a = new Side(path_a);
  using b = new Side(path_b);
  for (const name of options.tables ?? []) requireTable(a, b, name);
  const asked = options.tables && new Set(options.tables.map(nameKey));
  if (pages_changed === 0) return same;
  const definitions = definitionDiffs(a, b);
  const settings = settingDiffs(a, b);
  const owners = [await PageOwners.read(a, marks, signal), await PageOwners.read(b, marks, signal)] as const;
  const work = { a, b, owners, options, comparable: isComparable(settings), indexes: indexesOf(a, b) };
  const tables: TableDiff[] = [];
  const problems: DatabaseDiff["problems"] = [];
  // With another kind of vacuum readers go by pointers that they did not look at before.
  const pointers_touched = owners.some((of) => of.pointers_touched) ||
    settings.some(({ setting }) => setting === "auto_vacuum");
  if (pointers_touched) problems.push(...newLines(...owners.map(unusedPages) as [string[], string[]]));
  for (const [side, { odd_names }] of [["before", a], ["after", b]] as const) {
    problems.push(...odd_names.map((name) => ({ side, problem: `the name ${name} is no text` })));
  }
  for (const name of namesOf(a, b)) {
    throwIfInterrupted(signal);
    if (asked?.has(nameKey(name)) === false) continue;
    const touched = isTouched(work, name);
    const diff = touched ? await compareTable(work, name) : undefined;
    if (diff !== undefined) tables.push(diff);
    if (options.check !== false && (touched || pointers_touched)) problems.push(...damage(a, b, name));
  }
  const shown = new Set(tables.map(({ table }) => nameKey(table)));
  const defined = new Set(definitions.flatMap(({ table, name }) => [table, name]));
  const index_of = new Map([...a.entries, ...b.entries].map(({ name, table }) => [name, table]));
  const explained = (table: string) => shown.has(nameKey(table)) || asked?.has(nameKey(table)) === false;
  const other_pages = otherPages(marks, owners, ({ where, name = "" }) => {
    if (where === "definitions") return definitions.length > 0;
    return where === "table" && explained(name) ||
      where === "index" && (defined.has(name) || explained(index_of.get(name)!));
  });
  return {
    pages_changed,
    settings,
    definitions,
    tables: inOrder(tables),
    other_pages,
    problems: problems.slice(0, MAX_PROBLEMS),
  };
}

/** A part of the rows of one table that differ. */
export async function differingRows(
  path_a: string,
  path_b: string,
  table: string,
  options: RowPageOptions = {},
): Promise<RowPage> {
  using a = new Side(path_a);
  using b = new Side(path_b);
  requireTable(a, b, table);
  const work = { a, b, comparable: isComparable(settingDiffs(a, b)) };
  const { rows: most = 100, value_bytes = VALUE_BYTES, change, search = "", signal } = options;
  const holds = searchOf(search);
  const plan = planOf(a.table(table), b.table(table), b.encoding);
  const place = options.after === undefined ? firstPlace(work, plan) : parsePlace(options.after);
  const pages = new Pages();
  for (const found of pairsOf(a, b, plan, place)) {
    if (found === undefined) {
      await turn(signal);
      continue;
    }
    const { pair, next } = found;
    const ended = pages.endedBefore(next, most);
    if (ended !== undefined) return ended;
    const passed = change !== undefined && changeOf(pair) !== change || !holds(pair);
    pages.add(passed ? undefined : showPair(plan, pair, value_bytes, options.same));
  }
  return { rows: pages.rows };
}

/** All rows of a table that differ, or with `equal` all, one by one; nothing where it is time for a break. */
export function* rowPairs(a: Side, b: Side, plan: PairPlan, { equal = false } = {}): Generator<Pair | undefined> {
  const work = { a, b, comparable: isComparable(settingDiffs(a, b)) };
  for (const found of pairsOf(a, b, plan, { ...firstPlace(work, plan), equal })) yield found?.pair;
}

/** Rows one after the other, in parts. */
class Pages {
  rows: RowDiff[] = [];
  #bytes = 0;
  #passed = 0;
  #place: Place | undefined;

  /** The part that ends before the row at `place`, where one does. */
  endedBefore(place: Place, most: number = PAGE_ROWS): RowPage | undefined {
    const { rows } = this;
    const before = this.#place;
    this.#place = place;
    // Two rows may come from one place.
    const full = rows.length >= most || this.#bytes >= PAGE_BYTES || this.#passed >= PASSED_ROWS;
    if (!full || samePlace(before, place)) return undefined;
    this.rows = [];
    this.#bytes = this.#passed = 0;
    return { rows, next: formatPlace(before!) };
  }

  /** Without a row, one is passed. */
  add(row?: RowDiff): void {
    if (row === undefined) return void this.#passed++;
    this.#bytes += JSON.stringify(row).length;
    this.rows.push(row);
  }
}

async function turn(signal: AbortSignal | undefined): Promise<void> {
  await nextTurn();
  throwIfInterrupted(signal);
}

interface Work {
  a: Side;
  b: Side;
  /** The same bytes mean the same on both sides. */
  comparable: boolean;
}

interface FullWork extends Work {
  /** Where the indexes of both sides begin, by the key of their table's name, and theirs. */
  indexes: Map<string, Map<string, Set<number>>>;
  owners: readonly [PageOwners, PageOwners];
  options: CompareOptions;
}

/** Settings with which equal pages may hold different rows. */
const READING = new Set(["page_size", "reserved_bytes", "schema_format", "encoding"]);

function isComparable(settings: DatabaseDiff["settings"]): boolean {
  return !settings.some(({ setting }) => READING.has(setting));
}

function namesOf(a: Side, b: Side): string[] {
  return [...new Map([...a.tables, ...b.tables]).values()].map(({ name }) => name).sort();
}

function requireTable(a: Side, b: Side, name: string): void {
  if (a.table(name) ?? b.table(name)) return;
  const near = nearest(name, namesOf(a, b));
  throw new TaskdError("not_found", `There is no table ${name} in either database`, {
    ...(near === undefined ? {} : { hint: `Did you mean ${near}?` }),
  });
}

/** Whether the rows of a table may differ: the same definition over the same pages holds the same ones. */
function isTouched(work: FullWork, name: string): boolean {
  const { a, b, owners } = work;
  const [before, after] = [a.table(name), b.table(name)];
  if (!before || !after || before.sql !== after.sql || before.kind !== after.kind || !work.comparable) return true;
  if (before.root !== after.root) return true;
  if (before.kind === "virtual") {
    const storage = [...a.tables.keys(), ...b.tables.keys()].filter((table) => table.startsWith(`${nameKey(name)}_`));
    return storage.some((table) => isTouched(work, table));
  }
  const indexes = [...work.indexes.get(nameKey(name)) ?? []];
  return indexes.some(([, roots]) => roots.size > 1) ||
    owners.some((of, side) =>
      of.isTouched("table", [before, after][side]!.name) || indexes.some(([index]) => of.isTouched("index", index))
    );
}

function indexesOf(a: Side, b: Side): FullWork["indexes"] {
  const indexes: FullWork["indexes"] = new Map();
  for (const { type, name, table, root } of [...a.entries, ...b.entries]) {
    if (type !== "index") continue;
    indexes.getOrInsert(nameKey(table), new Map()).getOrInsert(name, new Set()).add(root);
  }
  return indexes;
}

/** How rows are read from the start on. Those of the same definition on the same pages are the same. */
function firstPlace({ a, b, comparable }: Work, { before, after, by_rowid }: PairPlan): Place {
  const isSorted = ({ file }: Side, table: StoredTable | undefined) =>
    table === undefined || table.kind !== "virtual" && file.isSorted(table.root);
  if (!by_rowid || !isSorted(a, before) || !isSorted(b, after)) return {};
  return { sorted: true, narrow: comparable && before !== undefined && before.sql === after?.sql };
}

async function compareTable(work: FullWork, name: string): Promise<TableDiff | undefined> {
  const { a, b, options } = work;
  const [before, after] = [a.table(name), b.table(name)];
  const plan = planOf(before, after, b.encoding);
  const diff: TableDiff = {
    table: name,
    change: before === undefined ? "added" : after === undefined ? "removed" : "changed",
    ...([before, after].every((table) => table?.internal !== false) ? { internal: true as const } : {}),
    rows_added: 0,
    rows_removed: 0,
    rows_changed: 0,
  };
  const columns = columnDiffs(plan);
  if (columns.length > 0) diff.columns = columns;
  const counts_only = (options.rows ?? 0) === 0 && !options.onPage && !options.onPair;
  try {
    if (counts_only && before === undefined) diff.rows_added = b.count(after!);
    else if (counts_only && after === undefined) diff.rows_removed = a.count(before!);
    else await countRows(work, plan, diff);
  } catch (error) {
    if (options.signal?.aborted || !isUnreadable(error, (before ?? after)!)) throw error;
    diff.unread = messageOf(error);
  }
  const { change, unread } = diff;
  const found = diff.rows_added + diff.rows_removed + diff.rows_changed > 0 || columns.length > 0;
  return found || change !== "changed" || unread !== undefined ? diff : undefined;
}

/** A module's own errors are all kinds; those of a table are damage, and limits of SQLite. */
function isUnreadable(error: unknown, table: StoredTable): boolean {
  return table.kind === "virtual" || hasCode(error, "corrupt") || error instanceof Error && "errcode" in error;
}

async function countRows(work: FullWork, plan: PairPlan, diff: TableDiff): Promise<void> {
  const { options } = work;
  const { rows: most = 0, value_bytes = VALUE_BYTES, signal, onPage, onPair } = options;
  const { table } = diff;
  const pages = new Pages();
  let cursor: { cursor?: string } = {};
  const samples = { removed: [] as RowDiff[], added: [] as RowDiff[], changed: [] as RowDiff[] };
  const equal = plan.added.length + plan.removed.length > 0;
  try {
    for (const found of pairsOf(work.a, work.b, plan, { ...firstPlace(work, plan), equal })) {
      if (found === undefined) {
        await turn(signal);
        continue;
      }
      const { pair, next } = found;
      if (equal) countValues(plan, pair, diff.columns!);
      if (pair.equal) continue;
      onPair?.(table, plan, pair);
      if (onPage !== undefined) {
        const ended = pages.endedBefore(next);
        if (ended !== undefined) {
          onPage({ table, ...cursor, ...ended });
          cursor = { cursor: ended.next! };
        }
        pages.add(showPair(plan, pair, VALUE_BYTES, true));
      }
      const change = changeOf(pair);
      diff[`rows_${change}`]++;
      if (samples[change].length < most) samples[change].push(showPair(plan, pair, value_bytes));
    }
    onPage?.({ table, ...cursor, rows: pages.rows });
  } finally {
    const shown = [...samples.removed, ...samples.added, ...samples.changed];
    if (shown.length > 0) diff.rows = shown;
  }
}

function changeOf({ before, after }: Pair): ChangeKind {
  return before === undefined ? "added" : after === undefined ? "removed" : "changed";
}

function columnDiffs({ renamed, added, removed }: PairPlan): ColumnDiff[] {
  return [
    ...renamed.map((column): ColumnDiff => ({ ...column, change: "renamed", values: 0 })),
    ...removed.map(({ name }): ColumnDiff => ({ name, change: "removed", values: 0 })),
    ...added.map(({ name }): ColumnDiff => ({ name, change: "added", values: 0 })),
  ];
}

function countValues({ renamed, added, removed }: PairPlan, { before, after }: Pair, columns: ColumnDiff[]): void {
  removed.forEach(({ place }, i) => {
    if (before && before.values[place] !== null) columns[renamed.length + i]!.values++;
  });
  added.forEach(({ place, fallback }, i) => {
    if (after && !sameValue(after.values[place]!, fallback)) columns[renamed.length + removed.length + i]!.values++;
  });
}

/** What SQLite says of one side alone. */
function damage(a: Side, b: Side, name: string): DatabaseDiff["problems"] {
  const lines = (side: Side) => side.table(name) ? side.check(name) : [];
  return newLines(lines(a), lines(b));
}

function newLines(old: string[], now: string[]): DatabaseDiff["problems"] {
  return [
    ...old.filter((line) => !now.includes(line)).map((problem) => ({ side: "before" as const, problem })),
    ...now.filter((line) => !old.includes(line)).map((problem) => ({ side: "after" as const, problem })),
  ];
}

function unusedPages({ unused }: PageOwners): string[] {
  return unused === 0 ? [] : [`${plural(unused, "page")} in no table, no index and not free`];
}

const ORDER = { changed: 0, removed: 1, added: 2 } as const;

function inOrder(tables: TableDiff[]): TableDiff[] {
  const rank = ({ change, internal }: TableDiff) => ORDER[change] + (internal ? 3 : 0);
  return tables.sort((x, y) => rank(x) - rank(y));
}

function showPair(plan: PairPlan, { before, after }: Pair, most: number, same = false): RowDiff {
  const { places, columns_before, columns_after, removed } = plan;
  // A column that came differs in rows with another value than its default.
  const fallbacks = new Map(plan.added.map(({ place, fallback }) => [place, fallback]));
  const show = (value: Value, other?: Value) => showValue(value, { most, other });
  const old: [string, JsonValue][] = [];
  const now: [string, JsonValue][] = [];
  const both = before !== undefined && after !== undefined;
  columns_after.forEach((name, i) => {
    const place = places[i]!;
    const [x, y] = [place < 0 ? undefined : before?.values[place], after?.values[i]];
    const was = place < 0 ? fallbacks.get(i) : x;
    if (both && was !== undefined && sameValue(was, y!)) return;
    if (x !== undefined) old.push([columns_before[place]!, show(x, y)]);
    if (y !== undefined) now.push([name, show(y, x)]);
  });
  const lost = after === undefined && plan.after === undefined
    ? columns_before.map((name, place) => ({ name, place }))
    : removed;
  if (before) old.push(...lost.map(({ name, place }): [string, JsonValue] => [name, show(before.values[place]!)]));
  return {
    change: changeOf({ before, after }),
    key: keyOf(plan, (before ?? after)!, before === undefined, show),
    ...rowidOf(plan, before, after),
    ...(before && { before: Object.fromEntries(old) }),
    ...(after && { after: Object.fromEntries(now) }),
    ...(same && both && { same: sameColumns(plan, { before, after }, most) }),
  };
}

/** The columns of a changed row that {@linkcode showPair} leaves out. */
function sameColumns(
  { places, columns_after, added }: PairPlan,
  { before, after }: Pair,
  most: number,
): Record<string, JsonValue> {
  return Object.fromEntries(columns_after.flatMap((name, i): [string, JsonValue][] => {
    const value = after!.values[i]!;
    const old = places[i]! < 0 ? added.find(({ place }) => place === i)?.fallback : before!.values[places[i]!];
    return old !== undefined && sameValue(old, value) ? [[name, showValue(value, { most })]] : [];
  }));
}

function keyOf(
  plan: PairPlan,
  row: StoredRow,
  is_after: boolean,
  show: (value: Value) => JsonValue,
): Record<string, JsonValue> {
  const table = (is_after ? plan.after : plan.before)!;
  const columns = is_after ? plan.columns_after : plan.columns_before;
  if (plan.by_rowid && plan.key_length === 0) return { [table.alias ?? table.rowid!]: show(row.rowid) };
  const key = columns.slice(0, plan.key_length || columns.length).map((name, i) =>
    [name, show(row.values[i]!)] as const
  );
  // Many rows may have a key with a NULL.
  const is_shared = plan.by_rowid && row.values.slice(0, plan.key_length).includes(null);
  return Object.fromEntries(is_shared ? [...key, [table.rowid!, show(row.rowid)]] : key);
}

/** The rowids of a row that another key finds. */
function rowidOf(
  { by_rowid, key_length }: PairPlan,
  before: StoredRow | undefined,
  after: StoredRow | undefined,
): Pick<RowDiff, "rowid"> {
  if (!by_rowid || key_length === 0 || before?.rowid === after?.rowid) return {};
  const show = ({ rowid }: StoredRow) => showValue(rowid, { most: 0 });
  return { rowid: { ...(before && { before: show(before) }), ...(after && { after: show(after) }) } };
}

function formatPlace({ rowid, narrow, skip }: Place): string {
  return rowid === undefined ? `n${skip!.join(",")}` : `${narrow ? "p" : "r"}${rowid}`;
}

function samePlace(x: Place | undefined, y: Place): boolean {
  return x !== undefined && formatPlace(x) === formatPlace(y);
}

function parsePlace(text: string): Place {
  const rowid = /^([pr])(-?\d{1,19})$/.exec(text);
  if (rowid !== null) return { sorted: true, narrow: rowid[1] === "p", rowid: BigInt.asIntN(64, BigInt(rowid[2]!)) };
  const skip = /^n(\d{1,15}),(\d{1,15})$/.exec(text);
  if (skip !== null) return { skip: [Number(skip[1]), Number(skip[2])] };
  throw new TaskdError("invalid_request", `Cannot go on from ${text}: no part of these rows ended there`);
}

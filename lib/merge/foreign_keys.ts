/**
 * Rows that refer to nothing after a merge: those that it wrote, and those that refer to rows that it removed or gave
 * another key. What referred to nothing before is not looked for.
 */

import { isSameName as is, nameKey, quoteName } from "../sqlite/image.ts";
import type { JsonValue } from "../sqlite/diff_result.ts";
import type { Pair } from "../sqlite/row_pairs.ts";
import type { Value } from "../sqlite/row_values.ts";
import { sameValue, showValue } from "../sqlite/row_values.ts";
import type { MergeConflict } from "./conflicts.ts";
import type { TableMerge } from "./table_merge.ts";
import { type ForeignKey, placeholder, type Target, whereOf } from "./target.ts";

/** Bytes of a value that a conflict shows. */
const SHOWN_BYTES = 4_096;
/** Keys of removed rows, for the time of one search. */
const GONE = "temp.merge_gone";

/**
 * Finds them.
 *
 * @param made Foreign keys that the target had not before: every row of theirs is looked at.
 * @param pairs The changed rows of a table, once more.
 */
export async function* findOrphans(
  target: Target,
  tables: readonly TableMerge[],
  { made, pairs }: { made: readonly ForeignKey[]; pairs: (table: TableMerge) => AsyncIterable<Pair> },
): AsyncGenerator<MergeConflict> {
  const keys = target.foreignKeys().filter(({ to, parent }) => to.length > 0 && target.table(parent) !== undefined);
  const all = keys.filter((key) => made.some((one) => textOf(one) === textOf(key)));
  for (const key of all) yield* orphansOf(target, key, (where) => `main.${quoteName(key.child)} AS c WHERE ${where}`);
  const others_of = keys.filter((key) => !all.includes(key));
  for (const table of tables) {
    const own = others_of.filter(({ child }) => is(child, table.name));
    const others = others_of.filter(({ parent }) => is(parent, table.name));
    for (const key of own) yield* lostParents(target, table, { key, pairs });
    for (const key of others) yield* lostChildren(target, table, { key, pairs });
  }
}

/**
 * Values are compared by the affinity and the collation of the parent's column, https://sqlite.org/foreignkeys.html: the
 * sign takes the child's own away.
 */
function refersToNothing({ parent, from, to }: ForeignKey): string {
  const set = from.map((column) => `c.${quoteName(column)} IS NOT NULL`);
  const match = to.map((column, i) => `p.${quoteName(column)} = +c.${quoteName(from[i]!)}`);
  const known = `EXISTS (SELECT 1 FROM main.${quoteName(parent)} AS p WHERE ${match.join(" AND ")})`;
  return `${set.join(" AND ")} AND NOT ${known}`;
}

function conflictOf({ child, parent, from }: ForeignKey, key: MergeConflict["key"]): MergeConflict {
  const detail = `${from.join(", ")} refers to no row of ${parent}`;
  return { kind: "foreign_key", table: child, ...(key === undefined ? {} : { key }), detail };
}

async function* lostParents(
  target: Target,
  table: TableMerge,
  { key, pairs }: { key: ForeignKey; pairs: (table: TableMerge) => AsyncIterable<Pair> },
): AsyncGenerator<MergeConflict> {
  const found = target.table(table.name);
  if (found === undefined) return;
  for await (const pair of pairs(table)) {
    if (pair.after === undefined) continue;
    const [where, values] = whereOf(found, table.locate(pair));
    const sql = `SELECT 1 FROM main.${quoteName(found.name)} AS c WHERE ${where} AND ${refersToNothing(key)}`;
    if (target.query(sql, values).length > 0) yield conflictOf(key, table.keyOf(pair));
  }
}

async function* lostChildren(
  target: Target,
  table: TableMerge,
  { key, pairs }: { key: ForeignKey; pairs: (table: TableMerge) => AsyncIterable<Pair> },
): AsyncGenerator<MergeConflict> {
  const { columns_before, columns_after } = table.plan;
  const placesIn = (columns: readonly string[]) =>
    key.to.map((name) => columns.findIndex((column) => is(column, name)));
  const [places, now] = [placesIn(columns_before), placesIn(columns_after)];
  if (places.includes(-1)) return;
  const columns = key.to.map((_, i) => `k${i}`);
  let gone = 0;
  for await (const { before, after } of pairs(table)) {
    if (before === undefined) continue;
    const values = places.map((place): Value => before.values[place]!);
    if (after !== undefined && values.every((value, i) => sameValue(value, after.values[now[i]!] ?? null))) continue;
    if (gone++ === 0) {
      // So that its columns have the affinities of the parent's.
      const shown = key.to.map((name, i) => `${quoteName(name)} AS k${i}`);
      target.define(`CREATE TABLE ${GONE} AS SELECT ${shown.join(", ")} FROM main.${quoteName(key.parent)} WHERE 0`);
    }
    target.run(`INSERT INTO ${GONE} VALUES(${values.map(placeholder).join(", ")})`, values);
  }
  if (gone === 0) return;
  // The first finds by an index what may be meant, the second what is.
  const match = columns.map((column, i) => {
    const from = `c.${quoteName(key.from[i]!)}`;
    const collation = target.collation(key.parent, key.to[i]!);
    const by = collation === "BINARY" ? "" : ` COLLATE ${quoteName(collation)}`;
    const alike = `${from}${by} IN (g.${column}, CAST(g.${column} AS TEXT), CAST(g.${column} AS NUMERIC))`;
    return `${alike} AND g.${column} = +${from}${by}`;
  }).join(" AND ");
  const orphans = [...orphansOf(
    target,
    key,
    (where) => `${GONE} AS g CROSS JOIN main.${quoteName(key.child)} AS c ON ${match} WHERE ${where}`,
  )];
  target.define(`DROP TABLE ${GONE}`);
  yield* orphans;
}

/** Rows, as their table's key has them, like every other row. */
function* orphansOf(target: Target, key: ForeignKey, from: (where: string) => string): Generator<MergeConflict> {
  const of_key = target.primaryKey(key.child);
  const names = of_key.length > 0 ? of_key : ["rowid"];
  const shown = of_key.length > 0
    ? of_key.map((name) => `c.${quoteName(name)}`)
    : [`c.${target.table(key.child)!.rowid}`];
  for (const values of target.query(`SELECT ${shown.join(", ")} FROM ${from(refersToNothing(key))}`)) {
    yield conflictOf(key, Object.fromEntries(names.map((name, i) => [name, shownKey(values[i])] as const)));
  }
}

/** One text for one foreign key. */
export function textOf({ child, parent, from, to }: ForeignKey): string {
  return nameKey(JSON.stringify([child, parent, from, to]));
}

/** A part of a key, to be read: text as it decodes. */
function shownKey(value: unknown): JsonValue {
  if (typeof value === "string") return value.slice(0, SHOWN_BYTES);
  return showValue(value as Exclude<Value, { text: unknown }>, { most: SHOWN_BYTES });
}

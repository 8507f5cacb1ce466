/**
 * What a comparison says as lines for people; every line is made safe for a terminal.
 */

import { plural } from "../text/plural.ts";
import { sanitizeLine } from "../text/sanitize.ts";
import type { ColumnDiff, DefinitionDiff, JsonValue, OtherPages, RowDiff, TableDiff } from "./diff_result.ts";

const SIGNS = { added: "+", removed: "-", changed: "~" } as const;

/** Text in quotes, blobs as `x'00ff'`; what is folded says how much there is. */
export function valueText(value: JsonValue | undefined): string {
  if (value === undefined) return "absent";
  if (value === null || typeof value !== "object") return sanitizeLine(JSON.stringify(value));
  if ("integer" in value) return sanitizeLine(value.integer);
  if ("real" in value) return sanitizeLine(value.real);
  const shown = "text" in value
    ? JSON.stringify(value.text) + (value.hex === undefined ? "" : ` (no valid text: x'${value.hex}')`)
    : `x'${value.hex}'`;
  if (value.sha256 === undefined) return sanitizeLine(shown);
  const where = value.at === undefined ? "the beginning" : `from byte ${value.at}`;
  return sanitizeLine(`${shown} (${where}, of ${plural(value.bytes, "byte")}, SHA-256 ${value.sha256.slice(0, 16)})`);
}

function fieldsText(fields: Record<string, JsonValue>): string {
  return Object.entries(fields).map(([name, value]) => `${sanitizeLine(name)}=${valueText(value)}`).join(" ");
}

/** A row on one line: its key, which may be a rowid that no column shows, and its columns or those that differ. */
export function rowText({ change, key, rowid, before, after }: RowDiff): string {
  const moved = rowid && `rowid: ${valueText(rowid.before)} -> ${valueText(rowid.after)}`;
  if (change !== "changed") {
    const at = rowid && { rowid: rowid.before ?? rowid.after ?? null };
    return `${SIGNS[change]} ${fieldsText({ ...key, ...at, ...after, ...before })}`;
  }
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  const changes = names.map((name) =>
    `${sanitizeLine(name)}: ${valueText(before?.[name])} -> ${valueText(after?.[name])}`
  );
  return `${SIGNS.changed} ${fieldsText(key)}  ${[...moved === undefined ? [] : [moved], ...changes].join(", ")}`;
}

function columnText({ name, change, from, values }: ColumnDiff): string {
  const column = sanitizeLine(name);
  if (change === "renamed") return `column ${sanitizeLine(from ?? "")} is now ${column}`;
  const rows = plural(values, "row");
  return change === "added"
    ? `new column ${column}: ${rows} with another value than its default`
    : `column ${column} is gone: ${rows} had a value`;
}

/** What there is to say of a table's columns, and of rows that were not read. */
export function tableNotes({ columns = [], unread }: Pick<TableDiff, "columns" | "unread">): string[] {
  return [...columns.map(columnText), ...unread === undefined ? [] : [`not read to the end: ${sanitizeLine(unread)}`]];
}

/** A definition's lines before and after, those that both begin or end with shown once. */
export function definitionLines(
  { type, name, table, table_before, change, before, after }: Omit<DefinitionDiff, "table"> & { table?: string },
): string[] {
  const moved = table_before === undefined ? "" : `, of ${table_before} before, of ${table} now`;
  const [old, now] = [sqlLines(before), sqlLines(after)];
  let head = 0;
  while (head < Math.min(old.length, now.length) && old[head] === now[head]) head++;
  let tail = 0;
  const rest = Math.min(old.length, now.length) - head;
  while (tail < rest && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const lines = (sign: string, all: string[], from: number, to: number) =>
    all.slice(from, to).map((line) => `${sign} ${line}`);
  return [
    sanitizeLine(`${type} ${name}: ${change}${moved}`),
    ...lines(" ", now, 0, head),
    ...lines("-", old, head, old.length - tail),
    ...lines("+", now, head, now.length - tail),
    ...lines(" ", now, now.length - tail, now.length),
  ];
}

function sqlLines(sql: JsonValue | undefined): string[] {
  if (sql === undefined || sql === null) return [];
  return typeof sql === "string" ? sql.split("\n").map((line) => sanitizeLine(line)) : [valueText(sql)];
}

/** The pages that nothing else explains; undefined where there are none. */
export function otherPagesText(other: readonly OtherPages[]): string | undefined {
  if (other.length === 0) return undefined;
  const count = other.reduce((sum, { pages }) => sum + pages, 0);
  const where = other.map(({ where, name, pages }) =>
    `${pages} ${where === "free" || where === "unused" ? where : `in ${where}`}${name === undefined ? "" : ` ${name}`}`
  );
  const verb = count === 1 ? "differs and holds" : "differ and hold";
  return sanitizeLine(`${plural(count, "page")} ${verb} no row or definition that differs: ${where.join(", ")}`);
}

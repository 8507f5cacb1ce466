/**
 * What a person was shown before they approved, for the record of the approval; for the terminal and the pages.
 */

import type { BriefDatabase, CheckAnswer, StoredValue } from "./database_schema.ts";
import type { ColumnSpread } from "../../lib/sqlite/row_spread.ts";
import type { TrustBrief } from "./schema.ts";
import type { Seen } from "./stages.ts";

const MAX_PARTS = 512;
const MAX_NAME = 512;

/** The first rows of a table that were shown, and how many there are. */
export interface SeenRows {
  /** `<db>@<base> <table>`. */
  name: string;
  to: number;
  of: number;
}

/** The brief; of the files those that are true; of the tables the rows that were read. */
export function seenOf(
  brief: TrustBrief | null | undefined,
  files: readonly boolean[],
  tables: readonly SeenRows[],
): Seen {
  if (brief == null) return [];
  const of = Math.max(files.length, brief.diff?.diff_files ?? brief.diff?.files_changed ?? 0);
  const seen: Seen = [{ part: "brief", from: 1, to: 1, of: 1 }];
  for (let at = 0; at < files.length; at++) {
    const from = at + 1;
    if (!files[at]) continue;
    while (files[at + 1]) at++;
    seen.push({ part: "files", from, to: at + 1, of });
  }
  for (const { name, to, of } of tables) {
    if (to > 0) seen.push({ part: "rows", name: name.slice(0, MAX_NAME), from: 1, to, of });
  }
  return seen.slice(0, MAX_PARTS);
}

export function rowCount(
  { rows_added, rows_changed, rows_removed }: Omit<BriefDatabase["tables"][number], "rows" | "table">,
): number {
  return rows_added + rows_changed + rows_removed;
}

/** A table of the brief, with its rows as far as that shows them. */
export interface BriefTable extends SeenRows {
  database: string;
  table: string;
  /** What stands for its rows among the categories of the gate: how many, and of what; ASCII, whatever it is called. */
  category: string;
  /** Its rows could not be read to the end: how many differ is not known. */
  unread: boolean;
}

export function briefTables(databases: readonly BriefDatabase[] = []): BriefTable[] {
  return databases.flatMap(({ db, base, tables }) =>
    tables.map(({ table, rows = [], ...counts }) => {
      const of = rowCount(counts);
      const unread = counts.unread !== undefined;
      const word = unread ? "unread" : "rows";
      const category = `${word}:${of}:${db}@${base}:${encodeURIComponent(table.toWellFormed())}`;
      return { name: `${db}@${base} ${table}`, to: rows.length, of, database: db, table, category, unread };
    })
  );
}

/** The rows of a column by value, each bin in words; the last is what is in none. */
export function spreadLines(
  { bins, other, at_least }: ColumnSpread,
  text: (value: StoredValue) => string,
): { value: string; rows: number; count: string }[] {
  return [
    ...bins.map(({ from, to, rows }) => ({
      value: to === undefined ? text(from) : `${text(from)} to ${text(to)}`,
      rows,
      count: `${at_least && typeof from === "string" ? "at least " : ""}${rows.toLocaleString("en")}`,
    })),
    ...other === 0 ? [] : [{ value: "other values", rows: other, count: other.toLocaleString("en") }],
  ];
}

/** What a check returned: its rows, and how many more there are. */
export function answerLines(answer: CheckAnswer, text: (value: StoredValue) => string): string[] {
  if ("error" in answer) return [`Error: ${answer.error}`];
  const { rows, count } = answer;
  const lines = rows.map((row) => row.map(text).join(", "));
  return count === rows.length ? lines.length === 0 ? ["no rows"] : lines : [...lines, `${count - rows.length} more`];
}

/** The parts in words, each with how much of it was shown. */
export function seenText(seen: Seen): string {
  const parts = Map.groupBy(seen, ({ part, name }) => name === undefined ? part : `${part} of ${name}`);
  return [...parts].map(([key, ranges]) => {
    const { of } = ranges[0]!;
    return of === 1 ? key : `${key} ${ranges.map(({ from, to }) => `${from}-${to}`).join(",")} (${of})`;
  }).join("; ");
}

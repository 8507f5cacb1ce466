/** Conflicts as a table, and how a person decides them. */

import type { DecideRequest } from "../../broker/task/database_schema.ts";
import { readTextOf } from "../../lib/fs.ts";
import { type MergeConflict, type MergeSide, parseDecisions } from "../../lib/merge/conflicts.ts";
import { valueText } from "../../lib/sqlite/diff_text.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import { textTable } from "../text/text_table.ts";

/** Conflicts that a table shows; `--json` has the first thousand. */
const SHOWN_CONFLICTS = 50;

/** Of a file of decisions; a request holds less. */
const MAX_RESOLUTIONS_BYTES = 1 << 20;

/** The first of them as a table, with what SQLite says, and how many more there are. */
export async function conflictLines(conflicts: readonly MergeConflict[], total: number, columns: number | undefined) {
  const shown = conflicts.slice(0, SHOWN_CONFLICTS);
  const rows = shown.map((conflict) => {
    const { kind, table, column } = conflict;
    return [table, keyText(conflict), column ?? "", kind.replaceAll("_", " "), ...sidesOf(conflict)];
  });
  const head = ["TABLE", "KEY", "COLUMN", "CONFLICT", "BASE", "OURS", "THEIRS"];
  const details = shown.flatMap(({ table, detail }) =>
    detail === undefined ? [] : [sanitizeLine(`${table}: ${detail}`)]
  );
  return [
    await textTable(rows, { head, names: [0], columns }),
    ...new Set(details),
    ...(total > shown.length ? [`and ${total - shown.length} more: --json`] : []),
  ];
}

export function keyText({ key = {} }: Pick<MergeConflict, "key">): string {
  return Object.entries(key).map(([name, value]) => `${sanitizeLine(name)}=${valueText(value)}`).join(" ");
}

/** Base, ours and theirs: the column's values, or the row's columns; nothing where the conflict is not one of values. */
export function sidesOf({ base, ours, theirs, column }: MergeConflict): [base: string, ours: string, theirs: string] {
  const of_values = (base ?? ours ?? theirs) !== undefined;
  const text = (side: MergeConflict["base"]) => {
    if (!of_values) return "";
    if (side === undefined) return "absent";
    return column === undefined ? keyText({ key: side }) : valueText(side[column]);
  };
  return [text(base), text(ours), text(theirs)];
}

/** The text of the file that `--resolve` names. */
export function resolutionsText(args: Args): string | undefined {
  const file = args.text("resolve");
  return file === undefined ? undefined : readTextOf(file, MAX_RESOLUTIONS_BYTES);
}

/** What both say of a task's conflicts; the broker checks it. */
export function decideRequest(args: Args): DecideRequest | undefined {
  const prefer = args.choice<MergeSide>("prefer");
  const text = resolutionsText(args);
  if (prefer === undefined && text === undefined) return undefined;
  const resolve = text === undefined ? undefined : parseDecisions(text) as DecideRequest["resolve"];
  return { ...(prefer && { prefer }), ...(resolve && { resolve }) };
}

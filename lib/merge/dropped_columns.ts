/**
 * Columns that a source drops from a table which the target goes on with: what the target has written in them since the
 * base would be gone with them. It is a conflict that no side can be preferred in; everything else that a merge takes away
 * is compared row by row where it is taken away.
 */

import { type Pair, planOf } from "../sqlite/row_pairs.ts";
import { rowPairs } from "../sqlite/row_diff.ts";
import { sameValue, showValue, type Value } from "../sqlite/row_values.ts";
import type { DefinitionPlan } from "./definitions.ts";
import type { SourceChanges } from "./source_changes.ts";
import { type ReportConflict, TableMerge } from "./table_merge.ts";
import type { Target } from "./target.ts";

const SHOWN_BYTES = 4_096;

/** Reports the first row of each such table that the target changed there, or added; each yield is a moment for a break. */
export function* findLostColumns(
  target: Target,
  changes: SourceChanges,
  { plan, report }: { plan: DefinitionPlan; report: ReportConflict },
): Generator<void> {
  const { base, source } = changes;
  for (const { name, ...definition } of plan.taken) {
    if (definition.type !== "table" || definition.base === undefined || definition.source === undefined) continue;
    const before = base.table(name);
    const { removed } = planOf(before, source.table(name), source.encoding);
    const here = target.table(name);
    if (removed.length === 0 || here === undefined) continue;
    const columns = removed.map((column) => column.name);
    // Every row of the base: as if all of them went.
    const whole = planOf(before, undefined, base.encoding);
    const rows = new TableMerge({ name, plan: whole }, target);
    const defaults = target.defaults(here, columns);
    const isWritten = (values: readonly Value[]) => values.some((value, i) => !sameValue(value, defaults[i]!));
    let written = 0;
    for (const pair of rowPairs(base, source, whole)) {
      yield;
      const row = pair && target.row(here, columns, rows.locate(pair));
      if (pair === undefined || row === undefined) continue;
      if (isWritten(row.values)) written++;
      const lost = columns.findIndex((column, i) => !sameValue(row.values[i]!, inBase(pair, whole, column)));
      if (lost < 0) continue;
      const column = columns[lost]!;
      report({
        kind: "definition",
        table: name,
        key: rows.keyOf(pair),
        column,
        base: { [column]: showValue(inBase(pair, whole, column), { most: SHOWN_BYTES }) },
        ours: { [column]: showValue(row.values[lost]!, { most: SHOWN_BYTES }) },
        detail: "the source drops the column, and the target has written to it since",
      });
      return;
    }
    if (written < target.countWritten(here, columns, defaults)) {
      const detail = "the source drops the column, and the target has more rows with a value in it";
      report({ kind: "definition", table: name, column: columns[0]!, detail });
    }
  }
}

function inBase({ before }: Pair, { columns_before }: { columns_before: readonly string[] }, column: string) {
  return before!.values[columns_before.indexOf(column)]!;
}

/** The command `taskd diff`. */

import { TaskdError } from "../../lib/errors.ts";
import { type Address, formatAddress } from "../../lib/store/names.ts";
import type { DiffResult } from "../../lib/store/results.ts";
import { definitionLines, otherPagesText, rowText, tableNotes } from "../../lib/sqlite/diff_text.ts";
import type { TableDiff } from "../../lib/sqlite/diff_result.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { cutLine, textTable } from "../text/text_table.ts";
import { noteLeftOut } from "./_result_text.ts";

/** Rows that are asked for at once. */
const PART_ROWS = 1000;
/** More than a value is likely to have: it is shown whole. */
const WHOLE_BYTES = 16 << 20;

export async function run(args: Args, io: Io, ops: Operations): Promise<DiffResult | undefined> {
  const tables = args.texts("table");
  const rows = args.numberOf("rows");
  const values = args.on("whole") ? { value_bytes: WHOLE_BYTES } : {};
  const addresses = { a: formatAddress(args.addressAt("a")), b: formatAddress(laterSide(args)) };
  const result = await ops.call("diff", {
    ...addresses,
    ...values,
    ...(tables.length === 0 ? {} : { tables }),
    ...(rows === 0 || args.on("all") ? {} : { rows }),
  }, io.progress("diff"));
  noteLeftOut(result, io);
  if (!args.on("all")) return result;
  if (io.json) io.outJson({ ok: true, ...result });
  else io.out(await summary(result, io));
  for (const { table } of result.tables) {
    if (!io.json) io.out(`\n${sanitizeLine(table)}`);
    let after: string | undefined;
    do {
      const place = after === undefined ? {} : { after };
      const part = await ops.call("diff-rows", { ...addresses, ...values, table, rows: PART_ROWS, ...place });
      for (const row of part.rows) {
        if (io.json) io.outJson({ table, ...row });
        else io.out(rowText(row));
      }
      after = part.next;
    } while (after !== undefined);
  }
  return undefined;
}

/** Without a second side it is what the first one's branch holds now. */
function laterSide(args: Args): Address {
  if (args.optional("b") !== undefined) return args.address("b");
  const { checkpoint, ...branch } = args.addressAt("a");
  if (checkpoint !== undefined) return branch;
  throw new TaskdError("usage", "Diff needs <b>, or an earlier point of <a>", {
    hint: `Such as: taskd diff ${formatAddress(branch)} --at 15m`,
  });
}

export async function render(result: DiffResult, io: Io, args: Args): Promise<string> {
  const whole = args.on("whole") || io.columns === undefined;
  const rows = await Promise.all(result.tables.map((table) => rowLines(table, whole ? undefined : io.columns)));
  return [await summary(result, io), ...rows.flat()].join("\n");
}

async function summary(result: DiffResult, io: Io): Promise<string> {
  const { a, b, settings, definitions, tables, other_pages, problems } = result;
  if (result.identical) return `${a} and ${b} are identical`;
  const other = otherPagesText(other_pages);
  const lines = [
    ...settings.map(({ setting, before, after }) => sanitizeLine(`setting ${setting}: ${before} -> ${after}`)),
    ...definitions.flatMap(definitionLines),
    ...tables.flatMap((table) => tableNotes(table).map((note) => `${sanitizeLine(table.table)}: ${note}`)),
    ...other === undefined ? [] : [other],
    ...problems.map(({ side, problem }) => sanitizeLine(`damaged in ${side === "before" ? a : b}: ${problem}`)),
  ];
  if (tables.length === 0) return [`${a} and ${b} hold the same rows${sameText(result)}`, ...lines].join("\n");
  const head = ["TABLE", "CHANGE", "REMOVED", "ADDED", "CHANGED"];
  const counts = tables.map((table) => [
    table.table,
    table.change,
    String(table.rows_removed),
    String(table.rows_added),
    String(table.rows_changed),
  ]);
  return [await textTable(counts, { head, right: [2, 3, 4], names: [0], columns: io.columns }), ...lines].join("\n");
}

function sameText({ settings, definitions, pages_changed }: DiffResult): string {
  const pages = `${plural(pages_changed, "page")} ${pages_changed === 1 ? "differs" : "differ"}`;
  return definitions.length > 0 ? "" : settings.length > 0 ? " and definitions" : ` and definitions (${pages})`;
}

async function rowLines(diff: TableDiff, columns: number | undefined): Promise<string[]> {
  const { table, rows = [], rows_added, rows_removed, rows_changed } = diff;
  if (rows.length === 0) return [];
  const texts = rows.map(rowText);
  const left = rows_added + rows_removed + rows_changed - rows.length;
  return [
    "",
    sanitizeLine(table),
    ...columns === undefined ? texts : await Promise.all(texts.map((line) => cutLine(line, columns))),
    ...left === 0 ? [] : [`and ${plural(left, "row")} more: --rows N, or --all`],
  ];
}

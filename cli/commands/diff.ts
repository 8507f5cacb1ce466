/**
 * The command `taskd diff`.
 */

import { formatAddress } from "../../lib/store/names.ts";
import type { DiffResult } from "../../lib/store/results.ts";
import type { JsonValue, RowDiff, TableDiff } from "../../lib/sqlite/diff_result.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { cutLine, textTable } from "../text/text_table.ts";

export async function run(args: Args, io: Io, ops: Operations): Promise<DiffResult> {
  const tables = args.texts("table");
  const rows = args.numberOf("rows");
  return await ops.call("diff", {
    a: formatAddress(args.address("a")),
    b: formatAddress(args.address("b")),
    ...(tables.length === 0 ? {} : { tables }),
    ...(rows === 0 ? {} : { rows }),
  }, io.progress("diff"));
}

export async function render(result: DiffResult, io: Io): Promise<string> {
  if (result.identical) return `${result.a} and ${result.b} are identical`;
  if (result.tables.length === 0) {
    const pages = `${plural(result.pages_changed, "page")} ${result.pages_changed === 1 ? "differs" : "differ"}`;
    return `${result.a} and ${result.b} hold the same rows (${pages})`;
  }
  const head = ["TABLE", "CHANGE", "ADDED", "REMOVED", "CHANGED"];
  const counts = result.tables.map((table) => [
    table.table,
    table.change,
    String(table.rows_added),
    String(table.rows_removed),
    String(table.rows_changed),
  ]);
  const table = await textTable(counts, { head, right: [2, 3, 4], names: [0], columns: io.columns });
  const lines = result.tables.flatMap(rowLines);
  const { columns } = io;
  const cut = columns === undefined ? lines : await Promise.all(lines.map((line) => cutLine(line, columns)));
  return [table, ...cut].join("\n");
}

const SIGNS = { added: "+", removed: "-", changed: "~" } as const;

function rowLines(table: TableDiff): string[] {
  if (table.rows === undefined || table.rows.length === 0) return [];
  return ["", sanitizeLine(table.table), ...table.rows.flatMap(oneRow)];
}

function oneRow(row: RowDiff): string[] {
  const key = fields(row.key);
  // With the key first, which may be a rowid that no column shows.
  if (row.change !== "changed") return [`${SIGNS[row.change]} ${fields({ ...row.key, ...row.after, ...row.before })}`];
  const changes = Object.keys({ ...row.before, ...row.after }).map((name) => {
    const [before, after] = [value(row.before?.[name]), value(row.after?.[name])];
    // 1 and 1.0, say, bytes that are no text, or what was cut off.
    const alike = before === after ? " (differs in what is not shown)" : "";
    return `${sanitizeLine(name)}: ${before} -> ${after}${alike}`;
  });
  return [`${SIGNS.changed} ${key}  ${changes.join(", ")}`];
}

function fields(record: Record<string, JsonValue>): string {
  return Object.entries(record).map(([name, field]) => `${sanitizeLine(name)}=${value(field)}`).join(" ");
}

function value(field: JsonValue | undefined): string {
  if (field === undefined) return "absent";
  if (typeof field !== "object" || field === null) return sanitizeLine(JSON.stringify(field));
  return `x'${field.hex}'${field.hex.length / 2 < field.bytes ? `… (${plural(field.bytes, "byte")})` : ""}`;
}

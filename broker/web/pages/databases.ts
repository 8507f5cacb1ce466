/**
 * What a task did to its databases: counts first, then definitions as a diff, then a part for each table with its rows.
 */

import type { ColumnSpread } from "../../../lib/sqlite/row_spread.ts";
import type { BriefDatabase } from "../../task/database_schema.ts";
import type { TaskView } from "../../api/wire.ts";
import { isProvable, PAGE_ROWS } from "../../task/page_proof.ts";
import type { DatabaseDiffQuery, DatabaseRows } from "../../task/row_pages.ts";
import { isPageShown } from "../../task/shown.ts";
import type { TrustBrief } from "../../task/schema.ts";
import { answerLines, rowCount, spreadLines } from "../../task/seen.ts";
import { type Api, digest } from "./api.ts";
import type { DiffFile, DiffLine } from "./diff.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { counted } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { notice, section, tableOf, tag } from "./page.ts";
import { valueText } from "./row_view.ts";
import { type ChangedTable, TableView } from "./table_view.ts";

/** Tables that begin open; each has a part of its rows in the document. */
const OPEN_TABLES = 1;

export interface DataOptions {
  api: Api;
  task: TaskView;
  signal: AbortSignal;
  onRead(): void;
}

/** A part for each listed table with rows that differ, those that were there before first. */
export function tableViews(brief: TrustBrief | undefined, { api, task, signal, onRead }: DataOptions): TableView[] {
  const tables = (brief?.databases ?? []).flatMap((database) => database.tables.map((table) => ({ database, table })));
  return tables.filter(({ table }) => rowCount(table) > 0).map(({ database, table }, index) =>
    new TableView({
      id: `table-${index}`,
      database,
      table,
      open: index < OPEN_TABLES,
      signal,
      rows: provenRows(task, (query) => api.databaseDiff(task.id, query, signal)),
      onRead,
    })
  );
}

type Read = (query: DatabaseDiffQuery) => Promise<DatabaseRows>;

/**
 * Reads unfiltered rows by whole pages, which are held to what is at the gate, and hands them out in smaller parts. The
 * cursor of a part is that of its page, a blank and the rows before it.
 */
function provenRows(task: TaskView, read: Read): Read {
  let known: { cursor: string; page: DatabaseRows } | undefined;
  return async ({ cursor = "", limit = 100, ...query }) => {
    const [place = "", skip = "0"] = cursor.split(" ");
    const from = Number(skip);
    const of_page = place === "" ? query : { ...query, cursor: place };
    if (!isProvable({ ...query, limit: PAGE_ROWS })) {
      const { rows, ...page } = await read({ ...of_page, limit: from + limit });
      return { ...page, rows: rows.slice(from) };
    }
    if (known?.cursor !== place) {
      const page = await read({ ...of_page, limit: PAGE_ROWS });
      if (!await isPageShown(task, of_page, page, digest)) throw new Error("These rows are not those at the gate.");
      known = { cursor: place, page };
    }
    const { rows, next } = known.page;
    const to = from + limit;
    const after = to < rows.length ? `${place} ${to}` : next;
    return { rows: rows.slice(from, to), ...after !== undefined && { next: after } };
  };
}

/** Definitions that differ, as files of a diff. */
export function definitionFiles(brief: TrustBrief | undefined): DiffFile[] {
  return (brief?.databases ?? []).flatMap(({ db, base, schema }) =>
    schema.map(({ type, name, change, before, after }): DiffFile => {
      const path = `${db}@${base} ${type} ${name}`;
      const status = change === "removed" ? "deleted" : change === "added" ? "added" : "modified";
      const lines = sqlDiff(sqlLines(before), sqlLines(after));
      const count = (kind: DiffLine["kind"]) => lines.filter((line) => line.kind === kind).length;
      const notes = before === undefined && after === undefined
        ? ["Its SQL is not here: there was no room for it."]
        : [];
      const hunks = lines.length === 0 ? [] : [{ range: "SQL", place: "", lines }];
      return { path, status, binary: false, added: count("added"), deleted: count("deleted"), notes, hunks };
    })
  );
}

function sqlLines(sql: BriefDatabase["schema"][number]["before"]): string[] {
  if (sql === undefined || sql === null) return [];
  const text = typeof sql === "object" && "text" in sql ? `${sql.text}\n-- cut: ${sql.bytes} bytes` : String(sql);
  return text.split("\n");
}

/** What both begin and end with once, and between that all that goes and all that comes. */
function sqlDiff(old: readonly string[], now: readonly string[]): DiffLine[] {
  let head = 0;
  while (head < Math.min(old.length, now.length) && old[head] === now[head]) head++;
  let tail = 0;
  while (tail < Math.min(old.length, now.length) - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const both = (text: string, at: number) => {
    const before = at < head ? at + 1 : at + 1 + old.length - now.length;
    return { kind: "context" as const, before, after: at + 1, text };
  };
  const [gone, come] = [{ kind: "deleted", after: 0 } as const, { kind: "added", before: 0 } as const];
  return [
    ...now.slice(0, head).map(both),
    ...old.slice(head, old.length - tail).map((text, at) => ({ ...gone, before: head + at + 1, text })),
    ...now.slice(head, now.length - tail).map((text, at) => ({ ...come, after: head + at + 1, text })),
    ...now.slice(now.length - tail).map((text, at) => both(text, now.length - tail + at)),
  ];
}

/** The section of all databases; undefined where none was changed. */
export function dataSection(brief: TrustBrief | undefined, views: readonly TableView[]): PageElement | false {
  const databases = (brief?.databases ?? []).filter(({ changed }) => changed);
  if (databases.length === 0) return false;
  return section(
    "Data",
    { class: "data" },
    ...databases.map((database) => summary(database, views)),
    ...views.map(({ element }) => element),
  );
}

function summary(database: BriefDatabase, views: readonly TableView[]): PageElement {
  const { db, base, tables, more_tables, settings = [], other_pages = [], more_schema, checks = [] } = database;
  const pages = other_pages.reduce((sum, { pages }) => sum + pages, 0);
  const notes = [
    ...settings.map(({ setting, before, after }) => `Setting ${setting}: ${before} → ${after}`),
    ...tables.flatMap(({ table, columns = [], unread }) => [
      ...columns.map(({ name, change, from, values }) =>
        change === "renamed"
          ? `${table}: column ${from} is now ${name}`
          : change === "added"
          ? `${table}: column ${name} added, ${counted(values, "row")} with another value than its default`
          : `${table}: column ${name} removed, ${counted(values, "row")} had a value`
      ),
      ...unread === undefined ? [] : [`${table}: not read to the end: ${unread}`],
    ]),
    ...pages === 0 ? [] : [`${counted(pages, "page")} differ beyond that: no row and no definition`],
  ];
  const more = [
    ...more_tables === 0 ? [] : [`${counted(more_tables, "more table")} not listed`],
    ...more_schema === 0 ? [] : [`${counted(more_schema, "more definition")} not listed`],
  ];
  const go = (table: ChangedTable) => {
    const view = views.find(({ file }) => file.path === `${db}@${base} ${table.table}`);
    view?.toggle(true);
    view?.element.scrollIntoView({ block: "start" });
  };
  const counts = tableOf(
    "tally",
    ["Table", "Removed", "Added", "Changed"],
    el(
      "tbody",
      ...tables.map((table) =>
        el(
          "tr",
          el(
            "td",
            elWith("button.link", { type: "button", on: { click: () => go(table) } }, ...shownLine(table.table)),
            table.change === "changed" ? "" : el("small", ` ${table.change}`),
          ),
          ...[table.rows_removed, table.rows_added, table.rows_changed].map((count) =>
            el("td.n", count.toLocaleString("en"))
          ),
        )
      ),
    ),
  );
  const answers = tableOf(
    "tally.checks",
    ["Check", "Before", "After", ""],
    el(
      "tbody",
      ...checks.map(({ name, sql, expect, holds, before, after }) =>
        el(
          "tr",
          elWith("td", { title: sql }, ...shownLine(name)),
          ...[before, after].map((answer) =>
            el("td", ...answerLines(answer, valueText).map((line) => el("p", ...shownLine(line))))
          ),
          el("td", holds === undefined ? "" : tag(`${expect}: ${holds ? "holds" : "does not hold"}`)),
        )
      ),
    ),
  );
  return el(
    "div.database",
    el("h3", ...shownLine(`${db}@${base}`)),
    tables.length > 0 && counts,
    checks.length > 0 && answers,
    ...tables.filter(({ spread }) => spread !== undefined).map(spreadPart),
    notes.length > 0 && el("ul", ...notes.map((note) => el("li", ...shownLine(note)))),
    more.length > 0 && notice("warn", more.join(", ")),
  );
}

/** On which values the rows of a table fall; in the document while it is open. */
function spreadPart(table: BriefDatabase["tables"][number]): PageElement {
  const body = el("div");
  const total = rowCount(table);
  const part = elWith(
    "details.spread",
    {
      on: {
        toggle: () => body.replaceChildren(...part.open ? table.spread!.map((column) => bars(column, total)) : []),
      },
    },
    el("summary", "Where the ", counted(total, "row"), " of ", ...shownLine(table.table), " fall"),
    body,
  );
  return part;
}

/** Numbers, each beside a bar that says no more. */
function bars(column: ColumnSpread, total: number): PageElement {
  const share = (rows: number) => `${(100 * rows / total).toFixed(1)}%`;
  const line = ({ value, rows, count }: ReturnType<typeof spreadLines>[number]) =>
    el(
      "tr",
      el("td", ...shownLine(value)),
      el("td.n", count),
      el("td", elWith("meter", { min: 0, max: total, value: rows, "aria-label": share(rows) })),
    );
  const body = el("tbody", ...spreadLines(column, valueText).map(line));
  return tableOf("tally", [column.column, "Rows", "Share"], body);
}

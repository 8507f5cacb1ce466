/**
 * Rows of databases that a task changed, as far as the brief has them.
 */

import type { BriefDatabase, TrustBrief } from "../../task/schema.ts";
import { el, type PageElement } from "./dom.ts";
import { counted } from "./format.ts";
import { shownLine } from "./hidden.ts";
import { section, tag } from "./page.ts";

type Table = BriefDatabase["tables"][number];

const KINDS = { added: "good", removed: "bad", changed: "quiet" } as const;

/** One section for each table with rows to show. */
export function changedRows(brief: TrustBrief | undefined): (PageElement | false)[] {
  return (brief?.databases ?? []).flatMap(({ db, base, tables }) =>
    tables.map((table) => (table.rows ?? []).length > 0 && tableRows(`${db}@${base}`, table))
  );
}

function tableRows(address: string, { table, rows = [], ...counts }: Table): PageElement {
  const more = counts.rows_added + counts.rows_removed + counts.rows_changed - rows.length;
  return section(
    "Rows that change",
    { class: "data" },
    el("p", el("code", ...shownLine(`${address} ${table}`))),
    el(
      "ul.commands",
      ...rows.map(({ change, key, before, after }) => {
        const parts = [key, before, after].filter((part) => part !== undefined).map((part) => JSON.stringify(part));
        return el("li", tag(change, KINDS[change]), el("code", ...shownLine(parts.join(" → "))));
      }),
    ),
    more > 0 && el("p.hint", `and ${counted(more, "row")} more`),
  );
}

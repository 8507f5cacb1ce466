/**
 * A changed row as cells, a column each: old beside new, with what differs inside the value marked. What JSON would blur
 * stays apart: text stands in quotes, a blob is `x'00ff'`, and a value that is folded says how long it is.
 */

import type { RowChange } from "../../task/database_schema.ts";
import { changedWords, type Range } from "./changed_words.ts";
import { codeNodes } from "./code.ts";
import { el, elWith, type PageElement } from "./dom.ts";
import { counted } from "./format.ts";
import { shownLine } from "./hidden.ts";

type Value = RowChange["key"][string];

const KINDS = { added: ["+", "added"], removed: ["−", "removed"], changed: ["~", "changed"] } as const;

/** Columns of a row: those of the key, those that differ, the others. */
export function columnsOf({ key, before = {}, after = {}, same = {} }: RowChange): { shown: string[]; same: string[] } {
  const shown = new Set([...Object.keys(key), ...Object.keys(before), ...Object.keys(after)]);
  return { shown: [...shown], same: Object.keys(same).filter((name) => !shown.has(name)) };
}

/** How many values of a row are folded. */
export function foldedIn({ before = {}, after = {} }: RowChange): number {
  return [...Object.values(before), ...Object.values(after)].filter(isFolded).length;
}

/** A row with a cell for each column; `whole` is asked for when a reader wants folded values in full. */
export function rowElement(row: RowChange, columns: readonly string[], whole: () => void): PageElement {
  const { change, key, rowid, before, after, same } = row;
  const [sign, word] = KINDS[change];
  const moved = rowid && el("small", `rowid ${valueText(rowid.before)} → ${valueText(rowid.after)}`);
  return elWith(
    "tr",
    { class: change },
    elWith("td.sign", { title: word, "aria-label": word }, sign),
    ...columns.map((name, index) => {
      const [old, now] = [own(before, name), own(after, name)];
      const differs = change === "changed" && (old !== undefined || now !== undefined);
      // NULL is a value.
      const value = [now, old, own(same, name), own(key, name)].find((known) => known !== undefined);
      const content = differs
        ? oldBesideNew(old, now, whole)
        : value === undefined
        ? ["—"]
        : [shownValue(value, [], whole)];
      return elWith(differs ? "td.differs" : "td", { "data-column": name }, ...content, index === 0 && moved);
    }),
  );
}

function own(values: Record<string, Value> | undefined, name: string): Value | undefined {
  return values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
}

function oldBesideNew(old: Value | undefined, now: Value | undefined, whole: () => void): PageElement[] {
  const marks = changedWords(valueText(old), valueText(now));
  return [
    ...old === undefined ? [] : [el("del", shownValue(old, marks.before, whole))],
    ...now === undefined ? [] : [el("ins", shownValue(now, marks.after, whole))],
  ];
}

function shownValue(value: Value, changed: readonly Range[], whole: () => void): PageElement {
  const shown = el(
    "span.value",
    ...changed.length === 0 ? shownLine(valueText(value)) : codeNodes(valueText(value), { tokens: [], changed }),
  );
  if (!isFolded(value)) return shown;
  const { bytes, at = 0, sha256 = "" } = value;
  const where = at === 0 ? "the beginning" : `from byte ${at.toLocaleString("en")}`;
  const more = elWith(
    "button.more",
    { type: "button", title: `SHA-256 ${sha256}`, on: { click: whole } },
    `${where} of ${counted(bytes, "byte")}: show all`,
  );
  return el("span", shown, more);
}

/** Whether only a part of it stands in it. */
export function isFolded(value: Value): value is Value & { bytes: number; at?: number; sha256: string } {
  return value !== null && typeof value === "object" && "sha256" in value && value.sha256 !== undefined;
}

/** A value on a line. */
export function valueText(value: Value | undefined): string {
  if (value === undefined) return "";
  if (value === null) return "NULL";
  if (typeof value !== "object") return JSON.stringify(value);
  if ("integer" in value) return value.integer;
  if ("real" in value) return value.real;
  if (!("text" in value)) return `x'${value.hex}'`;
  return JSON.stringify(value.text) + (value.hex === undefined ? "" : ` (no valid text: x'${value.hex}')`);
}

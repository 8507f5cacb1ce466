/**
 * Aligned columns for people. Cells are made safe and kept on one line. On a terminal
 * that is too narrow, heads give way first, then texts down to a width that can still be read, and then the last
 * columns go to a second line: none is lost. Names stay whole, since they are typed again, unless one is wider than the
 * terminal.
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";

export interface TextTableOptions {
  head?: readonly string[];
  /** Columns, counted from 0, that are aligned to the right: numbers. */
  right?: readonly number[];
  /** Columns of names: one that is wider than the terminal is shortened in its middle. */
  names?: readonly number[];
  /** Columns of running text, which is shortened at its end. */
  texts?: readonly number[];
  /** Width to keep within; nothing is shortened without it. */
  columns?: number | undefined;
}

const GAP = "  ";
/** In front of lines that go on with a row. */
const INDENT = "  ";
/** What is shortened keeps this many columns: texts, and heads over narrower cells. */
const MIN_CELL = 12;
const MIN_HEAD = 5;

/** A character that is drawn as one picture, of however many code points: two columns. */
const EMOJI = /^(?:\p{RGI_Emoji}|\p{Regional_Indicator}|[\d#*]\u{FE0F})/v;

type Width = (text: string) => number;

interface Column {
  index: number;
  columns: number;
  /** The width of its cells, without its head. */
  of_cells: number;
  /** The least width that can still be read. */
  least: number;
}

/** How to measure `texts`. The package is loaded only for text beyond ASCII. */
async function widthOf(texts: readonly string[]): Promise<Width> {
  if (texts.every((text) => /^[ -~]*$/.test(text))) return (text) => text.length;
  const { unicodeWidth } = await import("@std/cli/unicode-width");
  return (text) => {
    let columns = 0;
    for (const segment of segmentsOf(text)) columns += EMOJI.test(segment) ? 2 : unicodeWidth(segment);
    return columns;
  };
}

/** The rows as lines, columns two spaces apart. */
export async function textTable(
  rows: readonly (readonly string[])[],
  options: TextTableOptions = {},
): Promise<string> {
  const body = rows.map((row) => row.map(sanitizeLine));
  const head = options.head?.map(sanitizeLine);
  const cells = [...(head === undefined ? [] : [head]), ...body];
  const width = await widthOf(cells.flat());
  const columns = measured(head ?? [], body, { ...options, width });
  const lines = packed(columns, options.columns ?? Infinity)
    .map((line, index) => fitted(line, (options.columns ?? Infinity) - (index === 0 ? 0 : INDENT.length)));
  return cells.flatMap((row) =>
    lines.map((line, index) => {
      const text = line.map((column) => cellText(row[column.index] ?? "", column, { ...options, width })).join(GAP);
      return index === 0 ? text.trimEnd() : `${INDENT}${text}`.trimEnd();
    }).filter((line, index) => index === 0 || line !== "")
  ).join("\n");
}

export function textList(pairs: readonly (readonly [string, string | undefined])[]): Promise<string> {
  return textTable(pairs.flatMap(([name, value]) => value === undefined ? [] : [[name, value]]));
}

/** `line` within `columns`, ending in `…` where it was cut. */
export async function cutLine(line: string, columns: number): Promise<string> {
  return cut(line, columns, await widthOf([line]));
}

/** The columns that are not empty, as wide as their cells. */
function measured(
  head: readonly string[],
  body: readonly (readonly string[])[],
  { texts = [], width }: TextTableOptions & { width: Width },
): Column[] {
  const widths: number[] = [];
  for (const row of body) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, width(cell));
  }
  return Array.from({ length: Math.max(head.length, widths.length) }, (_, index): Column => {
    const of_head = width(head[index] ?? "");
    const of_cells = widths[index] ?? 0;
    const least = Math.max(
      Math.min(of_head, MIN_HEAD),
      texts.includes(index) ? Math.min(of_cells, MIN_CELL) : of_cells,
    );
    return { index, columns: Math.max(of_head, of_cells), of_cells, least };
  }).filter(({ columns }) => columns > 0);
}

/** Columns grouped into lines, as many on each as fit. */
function packed(columns: readonly Column[], room: number): Column[][] {
  const lines: Column[][] = [[]];
  for (const column of columns) {
    const line = lines.at(-1)!;
    const least = sum([...line, column].map(({ least }) => least));
    if (line.length === 0 || least <= room - (lines.length === 1 ? 0 : INDENT.length)) line.push(column);
    else lines.push([column]);
  }
  return lines;
}

/** A line's columns at their final widths. */
function fitted(line: readonly Column[], room: number): Column[] {
  const columns = line.map((column) => ({ ...column }));
  for (let excess = sum(columns.map(({ columns }) => columns)) - room; excess > 0; excess--) {
    const soft = columns.filter(({ columns, least }) => columns > least);
    const widest = widestOf(soft.filter(({ columns, of_cells }) => columns > of_cells)) ?? widestOf(soft);
    if (widest === undefined) break;
    widest.columns--;
  }
  // A single column that is too wide has no other line to go to.
  const only = columns[0];
  if (columns.length === 1 && only !== undefined) only.columns = Math.max(1, Math.min(only.columns, room));
  return columns;
}

function sum(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, GAP.length * (widths.length - 1));
}

function widestOf(columns: readonly Column[]): Column | undefined {
  return columns.toSorted((a, b) => b.columns - a.columns)[0];
}

function cellText(
  cell: string,
  { index, columns }: Column,
  { names, right, width }: TextTableOptions & { width: Width },
): string {
  const text = names?.includes(index) ? shorten(cell, columns, width) : cut(cell, columns, width);
  // Characters that join across segments may be wider or narrower than apart.
  const padding = " ".repeat(Math.max(0, columns - width(text)));
  return right?.includes(index) ? padding + text : text + padding;
}

function cut(line: string, columns: number, width: Width): string {
  return width(line) <= columns ? line : `${beginning(segmentsOf(line), columns - 1, width)}…`;
}

/** `name` within `columns`, its middle replaced by `…`: names often differ at their ends. */
function shorten(name: string, columns: number, width: Width): string {
  if (width(name) <= columns) return name;
  const segments = segmentsOf(name);
  const start = beginning(segments, Math.ceil((columns - 1) / 2), width);
  const end = beginning(segments.toReversed(), columns - 1 - width(start), width, true);
  return `${start}…${end}`;
}

function segmentsOf(text: string): string[] {
  return Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
}

/** As many of `segments` as fit in `columns`; `reversed` when the last comes first. */
function beginning(segments: readonly string[], columns: number, width: Width, reversed = false): string {
  let kept = "";
  let taken = 0;
  for (const segment of segments) {
    taken += width(segment);
    if (taken > columns) break;
    kept = reversed ? segment + kept : kept + segment;
  }
  return kept;
}

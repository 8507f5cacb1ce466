/**
 * Aligned columns for people. Cells are made safe and kept on one line; on a
 * terminal the last column is cut at its edge.
 *
 * @module
 */

import { sanitizeLine } from "../lib/text/sanitize.ts";

/** How a table is laid out. */
export interface TextTableOptions {
  /** Names over the columns. */
  head?: readonly string[];
  /** Columns, counted from 0, that are aligned to the right: numbers. */
  right?: readonly number[];
  /** Width to keep within; nothing is cut without it. */
  columns?: number | undefined;
}

/** Columns that a text takes on a terminal. */
type Width = (text: string) => number;

/** How to measure `texts`. The library is only needed, and only loaded, for text beyond ASCII. */
async function widthOf(texts: readonly string[]): Promise<Width> {
  if (texts.every((text) => /^[ -~]*$/.test(text))) return (text) => text.length;
  const { default: stringWidth } = await import("string-width");
  return (text) => stringWidth(text);
}

/** The rows as lines, columns two spaces apart. */
export async function textTable(
  rows: readonly (readonly string[])[],
  options: TextTableOptions = {},
): Promise<string> {
  const cells = [...(options.head === undefined ? [] : [options.head]), ...rows].map((row) => row.map(sanitizeLine));
  const width = await widthOf(cells.flat());
  const widths: number[] = [];
  for (const row of cells) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, width(cell));
  }
  return cells.map((row) => {
    const line = row.map((cell, index) => {
      const padding = " ".repeat(widths[index]! - width(cell));
      return options.right?.includes(index) ? padding + cell : cell + padding;
    }).join("  ").trimEnd();
    return options.columns === undefined ? line : cut(line, options.columns, width);
  }).join("\n");
}

/** Names and values, one below the other; pairs without a value are left out. */
export function textList(pairs: readonly (readonly [string, string | undefined])[]): Promise<string> {
  return textTable(pairs.flatMap(([name, value]) => value === undefined ? [] : [[name, value]]));
}

/** `line` within `columns`, ending in `…` where it was cut. */
export async function cutLine(line: string, columns: number): Promise<string> {
  return cut(line, columns, await widthOf([line]));
}

function cut(line: string, columns: number, width: Width): string {
  if (width(line) <= columns) return line;
  let kept = "";
  let taken = 1;
  for (const { segment } of new Intl.Segmenter().segment(line)) {
    taken += width(segment);
    if (taken > columns) break;
    kept += segment;
  }
  return `${kept}…`;
}

/**
 * Aligned columns for people. Cells are made safe and kept on one line; on a
 * terminal the last column is cut at its edge.
 *
 * @module
 */

import stringWidth from "string-width";
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

/** The rows as lines, columns two spaces apart. */
export function textTable(rows: readonly (readonly string[])[], options: TextTableOptions = {}): string {
  const cells = [...(options.head === undefined ? [] : [options.head]), ...rows].map((row) => row.map(sanitizeLine));
  const widths: number[] = [];
  for (const row of cells) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, stringWidth(cell));
  }
  return cells.map((row) => {
    const line = row.map((cell, index) => {
      const padding = " ".repeat(widths[index]! - stringWidth(cell));
      return options.right?.includes(index) ? padding + cell : cell + padding;
    }).join("  ").trimEnd();
    return options.columns === undefined ? line : cutLine(line, options.columns);
  }).join("\n");
}

/** Names and values, one below the other; pairs without a value are left out. */
export function textList(pairs: readonly (readonly [string, string | undefined])[]): string {
  return textTable(pairs.flatMap(([name, value]) => value === undefined ? [] : [[name, value]]));
}

/** `line` within `columns`, ending in `…` where it was cut. */
export function cutLine(line: string, columns: number): string {
  if (stringWidth(line) <= columns) return line;
  let kept = "";
  let width = 1;
  for (const { segment } of new Intl.Segmenter().segment(line)) {
    width += stringWidth(segment);
    if (width > columns) break;
    kept += segment;
  }
  return `${kept}…`;
}

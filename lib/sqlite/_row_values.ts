/**
 * Values of a row as text that identifies exactly what is stored: two values have the same
 * text if and only if SQLite keeps the same type and bytes. Comparing what the driver returns
 * would not do: it cuts text at a NUL and blurs invalid UTF-8.
 */

import type { JsonValue } from "./diff_result.ts";
import { quoteName } from "./_image.ts";

/** Characters of a text that are shown. */
const TEXT_CHARS = 200;
/** Bytes of a blob that are shown. */
const BLOB_BYTES = 64;
/** Columns joined in one expression: SQLite allows a depth of 1,000, and each column takes a few levels. */
const JOINED_COLUMNS = 50;

/** SQL for the exact text of one column: a letter for the type, then digits or hex. */
function exactSql(column: string): string {
  const c = quoteName(column);
  return `CASE typeof(${c}) WHEN 'null' THEN 'N' WHEN 'integer' THEN 'I'||${c} WHEN 'real' THEN 'R'||quote(${c})` +
    ` WHEN 'text' THEN 'T'||hex(CAST(${c} AS BLOB)) ELSE 'B'||hex(${c}) END`;
}

/** SQL expressions that hold the exact texts of the columns, joined with commas, some columns in each. */
export function exactColumnsSql(columns: readonly string[]): string[] {
  const parts: string[] = [];
  for (let i = 0; i < columns.length; i += JOINED_COLUMNS) {
    parts.push(columns.slice(i, i + JOINED_COLUMNS).map(exactSql).join("||','||"));
  }
  return parts;
}

/** The exact text of each column out of joined ones. */
export function splitExact(parts: readonly string[]): string[] {
  return parts.flatMap((part) => part.split(","));
}

/** An exact text as a value that people can read; a long one is cut. `encoding` is the database's. */
export function showValue(exact: string, encoding: string): JsonValue {
  const rest = exact.slice(1);
  switch (exact[0]) {
    case "I":
      return showInteger(BigInt(rest));
    case "R": {
      const number = Number(rest);
      return Number.isFinite(number) ? number : String(number); // JSON has no infinity
    }
    case "T":
      return showText(rest, encoding);
    case "B":
      return { hex: rest.slice(0, BLOB_BYTES * 2).toLowerCase(), bytes: rest.length / 2 };
    default:
      return null;
  }
}

function showInteger(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value); // a number would round it
}

function showText(hex: string, encoding: string): string {
  // Four bytes hold a character in every encoding; one character more shows that there is more.
  const bytes = Uint8Array.fromHex(hex.slice(0, (TEXT_CHARS + 1) * 8));
  const chars = [...new TextDecoder(encoding, { ignoreBOM: true }).decode(bytes)];
  return chars.length > TEXT_CHARS ? `${chars.slice(0, TEXT_CHARS).join("")}…` : chars.join("");
}

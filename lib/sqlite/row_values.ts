/**
 * Values of a row as they are stored, type and bytes: what the driver returns for text would not do, since it cuts text
 * at a NUL and blurs invalid UTF-8. Text is read as its bytes, and a bit beside it says that it is text.
 */

import { Buffer } from "node:buffer";
import { sha256Hex } from "../sha256.ts";
import type { JsonValue } from "./diff_result.ts";
import { quoteName } from "./image.ts";

/** Columns whose bits share an integer. */
const MASK_COLUMNS = 60;

/** The bytes of a text in its database's encoding. */
export interface Text {
  text: Uint8Array;
  encoding: string;
}

export type Value = null | bigint | number | Uint8Array | Text;

/** SQL expressions of columns, for {@linkcode readValues}. */
export function valuesSql(columns: readonly string[]): string[] {
  const names = columns.map(quoteName);
  const masks: string[] = [];
  for (let i = 0; i < names.length; i += MASK_COLUMNS) {
    masks.push(names.slice(i, i + MASK_COLUMNS).map((c, bit) => `((typeof(${c})='text')<<${bit})`).join("+"));
  }
  return [...masks, ...names.map((c) => `CASE typeof(${c}) WHEN 'text' THEN CAST(${c} AS BLOB) ELSE ${c} END`)];
}

/** The values of `count` columns, from what stands at `from` of a row of {@linkcode valuesSql}. */
export function readValues(
  row: readonly unknown[],
  { from, count, encoding }: { from: number; count: number; encoding: string },
): Value[] {
  const first = from + Math.ceil(count / MASK_COLUMNS);
  const values = row.slice(first, first + count) as Value[];
  for (let i = 0; i < count; i += MASK_COLUMNS) {
    let mask = row[from + i / MASK_COLUMNS] as bigint;
    for (let column = i; mask > 0n; column++, mask >>= 1n) {
      if (mask & 1n) values[column] = { text: values[column] as Uint8Array, encoding };
    }
  }
  return values;
}

export function isText(value: Value): value is Text {
  return value !== null && typeof value === "object" && "text" in value;
}

/** Whether SQLite keeps the same of both: 1 and 1.0 are not, nor are 0.0 and -0.0. */
export function sameValue(a: Value, b: Value): boolean {
  if (isText(a)) return isText(b) && sameText(a, b);
  if (a instanceof Uint8Array) return b instanceof Uint8Array && sameBytes(a, b);
  return Object.is(a, b);
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && Buffer.compare(a, b) === 0;
}

function sameText(a: Text, b: Text): boolean {
  if (a.encoding === b.encoding) return sameBytes(a.text, b.text);
  const decoded = decode(a);
  return decoded !== undefined && decoded === decode(b);
}

/** Undefined of what is no text in its encoding. */
function decode({ text, encoding }: Text): string | undefined {
  try {
    return new TextDecoder(encoding, { fatal: true, ignoreBOM: true }).decode(text);
  } catch {
    return undefined;
  }
}

/** SQLite's order of values with the collation BINARY: https://sqlite.org/datatype3.html#sort_order. */
export function compareValues(a: Value, b: Value): number {
  const class_a = sortClass(a);
  const by_class = class_a - sortClass(b);
  if (by_class !== 0) return by_class;
  if (class_a === 0) return 0;
  if (class_a === 1) return a! < b! ? -1 : a! > b! ? 1 : 0;
  return Buffer.compare(bytesOf(a)!, bytesOf(b)!);
}

function sortClass(value: Value): number {
  return value === null ? 0 : isText(value) ? 2 : value instanceof Uint8Array ? 3 : 1;
}

export function bytesOf(value: Value): Uint8Array | undefined {
  return isText(value) ? value.text : value instanceof Uint8Array ? value : undefined;
}

/** Whether a value of either side has `search` in it: text as such, numbers as digits, blobs as hex. */
export function searchOf(
  search: string,
): (pair: { before?: { values: Value[] } | undefined; after?: { values: Value[] } | undefined }) => boolean {
  const needle = search.toLowerCase();
  if (needle === "") return () => true;
  const has = (value: Value) => searchable(value).toLowerCase().includes(needle);
  return ({ before, after }) => before?.values.some(has) || after?.values.some(has) || false;
}

function searchable(value: Value): string {
  if (isText(value)) return new TextDecoder(value.encoding).decode(value.text);
  return value === null ? "" : value instanceof Uint8Array ? value.toHex() : String(value);
}

/** Bytes before what differs that a window shows. */
const CONTEXT_BYTES = 32;

/**
 * A value as JSON can carry it.
 *
 * @param most Bytes of text or of a blob; what is longer becomes a window of that size around the first byte in which it
 * differs from `other`.
 */
export function showValue(value: Value, { most, other }: { most: number; other?: Value | undefined }): JsonValue {
  if (typeof value === "bigint") {
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : { integer: String(value) };
  }
  if (typeof value === "number") return showReal(value);
  const bytes = bytesOf(value);
  if (bytes === undefined) return null;
  const folded = bytes.length > most;
  const at = folded ? windowStart(bytes, other === undefined ? undefined : bytesOf(other), most) : 0;
  const shown = folded ? bytes.subarray(at, at + most) : bytes;
  const fold = folded ? { ...(at > 0 ? { at } : {}), sha256: sha256Hex(bytes) } : {};
  if (!isText(value)) return { hex: shown.toHex(), bytes: bytes.length, ...fold };
  const { encoding } = value;
  const whole = folded ? undefined : decode(value);
  if (whole !== undefined) return whole;
  const part = trimmed(shown, { encoding, at, end: at + shown.length === bytes.length });
  const text = new TextDecoder(encoding, { ignoreBOM: true }).decode(part.bytes);
  const valid = decode({ text: part.bytes, encoding }) !== undefined;
  return {
    text,
    bytes: bytes.length,
    ...(valid ? {} : { hex: part.bytes.toHex() }),
    ...fold,
    ...(part.at > 0 ? { at: part.at } : {}),
  };
}

function showReal(value: number): JsonValue {
  if (Number.isFinite(value) && !Number.isInteger(value)) return value;
  if (Object.is(value, -0)) return { real: "-0.0" };
  return { real: Number.isInteger(value) ? `${value}`.includes("e") ? `${value}` : `${value}.0` : `${value}` };
}

function windowStart(bytes: Uint8Array, other: Uint8Array | undefined, most: number): number {
  if (other === undefined) return 0;
  const shared = Math.min(bytes.length, other.length);
  let at = 0;
  while (at < shared && bytes[at] === other[at]) at++;
  return Math.max(0, Math.min(at - Math.min(CONTEXT_BYTES, most >> 1), bytes.length - most));
}

/** A window without the parts of characters at its ends. */
function trimmed(
  bytes: Uint8Array,
  { encoding, at, end }: { encoding: string; at: number; end: boolean },
): { bytes: Uint8Array; at: number } {
  const utf8 = encoding === "UTF-8";
  let from = 0;
  if (utf8) { while (at > 0 && from < Math.min(3, bytes.length) && (bytes[from]! & 0xc0) === 0x80) from++; }
  else from = at % 2;
  let to = bytes.length;
  if (!end && utf8) {
    let last = to - 1;
    while (last > from && to - last < 4 && (bytes[last]! & 0xc0) === 0x80) last--;
    const lead = bytes[last]!;
    const need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (to - last < need) to = last;
  } else if (!end) {
    to -= (to - from) % 2;
    // The first half of a pair.
    const high = bytes[encoding === "UTF-16le" ? to - 1 : to - 2] ?? 0;
    if ((high & 0xfc) === 0xd8) to -= 2;
  }
  return { bytes: bytes.subarray(from, Math.max(from, to)), at: at + from };
}

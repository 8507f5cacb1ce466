/**
 * Checksums of JSON records, documents and lines alike: the last field of a sealed object is `sum`, the CRC-32 of every
 * byte before the comma that it follows, as 8 hex digits. So the sum covers the bytes themselves and not what they are
 * parsed to, a reader needs no canonical form, and a program that does not know the field reads the object as before.
 *
 * A CRC-32 finds every change of up to 32 bits in a row, and misses one of 2^32 others: enough for what time, memory and
 * wires do to small records. It is no defence against a program that can write them.
 */

import { crc32 } from "node:zlib";
import { parseJson } from "./text/json.ts";

const TAIL = /^,"sum":"([0-9a-f]{8})"\}$/;
const TAIL_CHARS = `,"sum":"01234567"}`.length;
/** In a longer record several bytes may explain one checksum. */
const MAX_CORRECTED_BYTES = 64 << 10;

/** Adds the checksum to the JSON text of an object that has at least one field and none of the name `sum`. */
export function sealJson(json: string): string {
  const before = json.slice(0, -1);
  return before + tailOf(crc32(before));
}

/** What {@linkcode unsealJson} found. */
export interface UnsealedJson {
  /** The object's JSON text without the checksum. */
  json: string;
  /** False where there is no checksum in its place: a record of version 0.1.0, or one whose checksum itself is damaged. */
  sealed: boolean;
}

/**
 * Takes the checksum off again; undefined when it does not match. A caller that accepts text which was not sealed has to
 * refuse fields that it does not know: a damaged `sum` is one.
 */
export function unsealJson(record: string): UnsealedJson | undefined {
  const text = record.trimEnd();
  const before = text.slice(0, -TAIL_CHARS);
  const tail = TAIL.exec(text.slice(-TAIL_CHARS));
  if (tail === null) return { json: text, sealed: false };
  return tail[0] === tailOf(crc32(before)) ? { json: `${before}}`, sealed: true } : undefined;
}

/**
 * The value of a record for a schema that refuses unknown fields; undefined when it is damaged. As `parseJson`, it drops
 * the parser's message.
 */
export function parseSealedJson(record: string): unknown {
  const unsealed = unsealJson(record);
  return unsealed && parseJson(unsealed.json);
}

/**
 * The sealed record that `damaged` was, where it differs in one byte: the checksum says in which. Undefined where no
 * byte explains it, or several do.
 */
export function correctSealed(damaged: Uint8Array): Uint8Array | undefined {
  const end = damaged.length - TAIL_CHARS;
  if (end <= 0 || damaged.length > MAX_CORRECTED_BYTES) return undefined;
  const found: Uint8Array[] = [];
  const sum = crc32(damaged.subarray(0, end));
  const tail = new TextEncoder().encode(tailOf(sum));
  const wrong = tail.filter((byte, i) => byte !== damaged[end + i]).length;
  if (wrong === 0) return undefined;
  if (wrong === 1) found.push(new Uint8Array([...damaged.subarray(0, end), ...tail]));
  const stored = TAIL.exec(new TextDecoder().decode(damaged.subarray(end)));
  if (!stored) return found[0];
  const differs = (sum ^ parseInt(stored[1]!, 16)) >>> 0;
  // What a change of the last byte does to the sum, for each change; one step further for each byte that follows it.
  const step = Uint32Array.from({ length: 256 }, (_, change) => crc32(Uint8Array.of(change)) ^ crc32(Uint8Array.of(0)));
  const effect = step.slice();
  for (let at = end - 1; at >= 0; at--) {
    const change = effect.indexOf(differs);
    if (change > 0) found.push(damaged.with(at, damaged[at]! ^ change));
    for (let i = 0; i < 256; i++) effect[i] = step[effect[i]! & 0xff]! ^ (effect[i]! >>> 8);
  }
  return found.length === 1 ? found[0] : undefined;
}

function tailOf(sum: number): string {
  return `,"sum":"${sum.toString(16).padStart(8, "0")}"}`;
}

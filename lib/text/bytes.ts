/**
 * Byte sizes as people write and read them. Suffixes are powers of 1024.
 */

import { TaskdError } from "../errors.ts";

const SUFFIXES = ["", "K", "M", "G", "T"] as const;

/**
 * Parses a byte size: a whole number, alone or with one suffix K, M, G or T (powers of 1024).
 *
 * @returns Bytes, a safe integer.
 * @throws {TaskdError} `usage`, naming what is wrong.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(parseBytes("10G"), 10_737_418_240);
 * ```
 */
export function parseBytes(text: string): number {
  const match = /^(\d+)([KMGT]?)$/.exec(text);
  if (match === null) refuse(text, text === "" ? "it is empty" : "it is not a whole number with K, M, G, T or nothing");
  const bytes = Number(match[1]) * 1024 ** SUFFIXES.findIndex((suffix) => suffix === match[2]);
  if (!Number.isSafeInteger(bytes)) refuse(text, "it is too large");
  return bytes;
}

function refuse(text: string, why: string): never {
  throw new TaskdError("usage", `Cannot parse byte size ${JSON.stringify(text.slice(0, 64))}: ${why}`, {
    hint: "Sizes are bytes, or a whole number with K, M, G or T: 65536, 512M, 10G",
  });
}

/** A byte count for people: `512 B`, `1.5 KiB`, `12 MiB`. One decimal below 10 of a unit, none above. */
export function formatBytes(bytes: number): string {
  let value = Math.max(0, bytes);
  let index = 0;
  while (index < SUFFIXES.length - 1 && (index === 0 ? value >= 1024 : Math.round(value) >= 1024)) {
    value /= 1024;
    index++;
  }
  if (index === 0) return `${Math.round(value)} B`;
  const tenths = Math.round(value * 10) / 10;
  return `${tenths < 10 && !Number.isInteger(tenths) ? tenths : Math.round(value)} ${SUFFIXES[index]}iB`;
}

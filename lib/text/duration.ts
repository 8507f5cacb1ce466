/**
 * Durations as people write and read them: `500ms`, `30s`, `1h30m`, `7d`.
 */

import { TaskdError } from "../errors.ts";

const UNITS = [
  { name: "d", ms: 86_400_000 },
  { name: "h", ms: 3_600_000 },
  { name: "m", ms: 60_000 },
  { name: "s", ms: 1_000 },
  { name: "ms", ms: 1 },
] as const;

function refuse(text: string, why: string): never {
  throw new TaskdError("usage", `Cannot parse duration ${JSON.stringify(text.slice(0, 64))}: ${why}`, {
    hint: "Durations are whole numbers with units, largest first: 500ms, 30s, 5m, 24h, 7d, 1h30m, or 0",
  });
}

/**
 * Parses a duration: whole numbers with the units `d h m s ms`, largest first, each at most once; or `0`.
 *
 * @returns Milliseconds, a safe integer.
 * @throws {TaskdError} `usage`, naming what was not expected.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 *
 * assertEquals(parseDuration("1h30m"), 5_400_000);
 * ```
 */
export function parseDuration(text: string): number {
  if (text === "") refuse(text, "it is empty");
  if (text === "0") return 0;
  let total_ms = 0;
  let rest = text;
  let next_unit = 0;
  while (rest !== "") {
    const digits = /^\d+/.exec(rest)?.[0];
    if (digits === undefined) refuse(text, `unexpected ${describe(rest)}`);
    rest = rest.slice(digits.length);
    const word = /^[a-z]+/.exec(rest)?.[0];
    if (word === undefined) refuse(text, rest === "" ? `no unit after ${digits}` : `unexpected ${describe(rest)}`);
    const index = UNITS.findIndex((unit) => unit.name === word);
    if (index < 0) refuse(text, `unknown unit ${JSON.stringify(word.slice(0, 16))}`);
    if (index < next_unit) refuse(text, `${JSON.stringify(word)} is repeated or out of order`);
    next_unit = index + 1;
    total_ms += Number(digits) * UNITS[index]!.ms;
    rest = rest.slice(word.length);
  }
  if (!Number.isSafeInteger(total_ms)) refuse(text, "it is too long");
  return total_ms;
}

function describe(rest: string): string {
  const char = String.fromCodePoint(rest.codePointAt(0)!);
  return char === " " ? "space" : JSON.stringify(char);
}

/**
 * A duration for people, in its two largest units: `850ms`, `12.3s`, `2m 3s`, `1h 30m`, `3d 4h`.
 *
 * @param ms Milliseconds; fractions are rounded, negative values read as 0.
 */
export function formatDuration(ms: number): string {
  const whole_ms = Math.max(0, Math.round(ms));
  if (whole_ms < 1_000) return `${whole_ms}ms`;
  if (whole_ms < 60_000) return `${Math.floor(whole_ms / 100) / 10}s`;
  const first = UNITS.findIndex((unit) => whole_ms >= unit.ms);
  const large = UNITS[first]!;
  const small = UNITS[first + 1]!;
  const count = Math.floor(whole_ms / large.ms);
  const remainder = Math.floor((whole_ms % large.ms) / small.ms);
  return remainder === 0 ? `${count}${large.name}` : `${count}${large.name} ${remainder}${small.name}`;
}

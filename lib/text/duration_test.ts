import { assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../errors.ts";
import { formatDuration, parseDuration } from "./duration.ts";

Deno.test("parseDuration() reads every documented form", () => {
  const table: [string, number][] = [
    ["0", 0],
    ["0s", 0],
    ["500ms", 500],
    ["30s", 30_000],
    ["5m", 300_000],
    ["24h", 86_400_000],
    ["7d", 604_800_000],
    ["1h30m", 5_400_000],
    ["1d2h3m4s5ms", 93_784_005],
    ["1d5ms", 86_400_005],
    ["007s", 7_000],
  ];
  for (const [text, ms] of table) assertEquals(parseDuration(text), ms, text);
});

Deno.test("parseDuration() names what it did not expect", () => {
  const table: [string, string][] = [
    ["", 'Cannot parse duration "": it is empty'],
    ["5 m", 'Cannot parse duration "5 m": unexpected space'],
    ["5", 'Cannot parse duration "5": no unit after 5'],
    ["1h30", 'Cannot parse duration "1h30": no unit after 30'],
    ["-5m", 'Cannot parse duration "-5m": unexpected "-"'],
    ["1.5h", 'Cannot parse duration "1.5h": unexpected "."'],
    ["5y", 'Cannot parse duration "5y": unknown unit "y"'],
    ["5M", 'Cannot parse duration "5M": unexpected "M"'],
    ["30m1h", 'Cannot parse duration "30m1h": "h" is repeated or out of order'],
    ["1h1h", 'Cannot parse duration "1h1h": "h" is repeated or out of order'],
    ["99999999999999999d", 'Cannot parse duration "99999999999999999d": it is too long'],
    ["5m\x1b[2J", 'Cannot parse duration "5m\\u001b[2J": unexpected "\\u001b"'],
  ];
  for (const [text, message] of table) {
    const error = assertThrows(() => parseDuration(text), TaskdError);
    assertEquals(error.message, message);
    assertEquals(error.code, "usage");
  }
});

Deno.test("formatDuration() shows the two largest units", () => {
  const table: [number, string][] = [
    [-5, "0ms"],
    [0, "0ms"],
    [0.6, "1ms"],
    [999, "999ms"],
    [1_000, "1s"],
    [12_345, "12.3s"],
    [59_999, "59.9s"],
    [60_000, "1m"],
    [123_000, "2m 3s"],
    [5_400_000, "1h 30m"],
    [3_600_000 + 59_000, "1h"],
    [273_600_000, "3d 4h"],
  ];
  for (const [ms, text] of table) assertEquals(formatDuration(ms), text);
});

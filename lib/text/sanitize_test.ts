import { assert, assertEquals } from "@std/assert";
import { escapeJson, sanitizeLine, sanitizeText } from "./sanitize.ts";

Deno.test("sanitizeLine() leaves no character that a terminal acts on", () => {
  const table: [string, string][] = [
    ["plain text, naïve 数据 🦕", "plain text, naïve 数据 🦕"],
    ["\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"],
    ["\u009b31m", "\\x9b31m"],
    ["a\r\nb\tc", "a\\r\\nb\\tc"],
    ["\u202etxt.exe", "\\u202etxt.exe"],
    ["a\u200bb\ufeff", "a\\u200bb\\ufeff"],
    ["\u{e0041}", "\\u{e0041}"],
    ["\x7f\x00", "\\x7f\\x00"],
    ["lone \ud800 surrogate", "lone \ufffd surrogate"],
  ];
  for (const [text, safe] of table) assertEquals(sanitizeLine(text), safe);
});

Deno.test("sanitizeLine() lets no control character below U+0100 through", () => {
  for (let code = 0; code < 0x100; code++) {
    const safe = sanitizeLine(String.fromCharCode(code));
    // deno-lint-ignore no-control-regex
    assert(!/[\x00-\x1f\x7f-\x9f]/.test(safe), `code ${code}`);
  }
});

Deno.test("sanitizeText() keeps newlines and tabs only", () => {
  assertEquals(sanitizeText("a\n\tb\x1b[m\r"), "a\n\tb\\x1b[m\\r");
});

Deno.test("escapeJson() changes nothing but the spelling", () => {
  const value = { "a\u009b31m": "\u202e\x1b[2J\n数据\u{e0041}\u007f" };
  const escaped = escapeJson(JSON.stringify(value));
  assertEquals(JSON.parse(escaped), value);
  assertEquals(sanitizeLine(escaped), escaped);
});

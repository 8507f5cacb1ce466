import { assert, assertEquals } from "@std/assert";
import { contentText } from "./characters.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { escapeJson, exactLine, sanitizeLine, sanitizeText } from "./sanitize.ts";

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
    ["lone \ud800 surrogate, \ufffd", "lone \\ud800 surrogate, \ufffd"],
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

/** What a line that {@linkcode exactLine} made says. */
function unescaped(line: string): string {
  return line.replace(
    /\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|u\{([0-9a-f]+)\})/g,
    (_, ...hex) => String.fromCodePoint(parseInt(hex.find((digits) => digits !== undefined), 16)),
  );
}

/** What escapes are made of, what they stand for, and what stands for itself. */
const PIECES = [..."\\xu{}01bndc5\ufffd\u0430aZ \u00e9\n\r\t\x1b\x80\x9b\u202e\u200b"]
  .concat("\ud800", "\udc9b", "\udfff", "\u{e0041}", "\u{1f980}", "\\x1b", "\\u202e", "\\u{e0041}", "\\udc9b", "\\x5c");

Deno.test("exactLine() says exactly what the text is: no two texts look alike, whatever they hold", () => {
  const random = new SeededRandom(20_260_101);
  const seen = new Map<string, string>();
  for (let round = 0; round < 20_000; round++) {
    const text = Array.from({ length: random.between(0, 8) }, () => random.pick(PIECES)).join("");
    const line = exactLine(text);
    assertEquals(unescaped(line), text);
    assertEquals(seen.get(line) ?? text, text);
    seen.set(line, text);
    assert(line.isWellFormed() && sanitizeLine(line) === line, JSON.stringify(line));
  }
});

Deno.test("content of any bytes is shown so that no two contents look alike", () => {
  const random = new SeededRandom(20_260_102);
  const parts = [[0x80], [0xff], [0xc3], [0xc3, 0xa9], [0xef, 0xbf, 0xbd], [0xed, 0xb2, 0x80], [0xc2, 0x9b], [0x9b], [
    0x41,
  ]]
    .concat([[0xf0, 0x9f, 0xa6, 0x80], [0xf0, 0x9f], [0xc0, 0x80], [0x5c, 0x75, 0x64, 0x63, 0x38, 0x30], [
      0xef,
      0xbb,
      0xbf,
    ]]);
  const seen = new Map<string, string>();
  for (let round = 0; round < 20_000; round++) {
    const bytes = new Uint8Array(Array.from({ length: random.between(0, 6) }, () => random.pick(parts)).flat());
    const line = exactLine(contentText(bytes));
    assertEquals(seen.get(line) ?? bytes.toHex(), bytes.toHex(), line);
    seen.set(line, bytes.toHex());
  }
  assertEquals(contentText(new TextEncoder().encode("n\u00e9 \ufffd\n")), "n\u00e9 \ufffd\n");
  assertEquals(exactLine(contentText(new Uint8Array([0x63, 0xe9, 10, 0x41]))), "c\\udce9\\x0aA");
});

import { assert, assertEquals } from "@std/assert";
import fc from "../../../tests/packages/fast_check.ts";
import { pieces } from "./code.ts";
import { ago, cost, dollars, duration, opening, repoName } from "./format.ts";
import { oddities } from "../../../lib/text/characters.ts";
import { DAYS, perDay } from "./sparkline.ts";
import { laterSpend } from "./spend.ts";
import { colouring } from "./syntax.ts";
import { changedWords } from "./changed_words.ts";

Deno.test("changedWords() marks the words by which two versions of a line differ", () => {
  const cut = (text: string, ranges: { start: number; end: number }[]) =>
    ranges.map(({ start, end }) => text.slice(start, end));
  const [before, after] = ["const limit = min(a, 10);", "const limit = max(a, 20);"];
  const change = changedWords(before, after);
  assertEquals(cut(before, change.before), ["min", "10"]);
  assertEquals(cut(after, change.after), ["max", "20"]);
  assertEquals(changedWords("completely", "different()"), { before: [], after: [] });
});

Deno.test("changedWords() takes no long time for any two lines", () => {
  const [a, b] = ["a b ".repeat(250), "b a ".repeat(250)];
  assertEquals(changedWords(a, b), { before: [], after: [] });
  assertEquals(changedWords("x".repeat(5_000), "y"), { before: [], after: [] });
});

Deno.test("the pieces of a line are the line, however it is marked", () => {
  const colour = colouring("a.ts")!;
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 80 }), fc.string({ maxLength: 80 }), (text, other) => {
    const { before } = changedWords(text, other);
    const found = pieces(text, { tokens: colour(text), changed: before });
    assertEquals(found.map(({ start, end }) => text.slice(start, end)).join(""), text);
  }));
});

Deno.test("colouring() finds comments, strings, numbers and keywords by the name of the file", () => {
  const kinds = (path: string, line: string) =>
    colouring(path)!(line).map(({ start, end, kind }) => [line.slice(start, end), kind]);
  assertEquals(kinds("x.ts", 'return "a//b" + 0x1f; // done'), [
    ["return", "keyword"],
    ['"a//b"', "string"],
    ["0x1f", "number"],
    ["// done", "comment"],
  ]);
  assertEquals(kinds("Dockerfile", "ENV A=b#c # d"), [["# d", "comment"]]);
  assertEquals(kinds("x.py", 'def f(): return "#"'), [["def", "keyword"], ["return", "keyword"], ['"#"', "string"]]);
  assertEquals(kinds("q.sql", "SELECT 1 -- x"), [["SELECT", "keyword"], ["1", "number"], ["-- x", "comment"]]);
  assertEquals(kinds("a.json", '{"a": true}'), [['"a"', "string"], ["true", "keyword"]]);
  assertEquals(colouring("notes.txt"), undefined);
});

Deno.test("colouring() never takes a line for a comment that does not begin as one", () => {
  assertEquals(colouring("x.ts")!("* steal()").length, 0);
});

Deno.test("oddities() finds what a reader would not see, and leaves ordinary text of any language", () => {
  for (const text of ["plain\ttext", "日本語", "Ünïcödé", "привет", "שלום", "→ ✓ … “x”"]) {
    assertEquals(oddities(text), [], text);
  }
  for (
    const code of [
      0x00,
      0x1b,
      0x7f,
      0x9b,
      0xa0,
      0xad,
      0x61c,
      0x200b,
      0x202e,
      0x2066,
      0x2028,
      0x3164,
      0xfe0f,
      0xfeff,
      0xe0041,
      0xe0101,
    ]
  ) {
    assertEquals(oddities(`a${String.fromCodePoint(code)}b`).map(({ kind }) => kind), ["hidden"], code.toString(16));
  }
  assertEquals(oddities("let p\u0430ss = 1").map(({ start, end, kind }) => [start, end, kind]), [[4, 8, "mixed"]]);
});

Deno.test("oddities() takes no long time for a long word of another alphabet", () => {
  const found = oddities("\u0430".repeat(20_000));
  assertEquals(found, []);
});

Deno.test("money that is not known is never shown as nothing", () => {
  const none = { usd: 0, requests: 3, unmetered_requests: 3, priced: false };
  assertEquals(cost(undefined), "not metered");
  assertEquals(cost(none), "unmetered");
  assertEquals(cost({ ...none, usd: 1.5, unmetered_requests: 1 }), "at least $1.50");
  assertEquals(cost({ usd: 0.0312, requests: 1, unmetered_requests: 0, priced: true }), "$0.0312");
  assertEquals(dollars(1234.5), "$1,234.50");
});

Deno.test("durations have their two greatest units", () => {
  assertEquals([14, 999, 1_000, 61_000, 3_600_000, 90_061_000].map(duration), [
    "14 ms",
    "999 ms",
    "1 s",
    "1 min 1 s",
    "1 h",
    "1 d 1 h",
  ]);
  assertEquals(ago("2026-01-01T00:00:00Z", Date.UTC(2026, 0, 1, 2, 30)), "2 h ago");
});

Deno.test("repoName() leaves out what is no name, credentials first", () => {
  assertEquals(repoName("https://user:secret@example.com/o/r.git"), "example.com/o/r");
});

Deno.test("perDay() adds up the last days, and nothing that is older", () => {
  const now_ms = Date.UTC(2026, 5, 30, 12);
  const task = (created_at: string, usd: number) => ({ created_at, spend: { usd } });
  const days = perDay([
    task("2026-06-30T01:00:00Z", 1),
    task("2026-06-30T02:00:00Z", 2),
    task("2026-05-01T00:00:00Z", 9),
  ], now_ms);
  assertEquals(days.length, DAYS);
  assertEquals(days.at(-1), { date: "2026-06-30", usd: 3 });
  assert(days.slice(0, -1).every(({ usd }) => usd === 0));
});

Deno.test("laterSpend() takes the later of two figures, in whichever order they come", () => {
  const figures = (usd: number, requests: number, unmetered_requests = 0, input_tokens = 10) => ({
    ...{ usd, requests, unmetered_requests, input_tokens, output_tokens: 1 },
  });
  for (
    const [earlier, later] of [
      [figures(0.01, 1), figures(0.02, 2)],
      // One was taken back that had begun, another was settled.
      [figures(0.01, 3), figures(0.02, 2)],
      [figures(0, 1, 0), figures(0, 1, 1)],
      [figures(0, 1, 0, 10), figures(0, 1, 0, 20)],
      [figures(0.01, 1), figures(0.01, 2)],
    ] as const
  ) {
    assertEquals(laterSpend(earlier, later), later);
    assertEquals(laterSpend(later, earlier), later);
  }
  assertEquals(laterSpend(undefined, figures(0, 0)), figures(0, 0));
});

Deno.test("opening() is the first line, and says when that is not all", () => {
  for (const whole of ["Fix the test", "x".repeat(160)]) assertEquals(opening(`${whole}\n`), whole);
  assertEquals(opening("Fix the test\n\nIt fails on Mondays."), "Fix the test ...");
  assertEquals(opening(`${"word ".repeat(32)}and more`), `${"word ".repeat(32).trimEnd()} ...`);
});

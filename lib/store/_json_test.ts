import { assertEquals, assertThrows } from "@std/assert";
import { parseStoredJson } from "./_json.ts";

Deno.test("parseStoredJson() refuses brackets nested without end, closed or not, in small time", () => {
  const deep = "[".repeat(2_000_000);
  for (const text of [deep, deep + "]".repeat(2_000_000), `{"a":`.repeat(1_000_000), `{"ref":${deep}}`]) {
    assertThrows(() => parseStoredJson(text), SyntaxError, "deep");
  }
});

Deno.test("parseStoredJson() takes long texts, brackets in strings and escaped quotes as they are", () => {
  const value = {
    list: Array.from({ length: 20_000 }, (_, n) => ({ n, of: [{}] })),
    brackets: "[{".repeat(50_000),
    escaped: `"\\"[[${"[".repeat(200)}\\\\`,
    after: { a: [[[[1]]]] },
  };
  assertEquals(parseStoredJson(JSON.stringify(value)), value);
  assertThrows(() => parseStoredJson(" ".repeat(70_000) + "["), SyntaxError);
});

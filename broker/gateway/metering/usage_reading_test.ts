import { assertEquals } from "@std/assert";
import { writtenBytes } from "./usage_reading.ts";

Deno.test("the bytes of a piece are those of its texts, however deep it is nested", () => {
  const piece = { type: "text_delta", text: "é", parts: [{ id: "call_1", args: { path: "ab" } }, null, 7] };
  assertEquals(writtenBytes(piece), 4);
  const depth = 100_000;
  const deep = (inner: string) => JSON.parse(`${'{"a":['.repeat(depth)}${inner}${"]}".repeat(depth)}`);
  assertEquals(writtenBytes(deep('"abc"')), 3);
});

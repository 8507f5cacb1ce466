import { assertEquals } from "@std/assert";
import fc from "../tests/packages/fast_check.ts";
import { LongText } from "./long_text.ts";

Deno.test("a long text is its parts in their order, and is forgotten once it is taken", () => {
  const text = new LongText();
  fc.assert(fc.property(fc.array(fc.string({ maxLength: 3 }), { maxLength: 100 }), fc.nat(5_000), (parts, many) => {
    const all = [...parts, ...Array.from({ length: many }, (_, at) => String(at % 10)), ...parts];
    for (const part of all) text.push(part);
    assertEquals(text.length, all.join("").length);
    assertEquals(text.take(), all.join(""));
    assertEquals([text.length, text.take()], [0, ""]);
  }));
});

import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { hideSecrets } from "../../lib/text/secrets.ts";
import { Redactor } from "./redact.ts";

const SECRET = "sk-aab-aab";

function pass(text: string, cuts: readonly number[], secrets: readonly string[] = [SECRET]): string {
  const bytes = new TextEncoder().encode(text);
  const redactor = new Redactor(secrets);
  const out: number[] = [];
  let from = 0;
  for (const end of [...cuts.map((cut) => Math.floor(cut * bytes.length)).sort((a, b) => a - b), bytes.length]) {
    out.push(...redactor.push(bytes.slice(from, end)));
    from = end;
  }
  out.push(...redactor.end());
  return new TextDecoder().decode(new Uint8Array(out));
}

Deno.test("a secret never passes, however the bytes are cut, and the length stays", () => {
  const part = fc.oneof(fc.string(), fc.constant(SECRET), fc.constantFrom("sk-", "sk-aab-", "aab", "s"));
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
  fc.assert(
    fc.property(fc.array(part), fractions, (parts, cuts) => {
      const text = parts.join("");
      const passed = pass(text, cuts);
      assert(!passed.includes(SECRET));
      assertEquals(new TextEncoder().encode(passed).length, new TextEncoder().encode(text).length);
      if (!text.includes(SECRET)) assertEquals(passed, text);
    }),
    { numRuns: 500 },
  );
});

Deno.test("only what could begin a secret is held back", () => {
  const redactor = new Redactor([SECRET]);
  const push = (text: string) => new TextDecoder().decode(redactor.push(new TextEncoder().encode(text)));
  assertEquals(push("hello sk-"), "hello ");
  assertEquals(push("not"), "sk-not");
  assertEquals(push("data\n\n"), "data\n\n");
  assertEquals(new Redactor([""]).text("x"), "x");
});

Deno.test("secrets that overlap pass in no part, however the bytes are cut", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 24 });
  const secrets = fc.array(text.map((each) => each.slice(0, 5)), { maxLength: 4 });
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 });
  fc.assert(
    fc.property(text, secrets, fractions, (sent, hidden, cuts) => {
      assertEquals(pass(sent, cuts, hidden), hideSecrets(sent, hidden, (part) => "*".repeat(part.length)));
    }),
    { numRuns: 500 },
  );
});

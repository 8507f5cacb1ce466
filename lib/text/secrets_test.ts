import { assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { hideSecrets } from "./secrets.ts";

Deno.test("hideSecrets() hides a secret whole that begins with another or overlaps it", () => {
  assertEquals(hideSecrets("x abcdefghSECRETTAIL y", ["abcdefgh", "abcdefghSECRETTAIL"]), "x *** y");
  assertEquals(hideSecrets("abcdefghij abcdefgh", ["abcdefgh", "ghij"]), "*** ***");
  assertEquals(hideSecrets("ababa b", ["aba", ""]), "*** b");
});

Deno.test("hideSecrets() hides every character of any set of secrets, and no other", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 24 });
  fc.assert(fc.property(text, fc.array(text.map((each) => each.slice(0, 5)), { maxLength: 5 }), (shown, secrets) => {
    const hidden = [...shown];
    for (const secret of secrets) {
      for (let at = 0; at < shown.length; at++) {
        if (secret !== "" && shown.startsWith(secret, at)) hidden.fill("*", at, at + secret.length);
      }
    }
    assertEquals(hideSecrets(shown, secrets, (part) => "*".repeat(part.length)), hidden.join(""));
    assertEquals(hideSecrets(shown, secrets.toReversed()), hideSecrets(shown, secrets));
  }));
});

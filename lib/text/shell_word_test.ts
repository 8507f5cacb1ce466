import { assertEquals } from "@std/assert";
import { shellWord } from "./shell_word.ts";

Deno.test("shellWord() quotes a word that a shell would read otherwise, and no other", () => {
  for (const word of ["/home/me/.taskd/config.yaml", "a=b,c", "x@y:1", "100%"]) assertEquals(shellWord(word), word);
  assertEquals(shellWord(""), "''");
  assertEquals(shellWord("~/x"), "'~/x'");
  assertEquals(shellWord("$(id) it's"), "'$(id) it'\\''s'");
});

import { assertEquals } from "@std/assert";
import { parseJson } from "./json.ts";

Deno.test("parseJson() reads text and bytes, and returns undefined for anything else", () => {
  assertEquals(parseJson('{"a":[1,null]}'), { a: [1, null] });
  assertEquals(parseJson(new TextEncoder().encode('"é"')), "é");
  for (const text of ["", "{", "undefined", "{'a':1}"]) assertEquals(parseJson(text), undefined);
  assertEquals(parseJson("null"), null);
});

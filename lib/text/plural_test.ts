import { assertEquals } from "@std/assert";
import { plural } from "./plural.ts";

Deno.test("a count of one takes the noun as it is, every other its plural", () => {
  assertEquals([0, 1, 2].map((count) => plural(count, "check")), ["0 checks", "1 check", "2 checks"]);
  assertEquals(["branch", "match", "entry", "key", "row"].map((noun) => plural(2, noun)), [
    "2 branches",
    "2 matches",
    "2 entries",
    "2 keys",
    "2 rows",
  ]);
  assertEquals(plural(1, "entry"), "1 entry");
});

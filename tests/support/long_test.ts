import { assert, assertEquals } from "@std/assert";
import { LONG, longTest, scaled, scaledTest, shortened } from "./long.ts";

const CASES = Array.from({ length: 30 }, (_, index) => index);

scaledTest("shortened() draws the same cases each time, in their order, and all in the long suite", () => {
  const drawn = shortened(CASES, 5);
  assertEquals(drawn.length, LONG ? 30 : 5);
  assertEquals(drawn, shortened(CASES, 5));
  assertEquals(drawn, [...new Set(drawn)].sort((a, b) => a - b));
  assertEquals(shortened([1, 2], 5), [1, 2]);
  assertEquals(scaled({ short: 1, long: 2 }), LONG ? 2 : 1);
  assert((LONG ? [2, 3] : [1]).includes(scaled({ short: 1, long: 2, longest: 3 })));
});

longTest("a long test runs in the long suite alone", () => assert(LONG));

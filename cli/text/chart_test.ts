import { assertEquals } from "@std/assert";
import { bar, sparkline } from "./chart.ts";

Deno.test("a bar is as long as its share, and anything above zero shows", () => {
  assertEquals(bar(10, 10, 4), "████");
  assertEquals(bar(5, 10, 4), "██");
  assertEquals(bar(0.001, 10, 4), "▏");
  assertEquals([bar(0, 10, 4), bar(-1, 10, 4), bar(1, 0, 4), bar(Number.NaN, 1, 4)], ["", "", "", ""]);
  assertEquals(bar(99, 10, 4), "████");
});

Deno.test("a sparkline has one character for each value, the highest at the top and zero as a gap", () => {
  assertEquals(sparkline([0, 1, 4, 8, 8]), " ▁▄██");
  assertEquals(sparkline([]), "");
  assertEquals(sparkline([0, 0]), "  ");
});

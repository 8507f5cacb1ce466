import { assertEquals } from "@std/assert";
import { outputBound } from "./shapes.ts";

Deno.test("a limit of 0 or less bounds nothing, and of several the largest counts", () => {
  for (
    const [limits, answers, max_output, asked] of [
      [[100], undefined, 100, 1],
      [[100, 200], 3, 200, 3],
      [[-1], 4, undefined, 4],
      [[0], 4, undefined, 4],
      [[-1, 100], 1, undefined, 1],
      [[-1], -1, undefined, 1],
      [[undefined], 5, undefined, 5],
      [[100], -7, 100, 1],
      [[], undefined, undefined, 1],
    ] as const
  ) assertEquals(outputBound(limits, answers), { max_output, answers: asked });
});

import { assertEquals } from "@std/assert";
import { beyondLimits } from "./json_marks.ts";

const LIMITS = { max_marks: 6, max_depth: 2 };

Deno.test("what begins a value is counted, outside of strings, and how deep it is", () => {
  for (
    const [text, found] of [
      ['{"a":[1,2,3]}', undefined],
      ['{"a":[1,2,3],"b":4}', "marks"],
      ["[{},{},{}]", undefined],
      ["[{},{},{},", "marks"],
      ["[[[", "depth"],
      ["[[],[],[]]", undefined],
      ['["[[[,,,,,,{:", "\\\\\\"[[["]', undefined],
      ['["[[[\\\\", [[', "depth"],
      ["]]]]", undefined],
      ['"open,,,,,,,', undefined],
      ["", undefined],
    ] as const
  ) assertEquals([text, beyondLimits(text, LIMITS)], [text, found]);
});

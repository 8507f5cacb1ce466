import { assertEquals } from "@std/assert";
import * as v from "valibot";
import { SUBMIT_REQUEST } from "../task/schema.ts";

Deno.test("an instruction that no program could be started with is refused when it is submitted", () => {
  const takes = (instruction: string) => v.is(SUBMIT_REQUEST, { repo: "example.com/o/r", instruction });
  assertEquals(["x".repeat(100_000), "x".repeat(100_001)].map(takes), [true, false]);
  // Three bytes each: 114,000 and 150,000 of them.
  assertEquals(["€".repeat(38_000), "€".repeat(50_000)].map(takes), [true, false]);
});

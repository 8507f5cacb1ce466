import { assertEquals, assertThrows } from "@std/assert";
import { BodyMemory, MAX_BODY_BYTES, MAX_HELD_BYTES } from "./body.ts";
import { Refusal } from "./refusal.ts";

Deno.test("the bodies of all tasks together are bounded, and released memory can be reserved again", () => {
  const memory = new BodyMemory();
  for (let held = 0; held < MAX_HELD_BYTES; held += MAX_BODY_BYTES) memory.reserve(MAX_BODY_BYTES);
  assertEquals(assertThrows(() => memory.reserve(1), Refusal).status, 503);
  memory.release(MAX_BODY_BYTES);
  memory.reserve(MAX_BODY_BYTES);
  assertThrows(() => memory.reserve(1), Refusal);
});

import { assertEquals, assertThrows } from "@std/assert";
import { BodyRoom, MAX_BODY_BYTES, MAX_HELD_BYTES } from "./body.ts";
import { Refusal } from "./refusal.ts";

Deno.test("the bodies of all tasks together are bounded, and released room can be taken again", () => {
  const room = new BodyRoom();
  for (let held = 0; held < MAX_HELD_BYTES; held += MAX_BODY_BYTES) room.take(MAX_BODY_BYTES);
  assertEquals(assertThrows(() => room.take(1), Refusal).status, 503);
  room.give(MAX_BODY_BYTES);
  room.take(MAX_BODY_BYTES);
  assertThrows(() => room.take(1), Refusal);
});

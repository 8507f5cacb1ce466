import { assertEquals, assertThrows } from "@std/assert";
import { Refusal } from "./refusal.ts";
import { SharedMemory } from "./shared_memory.ts";

Deno.test("a task holds a quarter of the memory at most, all together no more than there is", () => {
  const memory = new SharedMemory(400, "requests");
  const shares = Array.from({ length: 5 }, () => memory.share());
  const [first, , , , fifth] = shares;
  for (const share of shares.slice(0, 4)) {
    share.reserve(60);
    share.reserve(40);
    const refusal = assertThrows(() => share.reserve(1), Refusal, "The task has");
    assertEquals(refusal.answer().status, 503);
  }
  assertThrows(() => fifth!.reserve(1), Refusal, "All tasks together");
  first!.release(40);
  fifth!.reserve(40);
  assertThrows(() => first!.reserve(1), Refusal, "All tasks together");
});

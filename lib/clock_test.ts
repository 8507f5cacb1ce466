import { assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "./clock.ts";

Deno.test("a sleep of more days than a timer can count lasts until it is ended", async () => {
  const stop = new AbortController();
  const asleep = systemClock.sleep(30 * 86_400_000, stop.signal);
  let over = false;
  asleep.then(() => over = true, () => {});
  // Timers go off in the order of their times: one that was too long for the runtime goes off before this one.
  await systemClock.sleep(20);
  assertEquals(over, false);
  stop.abort(new Error("enough"));
  await assertRejects(() => asleep, Error, "enough");
});

import { assert, assertEquals } from "@std/assert";
import { withSleep } from "./suspend_aware_clock.ts";

Deno.test("time goes on to the millisecond, counts what the machine slept, and never runs ahead", () => {
  let awake_ms = 5_700;
  let asleep_ms = 0;
  const monotonic = withSleep(() => awake_ms, () => Math.floor((123_400 + awake_ms + asleep_ms) / 1_000));
  const begun = monotonic();
  let before = begun;
  for (let i = 0; i < 5_000; i++) {
    awake_ms += 37;
    if (i === 2_000 || i === 3_000) asleep_ms += 3_600_000;
    const passed = monotonic() - begun;
    const real = awake_ms - 5_700 + asleep_ms;
    assert(monotonic() >= before && passed <= real && real - passed <= 3_000, `${passed} of ${real}`);
    before = monotonic();
  }
  assertEquals(asleep_ms, 7_200_000);
});

Deno.test("without the permission to ask for the uptime, sleep is not counted", () => {
  const refused = () => {
    throw new Deno.errors.NotCapable("uptime");
  };
  assertEquals(withSleep(() => 42, refused)(), 42);
});

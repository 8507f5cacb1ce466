import { assertEquals } from "@std/assert";
import { VirtualClock } from "../tests/support/clock.ts";
import { nextTurn } from "./clock.ts";
import { MovingDeadlines, TICK_MS } from "./moving_deadlines.ts";

Deno.test("a deadline fires once, at its time, unless it is moved or cleared", async () => {
  const clock = new VirtualClock();
  const deadlines = new MovingDeadlines(clock);
  const fired: string[] = [];
  const [moved, cleared, kept] = [deadlines.create(), deadlines.create(), deadlines.create()];
  moved.set(1000, () => fired.push("never"));
  cleared.set(1000, () => fired.push("never"));
  kept.set(2 * TICK_MS, () => fired.push("kept"));
  moved.set(3000, () => fired.push("moved"));
  cleared.clear();
  const pass = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += TICK_MS) {
      clock.advance(TICK_MS);
      await nextTurn();
    }
  };
  await pass(TICK_MS);
  assertEquals(fired, []);
  await pass(2000);
  assertEquals(fired, ["kept"]);
  await pass(2000);
  assertEquals(fired, ["kept", "moved"]);

  kept.set(TICK_MS, () => fired.push("again"));
  await pass(TICK_MS);
  assertEquals(fired.at(-1), "again", "the ticker wakes up again");
  kept.set(TICK_MS, () => fired.push("never"));
  deadlines.close();
  await pass(1000);
  assertEquals(fired.at(-1), "again");
});

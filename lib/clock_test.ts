import { assert, assertEquals, assertRejects } from "@std/assert";
import process from "node:process";
import { countHeld } from "../tests/support/held_objects.ts";
import { systemClock } from "./clock.ts";

Deno.test("of those who sleep until the same moment one that is woken leaves the others asleep", async () => {
  const woken: string[] = [];
  const sleep = (name: string, ms: number, signal?: AbortSignal) =>
    systemClock.sleep(ms, signal).then(() => woken.push(name), () => woken.push(`${name}, early`));
  const stops = [new AbortController(), new AbortController(), new AbortController()] as const;
  // Started together, so some of them share a timer.
  const asleep = [
    sleep("long", 60_000, stops[2].signal),
    ...stops.slice(0, 2).map((stop, index) => sleep(`stopped ${index}`, 30, stop.signal)),
    sleep("first", 30),
    sleep("second", 30),
    sleep("soon", 5),
  ];
  stops[1].abort();
  stops[0].abort();
  await Promise.all(asleep.slice(1));
  assertEquals(woken, ["stopped 1, early", "stopped 0, early", "soon", "first", "second"]);
  stops[2].abort();
  await asleep[0];
  assertEquals(woken.at(-1), "long, early");
});

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

Deno.test("a sleep that is over before it begins causes no warning", async () => {
  const warned: string[] = [];
  const listen = ({ name }: Error) => warned.push(name);
  process.on("warning", listen);
  await systemClock.sleep(-5);
  // The runtime emits a warning after what caused it.
  await systemClock.sleep(1);
  process.off("warning", listen);
  assertEquals(warned, []);
});

Deno.test("a signal is not held by those that it follows once a sleep by it is over", async () => {
  const long = new AbortController();
  const signals: WeakRef<AbortSignal>[] = [];
  for (let i = 0; i < 20; i++) {
    const signal = AbortSignal.any([long.signal, new AbortController().signal]);
    signals.push(new WeakRef(signal));
    await systemClock.sleep(0, signal);
  }
  const held = await countHeld(signals);
  assert(held <= 1, `${held} of ${signals.length} signals are held`);
  const sleeping = systemClock.sleep(1_000_000, AbortSignal.any([long.signal]));
  long.abort(new Error("over"));
  await assertRejects(() => sleeping, Error, "over");
});

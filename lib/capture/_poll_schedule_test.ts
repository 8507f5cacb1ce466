import { assert, assertEquals } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { PollSchedule } from "./_poll_schedule.ts";

Deno.test("polls are frequent while commits arrive and rare when none do", () => {
  const clock = new VirtualClock();
  const schedule = new PollSchedule(clock);
  const looks = (saw: boolean, count: number) => {
    for (let i = 0; i < count; i++) {
      clock.advance(schedule.delay_ms);
      schedule.polled(saw, 0);
    }
    return schedule.delay_ms;
  };
  // A lag has to end within 100 ms of a burst.
  assert(looks(true, 20) < 50);
  assert(looks(false, 200) >= 250);
  assert(looks(true, 1) < 50);
});

Deno.test("idle sessions of one thread end up polling at the same moments", () => {
  const clock = new VirtualClock();
  const sessions = [0, 7, 23, 81, 288].map((later_ms) => {
    clock.advance(later_ms);
    return { schedule: new PollSchedule(clock), due_ms: clock.monotonic(), looks_ms: [] as number[] };
  });
  const settled_ms = clock.monotonic() + 6_000;
  while (clock.monotonic() < settled_ms + 6_000) {
    clock.advance(1);
    const now_ms = clock.monotonic();
    for (const session of sessions) {
      if (session.due_ms > now_ms) continue;
      session.schedule.polled(false, 0);
      session.due_ms = now_ms + session.schedule.delay_ms;
      if (now_ms > settled_ms) session.looks_ms.push(now_ms);
    }
  }
  assertEquals(sessions[0]!.looks_ms.length, 15);
  for (const { looks_ms } of sessions) assertEquals(looks_ms, sessions[0]!.looks_ms);
});

Deno.test("a look that takes long is paid for by a long pause", () => {
  const clock = new VirtualClock();
  const schedule = new PollSchedule(clock);
  schedule.polled(true, 500);
  assert(schedule.delay_ms >= 1500, `${schedule.delay_ms}`);
});

Deno.test("the log is folded when it is large or traffic is over, never when it is empty", () => {
  const clock = new VirtualClock();
  const schedule = new PollSchedule(clock);
  schedule.polled(true, 0);
  assertEquals([schedule.takeoverDue(0), schedule.takeoverDue(4096), schedule.takeoverDue(1 << 30)], [
    false,
    false,
    true,
  ]);
  clock.advance(1_000);
  assertEquals([schedule.takeoverDue(0), schedule.takeoverDue(4096)], [false, true]);
  // Not over what is not stored yet, unless there is much of it.
  assertEquals([schedule.takeoverDue(4096, false), schedule.takeoverDue(1 << 30, false)], [false, true]);
});

Deno.test("a blocked takeover is retried at growing intervals until it succeeds", () => {
  const clock = new VirtualClock();
  const schedule = new PollSchedule(clock);
  clock.advance(10_000);
  const pauses: number[] = [];
  for (let tries = 0; tries < 12; tries++) {
    schedule.tookOver(false);
    const began = clock.monotonic();
    while (!schedule.takeoverDue(4096)) clock.advance(10);
    pauses.push(clock.monotonic() - began);
  }
  assertEquals(schedule.blocked, 12);
  assert(pauses[0]! < 1_000);
  assertEquals(pauses, [...pauses].sort((a, b) => a - b));
  assertEquals(pauses.at(-1), 10_000);
  schedule.tookOver(true);
  assertEquals(schedule.blocked, 0);
  assert(schedule.takeoverDue(4096));
});

Deno.test("a session is in the way of several checkpoints that waited for it, later of one", () => {
  const clock = new VirtualClock();
  const schedule = new PollSchedule(clock);
  let let_through = 0;
  const looks = (checkpoints: number, every_ms: number) =>
    Array.from({ length: checkpoints }, () => {
      clock.advance(every_ms);
      return schedule.inTheWay(++let_through);
    });
  // One a second costs an application next to nothing.
  assertEquals(looks(30, 1_000).includes(true), false);
  clock.advance(2_000);
  assertEquals(looks(8, 20), [false, false, false, false, false, false, false, true]);
  assertEquals(looks(1, 30_000), [true]);
  assertEquals(schedule.inTheWay(let_through), true);
  clock.advance(2_000);
  assertEquals(schedule.inTheWay(let_through), false);
  assertEquals(looks(1, 70_000), [false]);
});

Deno.test("a poll soon follows one that a checkpoint may wait for, but not without end", () => {
  const clock = new VirtualClock();
  const schedule = new PollSchedule(clock);
  schedule.polled(true, 0, true);
  assertEquals(schedule.delay_ms, 1);
  let polls = 0;
  for (; schedule.delay_ms === 1; polls++) schedule.polled(false, 0, true);
  assert(polls < 30);
});

import { assert, assertEquals, assertThrows } from "@std/assert";
import * as fc from "../../tests/packages/fast_check.ts";
import { TaskdError } from "../errors.ts";
import {
  DAY_MS,
  DEFAULT_LEVELS,
  DEFAULT_LEVELS_TEXT,
  formatLevels,
  HOUR_MS,
  type KeepLevel,
  parseLevels,
  retained,
} from "./retention.ts";

const duration = fc.integer({ min: 1, max: 5000 });
const level = fc.record({ every_ms: fc.oneof(fc.constant(0), duration), for_ms: duration });
const levels = fc.array(level, { maxLength: 4 });
/** Newest first; a clock may be set back. */
const log = fc.array(fc.integer({ min: 0, max: 10_000 }), { maxLength: 60 }).map((times) =>
  times.map((at_ms, index) => ({ at_ms, id: times.length - index }))
);

/** Milliseconds since each was written, where none is older than those before it. */
function agesOf(points: readonly { at_ms: number }[], now_ms: number): number[] {
  return points.map((_, index) => now_ms - Math.max(...points.slice(index).map(({ at_ms }) => at_ms)));
}

Deno.test("levels are read as they are written", () => {
  assertEquals(parseLevels(DEFAULT_LEVELS_TEXT), [...DEFAULT_LEVELS]);
  assertEquals(parseLevels("none"), []);
  assertEquals(parseLevels("90m,1m:12h"), [{ every_ms: 0, for_ms: 90 * 60_000 }, {
    every_ms: 60_000,
    for_ms: HOUR_MS * 12,
  }]);
  fc.assert(fc.property(levels, (levels) => assertEquals(parseLevels(formatLevels(levels)), levels)));
  for (const text of ["", "1d,", "1d:", ":1d", "1h:2h:3h", "1x", "0", "1h:0", "1d 1h", Array(9).fill("1d").join()]) {
    assertThrows(() => parseLevels(text), TaskdError, "Cannot parse", text);
  }
});

Deno.test("by default a day is kept whole, a week by its hours and a month by its days", () => {
  const now_ms = 400 * DAY_MS;
  const points = Array.from({ length: 40 * 24 * 60 }, (_, minute) => ({ at_ms: now_ms - 60_000 * minute }));
  const kept = retained(points, DEFAULT_LEVELS, points.map(({ at_ms }) => now_ms - at_ms));
  const ages = kept.map(({ at_ms }) => now_ms - at_ms);
  const within = (from_ms: number, to_ms: number) => ages.filter((age) => age >= from_ms && age < to_ms).length;
  assertEquals(within(0, DAY_MS), 24 * 60);
  assertEquals(within(DAY_MS, 7 * DAY_MS), 6 * 24);
  assertEquals(within(7 * DAY_MS, 30 * DAY_MS), 23);
  assertEquals(within(30 * DAY_MS, Infinity), 0);
});

Deno.test("what a level keeps is the first point of a span that has not ended, and no other", () =>
  fc.assert(
    fc.property(log, levels, fc.integer({ min: 0, max: 20_000 }), (log, levels, now_ms) => {
      const points = log.toSorted((a, b) => b.at_ms - a.at_ms);
      const kept = new Set(retained(points, levels, agesOf(points, now_ms)));
      const spanOf = (at_ms: number, { every_ms }: KeepLevel) => Math.floor(at_ms / every_ms);
      for (const [index, point] of points.entries()) {
        const claims = levels.some((level) => {
          if (level.every_ms === 0) return point.at_ms + level.for_ms > now_ms;
          const span = spanOf(point.at_ms, level);
          const first = !points.slice(index + 1).some(({ at_ms }) => spanOf(at_ms, level) === span);
          return first && span * level.every_ms + level.for_ms > now_ms;
        });
        assertEquals(kept.has(point), claims);
      }
    }),
  ));

Deno.test("a clock that is set back costs no hour its point", () => {
  const level = [{ every_ms: HOUR_MS, for_ms: 7 * DAY_MS }];
  // Four hours by a clock that is set back by two in the middle, a point each half hour; newest first.
  const shown = [10, 10.5, 11, 11.5, 10, 10.5, 11, 11.5].map((hour) => ({ at_ms: hour * HOUR_MS })).reverse();
  const kept = retained(shown, level, shown.map((_, index) => index * HOUR_MS / 2));
  assertEquals(kept.map(({ at_ms }) => at_ms / HOUR_MS), [11, 10, 11, 10]);
});

Deno.test("dropping what is not kept, however often, changes nothing about what is kept later", () =>
  fc.assert(
    fc.property(log, levels, fc.array(fc.integer({ min: 0, max: 3000 }), { maxLength: 6 }), (points, levels, waits) => {
      let left = points;
      let now_ms = 0;
      for (const wait_ms of waits) {
        now_ms += wait_ms;
        const ages = agesOf(points, now_ms);
        left = retained(left, levels, left.map((point) => ages[points.indexOf(point)]!));
        assertEquals(left, retained(points, levels, ages));
      }
    }),
  ));

Deno.test("more levels and an earlier look keep more", () =>
  fc.assert(
    fc.property(log, levels, level, fc.nat(10_000), fc.nat(10_000), (points, levels, more, now_ms, later_ms) => {
      const kept = new Set(retained(points, [...levels, more], agesOf(points, now_ms)));
      for (const point of retained(points, levels, agesOf(points, now_ms + later_ms))) assert(kept.has(point));
    }),
  ));

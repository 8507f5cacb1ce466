/**
 * Which points of a branch are kept, and for how long: by levels, each of which keeps one point of every so much time
 * until so long. A pure decision on what the branch's log says.
 */

import { TaskdError } from "../errors.ts";
import { parseDuration } from "../text/duration.ts";

/** One of the levels by which points of the past are kept. */
export interface KeepLevel {
  /** Keeps the first point of every so many milliseconds of time since 1970; 0: all points. */
  every_ms: number;
  /** For so many milliseconds after that began. */
  for_ms: number;
}

export const HOUR_MS = 3_600_000;
export const DAY_MS = 24 * HOUR_MS;

/** All points for a day, one of each hour for a week, one of each day for a month. */
export const DEFAULT_LEVELS: readonly KeepLevel[] = [
  { every_ms: 0, for_ms: DAY_MS },
  { every_ms: HOUR_MS, for_ms: 7 * DAY_MS },
  { every_ms: DAY_MS, for_ms: 30 * DAY_MS },
];

/** What a person writes for {@linkcode DEFAULT_LEVELS}. */
export const DEFAULT_LEVELS_TEXT = "1d,1h:7d,1d:30d";

const MAX_LEVELS = 8;

/**
 * Reads `1d,1h:7d`: all points for a day, one of each hour for a week; `none` keeps no points.
 *
 * @throws {TaskdError} `usage`, naming what was not expected.
 *
 * @example
 * ```ts
 * import { parseLevels } from "@taskd/taskd";
 *
 * console.log(parseLevels("1h,1m:1d")[1]); // { every_ms: 60000, for_ms: 86400000 }
 * ```
 */
export function parseLevels(text: string): KeepLevel[] {
  if (text === "none") return [];
  const parts = text.split(",");
  if (parts.length > MAX_LEVELS) throw refused(text, `there are more than ${MAX_LEVELS}`);
  return parts.map((part) => {
    const [first = "", second, more] = part.split(":");
    if (more !== undefined) throw refused(text, `${JSON.stringify(part)} has two colons`);
    const level = second === undefined
      ? { every_ms: 0, for_ms: parseDuration(first) }
      : { every_ms: parseDuration(first), for_ms: parseDuration(second) };
    if (level.for_ms === 0) throw refused(text, `${JSON.stringify(part)} keeps nothing`);
    return level;
  });
}

function refused(text: string, why: string): TaskdError {
  return new TaskdError("usage", `Cannot parse the levels ${JSON.stringify(text.slice(0, 64))}: ${why}`, {
    hint:
      `Write none, or how long all points are kept, then how often and how long one of them: ${DEFAULT_LEVELS_TEXT}`,
  });
}

/** What {@linkcode parseLevels} reads as these levels. */
export function formatLevels(levels: readonly KeepLevel[]): string {
  const text = ({ every_ms, for_ms }: KeepLevel) =>
    every_ms === 0 ? exact(for_ms) : `${exact(every_ms)}:${exact(for_ms)}`;
  return levels.length === 0 ? "none" : levels.map(text).join(",");
}

/** The field of an answer that says how long the points of a branch are kept; absent where that is the store's. */
export function keepField({ keep }: { keep?: readonly KeepLevel[] }): { keep?: string } {
  return keep === undefined ? {} : { keep: formatLevels(keep) };
}

function exact(ms: number): string {
  const units = [["d", DAY_MS], ["h", HOUR_MS], ["m", 60_000], ["s", 1000]] as const;
  const [unit, size] = units.find(([, size]) => ms % size === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}

/**
 * The points that some level keeps, in the order of `points`, which is newest first, as a log is. A level keeps
 * the first point of each span and not the last: what is kept is then certain as soon as it is there, and asking again
 * later, of what was kept, has the same answer as asking all. A clock that was set back shows a span once more: that is
 * another one, with a first point of its own.
 *
 * @param ages Milliseconds since each point was written.
 */
export function retained<P extends { at_ms: number }>(
  points: readonly P[],
  levels: readonly KeepLevel[],
  ages: readonly number[],
): P[] {
  const kept = new Set<P>();
  for (const { every_ms, for_ms } of levels) {
    let before_ms: number | undefined;
    let age_ms = Infinity;
    for (let index = points.length - 1; index >= 0; index--) {
      const point = points[index]!;
      const since_ms = every_ms === 0 ? point.at_ms : Math.floor(point.at_ms / every_ms) * every_ms;
      if (every_ms > 0 && since_ms === before_ms) continue;
      before_ms = since_ms;
      // By the span's age and not by its own: all of a span end together, so that none takes the place of the first. None
      // ends before an older one, so that two showings of one span stay apart.
      age_ms = Math.min(age_ms, ages[index]! + point.at_ms - since_ms);
      if (age_ms < for_ms) kept.add(point);
    }
  }
  return points.filter((point) => kept.has(point));
}

/**
 * How folded points lie: what each of them follows, so that none is far from a snapshot, what costs much is shared by
 * many, and what is kept for long needs nothing that goes before it. A pure decision on the points of a branch.
 *
 * The calendar is the scale. The first point of a day follows that of an earlier day of the same 32, the first of an hour
 * that of an earlier hour of the same day, and any other one the first of its hour. Among its like each follows the one
 * whose number is its own without the lowest binary one, so that no way back has more steps than the number has ones: at
 * most 5 for days and 4 for hours. 32 days have one snapshot.
 */

import { DAY_MS, HOUR_MS } from "./retention.ts";
import type { LoggedPoint } from "./point_log.ts";

/** Objects from a folded point back to its snapshot, both included, at most. */
export const MAX_FOLDED_CHAIN = 16;
/** Points folded in one go. */
export const MAX_RUN = 64;
/** Days that share a snapshot. */
const SPAN_DAYS = 32;
/** Within a run each point follows the one whose number lacks its lowest digit but zero, in this base. */
const RUN_BASE = 4;

type Placed = Pick<LoggedPoint, "txid" | "at_ms">;

const hourOf = ({ at_ms }: Placed) => Math.floor(at_ms / HOUR_MS);
const dayOf = ({ at_ms }: Placed) => Math.floor(at_ms / DAY_MS);
const spanOf = (point: Placed) => Math.floor(dayOf(point) / SPAN_DAYS);

/**
 * The points that `point` may follow, the best one first; none where it needs a snapshot of its own. `folded` are those
 * before it, the oldest first. Transactions count upwards along a chain, so after a rollback some are out of the question.
 */
export function parentsOf<P extends Placed>(point: Placed, folded: readonly P[]): P[] {
  const span = folded.filter((each) => spanOf(each) === spanOf(point) && each.txid < point.txid);
  const ofDay = (day: number) => span.find((each) => dayOf(each) === day);
  const ofHour = (hour: number) => span.find((each) => hourOf(each) === hour);
  const [day, hour] = [dayOf(point), hourOf(point)];
  const days = ofDay(day) ? [] : earlier(day % SPAN_DAYS).map((each) => ofDay(day - day % SPAN_DAYS + each));
  const hours = ofHour(hour) ? [] : earlier(hour % 24).map((each) => ofHour(hour - hour % 24 + each));
  const found = [ofHour(hour), ...hours, ofDay(day), ...days, span[0]].filter((each) => each !== undefined);
  return [...new Set(found)];
}

/** A number without its lowest one, then without the next, down to 0; nothing for 0. */
function earlier(number: number): number[] {
  const numbers: number[] = [];
  for (let left = number; left > 0;) numbers.push(left &= left - 1);
  return numbers;
}

/** The points that are folded together with the first, which is all that another can do without them. */
export function runOf<P extends Placed>(points: readonly P[]): P[] {
  const [first] = points;
  const end = points.findIndex((each, index) =>
    index > 0 && (index === MAX_RUN || hourOf(each) !== hourOf(first!) || each.txid <= points[index - 1]!.txid)
  );
  return end < 0 ? [...points] : points.slice(0, end);
}

/** Which point of its run the one with this number follows; undefined for the first, which follows none of them. */
export function parentInRun(number: number): number | undefined {
  if (number === 0) return undefined;
  let unit = 1;
  while (Math.floor(number / unit) % RUN_BASE === 0) unit *= RUN_BASE;
  return number - Math.floor(number / unit) % RUN_BASE * unit;
}

/** Objects of a run of so many points from the first one on, along the longest way. */
export function depthOfRun(count: number): number {
  let depth = 1;
  for (let reach = 1; reach < count; reach *= RUN_BASE) depth++;
  return depth;
}

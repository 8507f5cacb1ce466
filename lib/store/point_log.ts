/**
 * The points of a branch: where its head stood and since when, as the ref keeps it. A point is noted in the very
 * compare-and-swap that moves the head, so that the log names only what was committed, and costs no write of its own.
 */

import * as v from "../packages/valibot.ts";
import type { Txid } from "./names.ts";
import { hex } from "./records.ts";

/** A branch remembers so many points, ten bytes each: its ref is read and written whole. */
export const MAX_LOGGED = 1024;

/** Transactions and milliseconds after the step before, in the first one after 0, and the operation if it was no flush. */
type Step = readonly [txids: number, ms: number, op?: string];

/** Points in one lineage, oldest first. */
export interface LoggedSteps {
  /** Absent: that of the ref. */
  lineage?: string;
  steps: Step[];
}

const step = v.pipe(v.number(), v.safeInteger());

export const LoggedSchema: v.GenericSchema<unknown, LoggedSteps[]> = v.array(v.object({
  lineage: v.exactOptional(hex(32)),
  steps: v.array(v.union([v.strictTuple([step, step]), v.strictTuple([step, step, v.string()])])),
}));

/** From `at_ms` on the branch stood at `txid`. */
export interface LoggedPoint {
  lineage: string;
  txid: Txid;
  /** Milliseconds since 1970, by the writer's clock. */
  at_ms: number;
  /** What moved it there, when that was neither a flush nor a checkpoint. */
  op?: string;
}

/** What a point is noted of. */
interface Standing {
  lineage: string;
  txid: Txid;
  touched_at: string;
  base?: { digest?: string };
  origin?: unknown;
  points?: LoggedSteps[];
}

/**
 * The points of a branch, oldest first; the last one is its head. A branch that was never written to has none noted, and a
 * program that notes nothing may have moved the head since: then that is the point where it was touched last.
 */
export function loggedPoints(ref: Standing): LoggedPoint[] {
  const found = decode(ref);
  const { lineage, txid, touched_at, base, origin } = ref;
  const last = found.at(-1);
  if (last?.lineage === lineage && last.txid === txid) return found;
  const forked = base?.digest !== undefined || origin !== undefined;
  const point = { lineage, txid, at_ms: Date.parse(touched_at) };
  return [...found, !last && forked ? { ...point, op: "fork" } : point];
}

/**
 * `next` with the point noted to which it moves the head of `before`, if it does; `op` says what moves it to another
 * lineage. Its time is that of the touch.
 */
export function withPoint<R extends Standing>(before: Standing, next: R, op?: string): R {
  const { lineage, txid, touched_at } = next;
  if (lineage === before.lineage && txid === before.txid) return next;
  const points = loggedPoints(before);
  // Only a repair gives a branch another lineage and names no operation.
  const moved_by = op ?? (lineage === before.lineage ? undefined : "repair");
  points.push({ lineage, txid, at_ms: Date.parse(touched_at), ...(moved_by === undefined ? {} : { op: moved_by }) });
  return { ...next, points: encode(points.length > MAX_LOGGED ? thinned(points) : points, lineage) };
}

/** Every second flush of the older half goes: the farther back, the fewer points, and the time they span stays. */
function thinned(points: LoggedPoint[]): LoggedPoint[] {
  const half = points.length >> 1;
  const kept = points.filter(({ op }, index) => index >= half || index % 2 === 0 || op !== undefined);
  return kept.slice(-MAX_LOGGED);
}

function decode({ lineage, points = [] }: Standing): LoggedPoint[] {
  return points.flatMap((group) => {
    let [txid, at_ms] = [0, 0];
    return group.steps.map(([txids, ms, op]) => {
      txid += txids;
      at_ms += ms;
      return { lineage: group.lineage ?? lineage, txid, at_ms, ...(op === undefined ? {} : { op }) };
    });
  });
}

function encode(points: readonly LoggedPoint[], current: string): LoggedSteps[] {
  const groups: (LoggedSteps & { at: LoggedPoint })[] = [];
  for (const point of points) {
    let group = groups.at(-1);
    const { lineage, txid, at_ms, op } = point;
    const before = group?.at.lineage === lineage ? group.at : { txid: 0, at_ms: 0 };
    if (group?.at.lineage !== lineage) {
      groups.push(group = { ...(lineage === current ? {} : { lineage }), steps: [], at: point });
    }
    const [txids, ms] = [txid - before.txid, at_ms - before.at_ms];
    group!.steps.push(op === undefined ? [txids, ms] : [txids, ms, op]);
    group!.at = point;
  }
  return groups.map(({ at: _, ...group }) => group);
}

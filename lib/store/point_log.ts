/**
 * The points of a branch: where its head stood and since when, as the ref keeps it. A point is noted in the very
 * compare-and-swap that moves the head, so that the log names only what was committed, and costs no write of its own.
 */

import * as v from "../packages/valibot.ts";
import type { Txid } from "./names.ts";
import { count, hex } from "./records.ts";
import { DAY_MS, HOUR_MS, type KeepLevel, retained } from "./retention.ts";

/**
 * A branch remembers so much: its ref is read and written whole. All points of a day with a flush every 30 s, one of each
 * hour of a week and one of each day of a month are two thirds of it.
 */
export const MAX_LOG_CHARS = 64 << 10;
/** What a list of points in one lineage takes beside its steps. */
const GROUP_CHARS = 64;

/** What thinning spares as long as it can. */
const LONG_LEVELS: readonly KeepLevel[] = [{ every_ms: HOUR_MS, for_ms: Infinity }, {
  every_ms: DAY_MS,
  for_ms: Infinity,
}];

/** Points in one lineage. */
export interface LoggedSteps {
  /** Absent: that of the ref. */
  lineage?: string;
  /**
   * The newest point, its transaction and milliseconds since 1970; then, after commas, by how much each older one is
   * before the one that follows it. Behind a point is the operation, if it was neither flush nor checkpoint. This is a
   * text because most readers of a ref have no use for it.
   */
  steps: string;
  /** They have been folded into this lineage, see fold.ts; which of the branch's snapshots for that they go back to. */
  folded?: number;
}

export const LoggedSchema: v.GenericSchema<unknown, LoggedSteps[]> = v.array(v.object({
  lineage: v.exactOptional(hex(32)),
  steps: v.pipe(v.string(), v.regex(/^-?\d{1,15} -?\d{1,15}( [a-z-]+)?(,-?\d{1,15} -?\d{1,15}( [a-z-]+)?)*$/)),
  folded: v.exactOptional(count),
}));

/** From `at_ms` on the branch stood at `txid`. */
export interface LoggedPoint {
  lineage: string;
  txid: Txid;
  /** Milliseconds since 1970, by the writer's clock. */
  at_ms: number;
  /** What moved it there, when that was neither a flush nor a checkpoint; of a folded point also those. */
  op?: string;
  /** It is kept in a lineage of folded points, no longer where it was written; {@linkcode LoggedSteps.folded}. */
  folded?: number;
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
 * The points of a branch, newest first; the first one is its head. A branch that was never written to has none noted, and a
 * program that notes nothing may have moved the head since: then that is the point where it was touched last.
 */
export function loggedPoints(ref: Standing): LoggedPoint[] {
  return notedWithHead(ref).flatMap((group) => {
    let [txid, at_ms] = [0, 0];
    return group.steps.split(",").map((step, index) => {
      const [first, second, op] = step.split(" ");
      const sign = index === 0 ? 1 : -1;
      txid += sign * Number(first);
      at_ms += sign * Number(second);
      const point = { lineage: group.lineage ?? ref.lineage, txid, at_ms };
      return {
        ...point,
        ...(op === undefined ? {} : { op }),
        ...(group.folded === undefined ? {} : { folded: group.folded }),
      };
    });
  });
}

/**
 * `next` with the point noted to which it moves the head of `before`, if it does; `op` says what moves it to another
 * lineage. Its time is that of the touch.
 */
export function withPoint<R extends Standing>(before: Standing, next: R, op?: string): R {
  const { lineage, txid, touched_at } = next;
  const moved = lineage !== before.lineage;
  if (!moved && txid === before.txid) return next;
  const known = notedWithHead(before);
  const points = added(moved ? known.map((group) => ({ lineage: before.lineage, ...group })) : known, {
    txid,
    at_ms: Date.parse(touched_at),
    // Only a repair gives a branch another lineage and names no operation.
    op: op ?? (moved ? "repair" : undefined),
  });
  const chars = points.reduce((sum, { steps }) => sum + GROUP_CHARS + steps.length, 0);
  return { ...next, points: chars > MAX_LOG_CHARS ? thinned({ ...next, points }) : points };
}

/**
 * `ref` with `points`, newest first, in place of those that it has noted; its head, which has to be the first of them, is
 * noted in any case.
 */
export function withPoints<R extends Standing>(ref: R, points: readonly LoggedPoint[]): R {
  return { ...ref, points: grouped(ref.lineage, points) };
}

function notedWithHead({ lineage: _, txid, touched_at, base, origin, points = [] }: Standing): LoggedSteps[] {
  const [newest] = points;
  if (newest && newest.lineage === undefined && newest.steps.startsWith(`${txid} `)) return points;
  const forked = base?.digest !== undefined || origin !== undefined;
  return added(points, { txid, at_ms: Date.parse(touched_at), op: !newest && forked ? "fork" : undefined });
}

type Added = { txid: Txid; at_ms: number; op: string | undefined };

/** The points with a newer one in the ref's own lineage. */
function added(points: readonly LoggedSteps[], { txid, at_ms, op }: Added): LoggedSteps[] {
  const step = stepText(txid, at_ms, op);
  const [newest, ...older] = points;
  if (newest === undefined || newest.lineage !== undefined) return [{ steps: step }, ...points];
  const [head = "", ...rest] = newest.steps.split(/,(.*)/s, 2);
  const [last_txid, last_ms, last_op] = head.split(" ");
  const before = stepText(txid - Number(last_txid), at_ms - Number(last_ms), last_op);
  return [{ steps: [step, before, ...rest].join(",") }, ...older];
}

function stepText(txids: number, ms: number, op: string | undefined): string {
  return op === undefined ? `${txids} ${ms}` : `${txids} ${ms} ${op}`;
}

/**
 * Every second flush of the older half goes: the farther back, the fewer points, and the time they span stays. As long as
 * there are enough of them, those go that no hour or day begins with.
 */
function thinned(ref: Standing): LoggedSteps[] {
  const all = loggedPoints(ref);
  const older = all.slice(Math.floor(all.length / 2), -1).filter(({ op }) => op === undefined);
  const begins = new Set(retained(all, LONG_LEVELS, all.map(() => 0)));
  const plain = older.filter((point) => !begins.has(point));
  const spared = plain.length > all.length / 8 ? plain : older;
  const dropped = new Set(spared.filter((_, index) => index % 2 === 0));
  const kept = all.filter((point) => !dropped.has(point));
  // Of operations without end the oldest go.
  return grouped(ref.lineage, kept.slice(0, Math.ceil(all.length * (dropped.size > 0 ? 1 : 0.8))));
}

function grouped(here: string, points: readonly LoggedPoint[]): LoggedSteps[] {
  const groups: { lineage: string; folded: number | undefined; steps: string[] }[] = [];
  for (const [index, { lineage, txid, at_ms, op, folded }] of points.entries()) {
    const group = groups.at(-1);
    const newer = points[index - 1];
    if (group && newer && group.lineage === lineage && group.folded === folded) {
      group.steps.push(stepText(newer.txid - txid, newer.at_ms - at_ms, op));
    } else groups.push({ lineage, folded, steps: [stepText(txid, at_ms, op)] });
  }
  return groups.map(({ lineage, folded, steps }) => ({
    ...(lineage === here ? {} : { lineage }),
    steps: steps.join(","),
    ...(folded === undefined ? {} : { folded }),
  }));
}

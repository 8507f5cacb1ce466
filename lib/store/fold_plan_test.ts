import { assert, assertEquals } from "@std/assert";
import * as fc from "../../tests/packages/fast_check.ts";
import { scaled, scaledTest } from "../../tests/support/long.ts";
import { depthOfRun, MAX_FOLDED_CHAIN, MAX_RUN, parentInRun, parentsOf, runOf } from "./fold_plan.ts";
import { DAY_MS, DEFAULT_LEVELS, HOUR_MS, retained } from "./retention.ts";

interface Folded {
  txid: number;
  at_ms: number;
  /** Objects from its snapshot on. */
  depth: number;
  /** Transactions that its own object spans; 0 for a snapshot. */
  spans: number;
  parent: Folded | undefined;
}

/** Folds points, the oldest first, as the store does: run after run, each after the best that is not too deep. */
function fold(points: readonly { txid: number; at_ms: number }[], folded: Folded[] = []): Folded[] {
  for (let rest = points; rest.length > 0;) {
    const run = runOf(rest);
    rest = rest.slice(run.length);
    const need = depthOfRun(run.length);
    const parent = parentsOf(run[0]!, folded).find(({ depth }) => depth + need <= MAX_FOLDED_CHAIN);
    const own: Folded[] = [];
    for (const [number, { txid, at_ms }] of run.entries()) {
      const before = parentInRun(number);
      const after = before === undefined ? parent : own[before];
      const spans = after ? txid - after.txid : 0;
      own.push({ txid, at_ms, depth: (after?.depth ?? 0) + 1, spans, parent: after });
    }
    folded.push(...own);
  }
  return folded;
}

/** What some points need, each object once. */
function needed(points: readonly Folded[]): Set<Folded> {
  const all = new Set<Folded>();
  for (const point of points) for (let at: Folded | undefined = point; at; at = at.parent) all.add(at);
  return all;
}

Deno.test("within a run each point follows an earlier one, and none is farther than said", () => {
  for (let count = 1; count <= MAX_RUN; count++) {
    const depths: number[] = [];
    for (let number = 0; number < count; number++) {
      const parent = parentInRun(number);
      assert(number === 0 ? parent === undefined : parent! < number);
      depths.push((parent === undefined ? 0 : depths[parent]!) + 1);
    }
    assert(Math.max(...depths) <= depthOfRun(count), `${count} points`);
  }
});

scaledTest("after each day of a year of flushes no point is far, and what is kept costs little", () => {
  const EVERY_MS = scaled({ short: 300_000, long: 30_000 });
  let folded: Folded[] = [];
  let worst = { days: 0, snapshots: 0, depth: 0 };
  for (let day = 0; day < 365; day++) {
    const points = Array.from({ length: DAY_MS / EVERY_MS }, (_, i) => {
      const number = day * DAY_MS / EVERY_MS + i;
      return { txid: number + 1, at_ms: number * EVERY_MS };
    });
    // What lies between two snapshots of a session comes together.
    for (let first = 0; first < points.length; first += 17) fold(points.slice(first, first + 17), folded);
    const now_ms = (day + 1) * DAY_MS;
    folded = retained(folded.toReversed(), DEFAULT_LEVELS, folded.map(({ at_ms }) => now_ms - at_ms).reverse())
      .reverse();
    const all = [...needed(folded)];
    const figures = {
      // What an object says grows at most by what changed meanwhile.
      days: all.reduce((sum, { spans }) => sum + spans, 0) * EVERY_MS / DAY_MS,
      snapshots: all.filter(({ parent }) => !parent).length,
      depth: Math.max(...folded.map(({ depth }) => depth)),
    };
    worst = {
      days: Math.max(worst.days, figures.days),
      snapshots: Math.max(worst.snapshots, figures.snapshots),
      depth: Math.max(worst.depth, figures.depth),
    };
  }
  assertEquals(worst.snapshots, 2);
  assert(worst.depth <= MAX_FOLDED_CHAIN, `${worst.depth} objects to a snapshot`);
  // At one per cent a day: twice the size for snapshots, and so much of it for the rest.
  assert(worst.days < 150, `objects say what changed in ${worst.days} days`);
});

Deno.test("whatever the times are, what a point follows is before it, and a snapshot is near", () =>
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.oneof(fc.integer({ min: -1, max: 90 }), fc.constant(1)), fc.nat(40 * 24)), {
        maxLength: 150,
      }),
      (steps) => {
        let [txid, at_ms] = [1, 0];
        const points = steps.map(([txids, hours]) => {
          txid = Math.max(1, txid + txids);
          at_ms += hours * (hours % 3 === 0 ? HOUR_MS : 60_000);
          return { txid, at_ms };
        });
        const folded = fold(points);
        assertEquals(folded.length, points.length);
        for (const { txid, depth, parent } of folded) assert(depth <= MAX_FOLDED_CHAIN && (parent?.txid ?? 0) < txid);
      },
    ),
  ));

import { assertEquals } from "@std/assert";
import { VirtualClock } from "../tests/support/clock.ts";
import { nextTurn } from "../lib/clock.ts";
import type { StoreEngine } from "./store_engine.ts";
import { Janitor } from "./janitor.ts";
import type { JanitorPass } from "./metrics.ts";

/** A janitor that ticks every second over what a store answers; answers are called when they are asked for. */
function start(answers: Record<string, (options: unknown) => unknown>) {
  const clock = new VirtualClock();
  const [passes, events, log]: [JanitorPass[], string[], string[]] = [[], [], []];
  const scrubbed: number[] = [];
  const store = (method: string, [options]: unknown[]) => Promise.resolve(options).then(answers[method]);
  const janitor = new Janitor({
    engine: { store } as Pick<StoreEngine, "store">,
    publisher: { publish: (type, { db, branch }) => void events.push(`${type} ${db}@${branch}`) },
    metrics: { janitorPassed: (pass) => void passes.push(pass) },
    clock,
    log: (line) => log.push(line),
    reap_every_ms: 1_000,
    gc_grace_ms: 0,
    ro_cache_budget_bytes: 0,
    scrub_every_ms: "scrub" in answers ? 1 : 0,
    more_metrics: {
      scrubbed: ({ objects }) => void scrubbed.push(objects),
      historyKept: () => {},
      historyFolded: () => {},
    },
  });
  return { janitor, clock, passes, events, log, scrubbed };
}

const GC = { tombstoned: 1, deleted: 2, backlog: 3, history: [] };
const QUIET = {
  reapExpired: () => ({ reaped: [], failed: [] }),
  foldHistory: () => ({ folded: 0, pruned: 0, read_bytes: 0, stored_bytes: 0, failed: [] }),
  collectGarbage: () => GC,
  enforceRoCacheBudget: () => ({ bytes: 0, evicted: [] }),
};

Deno.test("a branch that cannot be destroyed makes the tick an error; the others count and are logged", async () => {
  const reaped = [{ db: "app", branch: "gone", txid: 1, ttl_seconds: 1 }];
  const failed = [{ db: "app", branch: "stuck", error: "no" }];
  const { janitor, clock, passes, events, log } = start({ ...QUIET, reapExpired: () => ({ reaped, failed }) });
  clock.advance(1_000);
  await clock.sleeper(1_000);
  assertEquals(passes, [
    { result: "error", reaped: 1, gc_failed: false, gc: GC, ro_cache: { bytes: 0, evicted: 0 } },
  ]);
  assertEquals(events, ["reaped app@gone"]);
  assertEquals(log.filter((line) => line.includes("app@stuck")), ["janitor: reap: app@stuck: no"]);
  await janitor.stop();
});

Deno.test("a janitor that is stopped during a tick has stopped when the tick is over", async () => {
  const gate = Promise.withResolvers<typeof GC>();
  const { janitor, clock, passes } = start({ ...QUIET, collectGarbage: () => gate.promise });
  clock.advance(1_000);
  let stopped = false;
  const stopping = janitor.stop().then(() => stopped = true);
  for (let turn = 0; turn < 5; turn++) await nextTurn();
  assertEquals([stopped, passes.length], [false, 0]);
  gate.resolve(GC);
  await stopping;
  assertEquals([passes.length, clock.sleepers], [1, 0]);
});

Deno.test("scrubbing reports what it finds, beside the ticks, and does not hold up the end", async () => {
  const slices = [
    { objects: 2, bytes: 9, found: [{ where: "data/x", why: "it is damaged" }], damaged: 1, finished: true },
    { objects: 0, bytes: 0, found: [], damaged: 1, finished: false },
  ];
  const never = Promise.withResolvers<never>();
  const { janitor, clock, log, scrubbed } = start({ ...QUIET, scrub: () => slices.shift() ?? never.promise });
  for (let tick = 0; tick < 3; tick++) {
    clock.advance(1_000);
    await clock.sleeper(1_000);
  }
  assertEquals(log, ["janitor: scrub: data/x: it is damaged", "janitor: scrub: everything was read; damaged=1"]);
  assertEquals(scrubbed, [2, 0]);
  await janitor.stop();
});

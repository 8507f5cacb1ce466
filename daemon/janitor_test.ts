import { assertEquals } from "@std/assert";
import { VirtualClock } from "../tests/support/clock.ts";
import { nextTurn } from "../lib/clock.ts";
import type { StoreEngine } from "./store_engine.ts";
import { Janitor } from "./janitor.ts";
import type { JanitorPass } from "./metrics.ts";

/** A janitor that ticks every second over what a store answers; answers are called when they are asked for. */
function start(answers: Record<string, () => unknown>) {
  const clock = new VirtualClock();
  const [passes, events, log]: [JanitorPass[], string[], string[]] = [[], [], []];
  const store = (method: string) => Promise.resolve().then(answers[method]);
  const janitor = Janitor.start({
    engine: { store } as Pick<StoreEngine, "store">,
    publisher: { publish: (type, { db, branch }) => void events.push(`${type} ${db}@${branch}`) },
    metrics: { janitorPassed: (pass) => void passes.push(pass) },
    clock,
    log: (line) => log.push(line),
    reap_every_ms: 1_000,
    gc_grace_ms: 0,
    ro_cache_budget_bytes: 0,
  });
  return { janitor, clock, passes, events, log };
}

const GC = { tombstoned: 1, deleted: 2, backlog: 3 };
const QUIET = {
  reapExpired: () => ({ reaped: [], failed: [] }),
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

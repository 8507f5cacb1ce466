import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { SessionInfo } from "../lib/protocol/messages.ts";
import { VirtualClock } from "../tests/support/clock.ts";
import { counted } from "./counted_handlers.ts";
import type { Handlers } from "./dispatch.ts";
import { BUCKETS_SECONDS, Metrics } from "./metrics.ts";
import { MoreMetrics } from "./more_metrics.ts";

/** The 21 names of the contract's table, in its order. */
const FAMILIES = [
  ["build_info", "gauge"],
  ["sessions_open", "gauge"],
  ["capture_lag_bytes", "gauge"],
  ["durable_age_seconds", "gauge"],
  ["flush_total", "counter"],
  ["flush_duration_seconds", "histogram"],
  ["fork_total", "counter"],
  ["fork_duration_seconds", "histogram"],
  ["fork_mode_total", "counter"],
  ["rollback_total", "counter"],
  ["promote_total", "counter"],
  ["checkpoint_duration_seconds", "histogram"],
  ["checkpoint_overwrite_detected_total", "counter"],
  ["reap_total", "counter"],
  ["gc_tombstoned_total", "counter"],
  ["gc_deleted_total", "counter"],
  ["gc_backlog", "gauge"],
  ["gc_errors_total", "counter"],
  ["ro_cache_bytes", "gauge"],
  ["ro_cache_evictions_total", "counter"],
  ["janitor_runs_total", "counter"],
];

const samples = (text: string, name: string) =>
  text.split("\n").filter((line) => line.startsWith(`bstore_${name}{`) || line.startsWith(`bstore_${name} `));

const session = (db: string): SessionInfo => ({
  db,
  branch: "main",
  state: "active",
  checkout: "/x",
  holder: "daemon:0:0",
  epoch: 2,
  durable_txid: 1,
  durable_age_seconds: 1.5,
  capture_lag_bytes: 42,
  wal_bytes: 0,
  rebases: 0,
});

Deno.test("render() has exactly 21 # TYPE lines, one per family, in the contract's order", async () => {
  const text = await new Metrics("1.2.3").render([]);
  const types = text.split("\n").filter((line) => line.startsWith("# TYPE "));
  assertEquals(types, FAMILIES.map(([name, type]) => `# TYPE bstore_${name} ${type}`));
});

Deno.test("known combinations stand at 0 from the start", async () => {
  const text = await new Metrics("1.2.3").render([]);
  for (
    const line of [
      'flush_total{result="ok",kind="auto"} 0',
      'flush_total{result="ok",kind="manual"} 0',
      'flush_total{result="error",kind="auto"} 0',
      'flush_total{result="error",kind="manual"} 0',
      'fork_total{path="fast"} 0',
      'fork_total{path="slow"} 0',
      ...["fork_mode_total", "rollback_total", "promote_total"].flatMap((name) => [
        `${name}{mode="shared"} 0`,
        `${name}{mode="materialized"} 0`,
      ]),
      "checkpoint_overwrite_detected_total 0",
      'janitor_runs_total{result="ok"} 0',
      'janitor_runs_total{result="error"} 0',
      'build_info{version="1.2.3"} 1',
    ]
  ) assertStringIncludes(text, `bstore_${line}\n`);
});

// conformance: 2.metrics.bstore_capture_lag_bytes 2.metrics.bstore_durable_age_seconds
Deno.test("a branch without a live session is absent, not zero", async () => {
  const metrics = new Metrics("dev");
  const open = await metrics.render([session("a"), { db: "b", branch: "main", state: "pending" }]);
  assertEquals(samples(open, "capture_lag_bytes"), ['bstore_capture_lag_bytes{db="a",branch="main"} 42']);
  assertEquals(samples(open, "durable_age_seconds"), ['bstore_durable_age_seconds{db="a",branch="main"} 1.5']);
  assertEquals(samples(open, "sessions_open"), ["bstore_sessions_open 1"]);
  const closed = await metrics.render([]);
  assertEquals(samples(closed, "capture_lag_bytes"), []);
  assertEquals(samples(closed, "durable_age_seconds"), []);
  assertEquals(samples(closed, "sessions_open"), ["bstore_sessions_open 0"]);
});

Deno.test("the three histograms share the contract's buckets", async () => {
  const metrics = new Metrics("dev");
  metrics.sessionEvent({ type: "flushed", detail: { kind: "auto", txid: 1, duration_seconds: 0.02 } });
  metrics.forked({ path: "fast", mode: "shared" }, 0.002);
  metrics.checkpointed(400, false);
  const text = await metrics.render([]);
  for (const name of ["flush", "fork", "checkpoint"]) {
    const bounds = samples(text, `${name}_duration_seconds_bucket`).map((line) => /le="([^"]+)"/.exec(line)![1]);
    assertEquals(bounds, [...BUCKETS_SECONDS.map(String), "+Inf"]);
    assertEquals(samples(text, `${name}_duration_seconds_count`), [`bstore_${name}_duration_seconds_count 1`]);
  }
  assertStringIncludes(text, 'bstore_checkpoint_duration_seconds_bucket{le="300"} 0');
});

Deno.test("each event moves the metric that the contract names", async () => {
  const metrics = new Metrics("dev");
  const failed = { kind: "manual", code: "x", error: "x", duration_seconds: 1 } as const;
  metrics.sessionEvent({ type: "flush_failed", detail: failed });
  metrics.sessionEvent({ type: "session_closed", detail: {} });
  metrics.forked({ path: "slow", mode: "materialized" }, 1);
  metrics.repointed("rollback", "shared");
  metrics.repointed("promote", "materialized");
  metrics.janitorPassed({
    result: "ok",
    reaped: 2,
    gc: { tombstoned: 3, deleted: 4, backlog: 5 },
    gc_failed: false,
    ro_cache: { bytes: 6, evicted: 7 },
  });
  metrics.janitorPassed({ result: "error", reaped: 0, gc_failed: true });
  const text = await metrics.render([]);
  for (
    const line of [
      'flush_total{result="error",kind="manual"} 1',
      'fork_total{path="slow"} 1',
      'fork_mode_total{mode="materialized"} 1',
      'rollback_total{mode="shared"} 1',
      'promote_total{mode="materialized"} 1',
      "reap_total 2",
      "gc_tombstoned_total 3",
      "gc_deleted_total 4",
      "gc_backlog 5",
      "gc_errors_total 1",
      "ro_cache_bytes 6",
      "ro_cache_evictions_total 7",
      'janitor_runs_total{result="ok"} 1',
      'janitor_runs_total{result="error"} 1',
    ]
  ) assert(text.includes(`bstore_${line}\n`), line);
});

Deno.test("forks and checkpoints are timed from request to answer; those that fail are not", async () => {
  const clock = new VirtualClock();
  const metrics = new Metrics("dev");
  let failing = false;
  const after = <T>(ms: number, answer: T) => () => {
    clock.advance(ms);
    return failing ? Promise.reject(new Error("no")) : Promise.resolve(answer);
  };
  const handlers: Pick<Handlers, "fork" | "checkpoint"> = {
    fork: after(2_000, { db: "a", branch: "b", txid: 1, mode: "shared", path: "fast" }),
    checkpoint: after(3_000, {
      db: "a",
      branch: "main",
      checkpoint: "c",
      txid: 1,
      kind: "segment",
      pages: 1,
      stored_bytes: 1,
      overwrite_detected: true,
    }),
  };
  const { fork, checkpoint } = counted(handlers as Handlers, {
    metrics,
    more_metrics: new MoreMetrics(),
    publisher: { publish: () => {} },
    clock,
    isLive: ({ branch }) => branch === "live",
  });
  await fork({ db: "a", new_branch: "b" });
  for (const branch of ["main", "live", "other"]) await checkpoint({ db: "a", branch, name: "c" });
  failing = true;
  for (const work of [fork({ db: "a", new_branch: "b" }), checkpoint({ db: "a", name: "c" })]) {
    await work.catch(() => {});
  }
  const text = await metrics.render([]);
  for (
    const line of [
      "fork_duration_seconds_sum 2",
      "fork_duration_seconds_count 1",
      "checkpoint_duration_seconds_sum 6",
      "checkpoint_duration_seconds_count 2",
      "checkpoint_overwrite_detected_total 2",
    ]
  ) assert(text.includes(`bstore_${line}\n`), line);
});

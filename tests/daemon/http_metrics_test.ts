import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { join } from "@std/path/join";
import { DatabaseSync } from "node:sqlite";
import type { OpArgs } from "../../lib/protocol/messages.ts";
import { BUCKETS_SECONDS } from "../../daemon/metrics.ts";
import { Place } from "./daemon_process.ts";
import { type Exposition, HttpDaemon } from "./_http.ts";
import { VirtualDaemon } from "./_virtual.ts";

/** The contract's table: every family and its type, in order. */
const FAMILIES = [
  ["bstore_build_info", "gauge"],
  ["bstore_sessions_open", "gauge"],
  ["bstore_capture_lag_bytes", "gauge"],
  ["bstore_durable_age_seconds", "gauge"],
  ["bstore_flush_total", "counter"],
  ["bstore_flush_duration_seconds", "histogram"],
  ["bstore_fork_total", "counter"],
  ["bstore_fork_duration_seconds", "histogram"],
  ["bstore_fork_mode_total", "counter"],
  ["bstore_rollback_total", "counter"],
  ["bstore_promote_total", "counter"],
  ["bstore_checkpoint_duration_seconds", "histogram"],
  ["bstore_checkpoint_overwrite_detected_total", "counter"],
  ["bstore_reap_total", "counter"],
  ["bstore_gc_tombstoned_total", "counter"],
  ["bstore_gc_deleted_total", "counter"],
  ["bstore_gc_backlog", "gauge"],
  ["bstore_gc_errors_total", "counter"],
  ["bstore_ro_cache_bytes", "gauge"],
  ["bstore_ro_cache_evictions_total", "counter"],
  ["bstore_janitor_runs_total", "counter"],
] as const;

/** Writes a row, committed. */
function write(path: string): void {
  const db = new DatabaseSync(path, { timeout: 5_000 });
  try {
    db.exec("CREATE TABLE IF NOT EXISTS t(x); INSERT INTO t VALUES(randomblob(2000))");
  } finally {
    db.close();
  }
}

/** What changed between two scrapes, `name{labels}` with the difference, histogram buckets and gauges of time left out. */
function changes(before: Exposition, after: Exposition): string[] {
  const lines = (exposition: Exposition) =>
    new Map(
      exposition.text.split("\n").filter((line) => line !== "" && !/^#|_bucket|_sum |durable_age/.test(line))
        .map((line) => [line.slice(0, line.lastIndexOf(" ")), Number(line.slice(line.lastIndexOf(" ") + 1))]),
    );
  const [old, now] = [lines(before), lines(after)];
  const names = [...new Set([...old.keys(), ...now.keys()])];
  return names.flatMap((name) => {
    const difference = (now.get(name) ?? 0) - (old.get(name) ?? 0);
    return difference === 0 && old.has(name) === now.has(name) ? [] : [`${name} ${difference}`];
  });
}

// conformance: 2.metrics.exactly_21 2.metrics.bstore_build_info 9.build_info 9.names 4.http.metrics
Deno.test("the authenticated output has 21 # TYPE lines in the table's order, and the build", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  const response = await http.fetch("/metrics");
  assertMatch(response.headers.get("content-type")!, /^text\/plain; version=0\.0\.4/);
  await response.body?.cancel();
  const metrics = await http.metrics();
  assertEquals(metrics.families, FAMILIES.map(([name, type]) => `${name} ${type}`));
  assertEquals(metrics.value("build_info", { version: "dev" }), 1);
});

// conformance: 2.metrics.bstore_flush_total 2.metrics.bstore_fork_total 2.metrics.bstore_fork_mode_total 2.metrics.bstore_rollback_total 2.metrics.bstore_promote_total 2.metrics.bstore_janitor_runs_total 2.metrics.bstore_checkpoint_overwrite_detected_total 2.metrics.buckets
Deno.test("a daemon that did nothing shows every known combination at 0, and the contract's buckets", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { reap_every_ms: 0 });
  const { text } = await http.metrics();
  const samples = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const zero = samples.filter((line) => !line.startsWith("bstore_build_info"));
  assertEquals(zero.filter((line) => !line.endsWith(" 0")), []);
  assertEquals(zero.filter((line) => !line.includes("_bucket")), [
    "bstore_sessions_open 0",
    'bstore_flush_total{result="ok",kind="auto"} 0',
    'bstore_flush_total{result="ok",kind="manual"} 0',
    'bstore_flush_total{result="error",kind="auto"} 0',
    'bstore_flush_total{result="error",kind="manual"} 0',
    "bstore_flush_duration_seconds_sum 0",
    "bstore_flush_duration_seconds_count 0",
    'bstore_fork_total{path="fast"} 0',
    'bstore_fork_total{path="slow"} 0',
    "bstore_fork_duration_seconds_sum 0",
    "bstore_fork_duration_seconds_count 0",
    'bstore_fork_mode_total{mode="shared"} 0',
    'bstore_fork_mode_total{mode="materialized"} 0',
    'bstore_rollback_total{mode="shared"} 0',
    'bstore_rollback_total{mode="materialized"} 0',
    'bstore_promote_total{mode="shared"} 0',
    'bstore_promote_total{mode="materialized"} 0',
    "bstore_checkpoint_duration_seconds_sum 0",
    "bstore_checkpoint_duration_seconds_count 0",
    "bstore_checkpoint_overwrite_detected_total 0",
    "bstore_reap_total 0",
    "bstore_gc_tombstoned_total 0",
    "bstore_gc_deleted_total 0",
    "bstore_gc_backlog 0",
    "bstore_gc_errors_total 0",
    "bstore_ro_cache_bytes 0",
    "bstore_ro_cache_evictions_total 0",
    'bstore_janitor_runs_total{result="ok"} 0',
    'bstore_janitor_runs_total{result="error"} 0',
  ]);
  assertEquals(BUCKETS_SECONDS, [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300]);
  for (const name of ["flush", "fork", "checkpoint"]) {
    const bounds = [...text.matchAll(new RegExp(`^bstore_${name}_duration_seconds_bucket\\{le="([^"]+)"\\}`, "gm"))];
    assertEquals(bounds.map((match) => match[1]), [...BUCKETS_SECONDS.map(String), "+Inf"]);
  }
});

/** What each operation moves, and nothing else. */
const MOVES: { [O in "fork" | "rollback" | "promote"]: [args: Partial<OpArgs<O>>, moved: string[]][] } = {
  fork: [
    [{ new_branch: "a" }, [
      'fork_total{path="fast"} 1',
      "fork_duration_seconds_count 1",
      'fork_mode_total{mode="shared"} 1',
    ]],
    // One snapshot: its object is copied, not encoded anew.
    [{ new_branch: "b", materialize: true, at: "zero" }, [
      'fork_total{path="fast"} 1',
      "fork_duration_seconds_count 1",
      'fork_mode_total{mode="materialized"} 1',
    ]],
    // A snapshot and a segment: materialized and encoded anew.
    [{ new_branch: "c", materialize: true }, [
      'fork_total{path="slow"} 1',
      "fork_duration_seconds_count 1",
      'fork_mode_total{mode="materialized"} 1',
    ]],
    [{ new_branch: "a" }, []],
  ],
  rollback: [
    [{ to: "zero" }, ['rollback_total{mode="shared"} 1']],
    [{ to: "one", materialize: true }, ['rollback_total{mode="materialized"} 1']],
    [{ to: "none" }, []],
  ],
  promote: [
    [{ onto: "a" }, ['promote_total{mode="shared"} 1']],
    [{ onto: "b", materialize: true }, ['promote_total{mode="materialized"} 1']],
    [{ onto: "none" }, []],
  ],
};

// conformance: 2.metrics.bstore_fork_total 2.metrics.bstore_fork_duration_seconds 2.metrics.bstore_fork_mode_total 2.metrics.bstore_rollback_total 2.metrics.bstore_promote_total 2.fork_paths 2.materialize_flag 2.shared_default
Deno.test("forks, rollbacks and promotes move their own counters by one, failed ones move nothing", async (t) => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { reap_every_ms: 0 });
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  await client.call("checkpoint", { db: "app", name: "zero" });
  const { checkout } = await client.call("open", { db: "app" });
  write(checkout);
  assertEquals((await client.call("checkpoint", { db: "app", name: "one" })).kind, "segment");
  await client.call("close", { db: "app" });
  for (const op of ["fork", "rollback", "promote"] as const) {
    for (const [args, moved] of MOVES[op]) {
      await t.step(`${op} ${JSON.stringify(args)}`, async () => {
        const safety = op === "fork" ? {} : { safety: false };
        const before = await http.metrics();
        await client.call(op, { db: "app", ...safety, ...args } as never).catch(() => {});
        assertEquals(changes(before, await http.metrics()), moved.map((line) => `bstore_${line}`));
      });
    }
  }
});

// conformance: 2.metrics.bstore_sessions_open 2.metrics.bstore_capture_lag_bytes 2.metrics.bstore_durable_age_seconds 2.metrics.bstore_flush_total 2.metrics.bstore_flush_duration_seconds 7.session_error
Deno.test("a session's gauges exist while it is open; flushes count by kind and result", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { reap_every_ms: 0, flush_every_ms: 0 });
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  const of = { db: "app", branch: "main" };
  const before = await http.metrics();
  assertEquals([before.value("capture_lag_bytes", of), before.value("durable_age_seconds", of)], [
    undefined,
    undefined,
  ]);
  const { checkout } = await client.call("open", { db: "app" });
  const open = await http.metrics();
  assertEquals([open.value("sessions_open"), open.value("capture_lag_bytes", of)], [1, 0]);
  const age = open.value("durable_age_seconds", of)!;
  assert(age >= 0);
  // What is committed between two looks of the session: it may just have looked when it is asked.
  let lagging: Exposition;
  do {
    write(checkout);
    lagging = await http.metrics();
  } while (lagging.value("capture_lag_bytes", of) === 0);
  // A commit writes at least one page, behind its frame's head of 24 bytes.
  assert(lagging.value("capture_lag_bytes", of)! >= 4096 + 24);
  assert(lagging.value("durable_age_seconds", of)! > age);
  await client.call("flush", { db: "app" });
  const flushed = await http.metrics();
  assertEquals(changes(lagging, flushed).filter((line) => !line.includes("capture_lag")), [
    'bstore_flush_total{result="ok",kind="manual"} 1',
    "bstore_flush_duration_seconds_count 1",
  ]);
  assertEquals(flushed.value("capture_lag_bytes", of), 0);
  assert(flushed.value("durable_age_seconds", of)! < lagging.value("durable_age_seconds", of)!);

  // Where the objects are to go stands a file.
  const data = join(place.store, "data");
  await Deno.rename(data, `${data}.away`);
  await Deno.writeTextFile(data, "");
  write(checkout);
  const events = await http.events();
  assertEquals((await http.rpc({ op: "flush", db: "app" })).ok, false);
  const { detail } = await events.of("flush_failed");
  assertEquals((detail as { kind: string }).kind, "manual");
  const failed = await http.metrics();
  assertEquals(changes(flushed, failed).filter((line) => !line.includes("capture_lag")), [
    'bstore_flush_total{result="error",kind="manual"} 1',
    "bstore_flush_duration_seconds_count 1",
  ]);
  await Deno.remove(data);
  await Deno.rename(`${data}.away`, data);
  await client.call("close", { db: "app" });
  const closed = await http.metrics();
  assertEquals(closed.value("sessions_open"), 0);
  assertEquals([closed.value("capture_lag_bytes", of), closed.value("durable_age_seconds", of)], [
    undefined,
    undefined,
  ]);
  assert(!/^bstore_(capture_lag|durable_age)\S*\{/m.test(closed.text));
  await events.cancel();
});

// conformance: 2.metrics.bstore_flush_total 6.type.flushed 6.type.flush_failed 8.flush_every
Deno.test("timer flushes count as auto, failed ones too; an idle session's ticks count nothing", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { reap_every_ms: 0, flush_every_ms: 30 });
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const auto = (metrics: Exposition, result: string) => metrics.value("flush_total", { result, kind: "auto" })!;
  write(checkout);
  const flushed = await http.metricsOnce((metrics) => auto(metrics, "ok") === 1);
  // Many ticks go by.
  await client.call("verify", { db: "app" });
  await new Promise((resolve) => setTimeout(resolve, 200));
  assertEquals(changes(flushed, await http.metrics()), []);
  const data = join(place.store, "data");
  await Deno.rename(data, `${data}.away`);
  await Deno.writeTextFile(data, "");
  const events = await http.events();
  write(checkout);
  const { detail } = await events.of("flush_failed");
  assertEquals((detail as { kind: string }).kind, "auto");
  assertNotEquals(auto(await http.metrics(), "error"), 0);
  // A flush between the two would make the folder anew.
  Deno.kill(http.daemon.pid, "SIGSTOP");
  await Deno.remove(data);
  await Deno.rename(`${data}.away`, data);
  Deno.kill(http.daemon.pid, "SIGCONT");
  await http.metricsOnce((metrics) => auto(metrics, "ok") === 2);
  await events.cancel();
});

// conformance: 2.metrics.bstore_checkpoint_duration_seconds 2.metrics.bstore_checkpoint_overwrite_detected_total
Deno.test("a checkpoint at rest is timed as one; with a live session it counts as a manual flush", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { reap_every_ms: 0, flush_every_ms: 0 });
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  const start = await http.metrics();
  await client.call("checkpoint", { db: "app", name: "one" });
  const rested = await http.metrics();
  assertEquals(changes(start, rested), ["bstore_checkpoint_duration_seconds_count 1"]);
  await client.call("checkpoint", { db: "app", name: "one" }).catch(() => {});
  assertEquals(changes(rested, await http.metrics()), []);
  const { checkout } = await client.call("open", { db: "app" });
  write(checkout);
  // The second has nothing to store, and is a flush all the same.
  for (const name of ["two", "three"]) {
    const live = await http.metrics();
    await client.call("checkpoint", { db: "app", name });
    assertEquals(changes(live, await http.metrics()).filter((line) => !line.includes("capture_lag")), [
      'bstore_flush_total{result="ok",kind="manual"} 1',
      "bstore_flush_duration_seconds_count 1",
    ]);
  }
});

// conformance: 2.metrics.bstore_reap_total 2.metrics.bstore_gc_tombstoned_total 2.metrics.bstore_gc_deleted_total 2.metrics.bstore_gc_backlog 2.metrics.bstore_janitor_runs_total
Deno.test("a pass moves only the janitor's families, a collection on demand none of them", async () => {
  await using place = new Place();
  await using daemon = await VirtualDaemon.start(place);
  const { client } = daemon;
  await client.call("create", { db: "app" });
  await client.call("fork", { db: "app", new_branch: "dev", ttl_ms: 1 });
  const start = await daemon.metrics();
  const first = await daemon.tick();
  const moved = changes(start, first);
  assertEquals(moved, [
    "bstore_reap_total 1",
    "bstore_gc_tombstoned_total 1",
    "bstore_gc_backlog 1",
    'bstore_janitor_runs_total{result="ok"} 1',
  ]);
  await client.call("gc", { grace_ms: 0 });
  assertEquals(changes(first, await daemon.metrics()), []);
  assertEquals(changes(first, await daemon.tick()), [
    "bstore_gc_backlog -1",
    'bstore_janitor_runs_total{result="ok"} 1',
  ]);
});

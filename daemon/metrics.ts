/**
 * The daemon's metrics: the 21 families of the contract in the contract's order. Counters and histograms are
 * fed by what happens; gauges about sessions are read at each scrape, so that a closed session's
 * values are absent and not zero.
 */

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { SessionEvent } from "../lib/capture/session.ts";
import type { SessionInfo } from "../lib/protocol/messages.ts";
import type { CopyPath, StorageMode } from "../lib/store/results.ts";

/** Bounds of all histograms in seconds; the contract's numbers. */
export const BUCKETS_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

export interface JanitorPass {
  result: "ok" | "error";
  reaped: number;
  /** Absent when the collection failed. */
  gc?: { tombstoned: number; deleted: number; backlog: number };
  gc_failed: boolean;
  /** Absent when the cache could not be measured. */
  ro_cache?: { bytes: number; evicted: number };
}

/** Makes families of a registry; the order of the calls is that of exposition. */
export function familiesOf(registry: Registry) {
  const family = <L extends string>(name: string, help: string, labelNames: L[]) => ({
    name: `bstore_${name}`,
    help,
    labelNames,
    registers: [registry],
  });
  return {
    gauge: <L extends string>(name: string, help: string, ...labels: L[]) => new Gauge<L>(family(name, help, labels)),
    counter: <L extends string>(name: string, help: string, ...labels: L[]) =>
      new Counter<L>(family(name, help, labels)),
    histogram: (name: string, help: string) => new Histogram({ ...family(name, help, []), buckets: BUCKETS_SECONDS }),
  };
}

/** Registers every family, in the order of the contract's table. */
function registerFamilies(registry: Registry) {
  const { gauge, counter, histogram } = familiesOf(registry);
  return {
    build_info: gauge("build_info", "Always 1; the label is the running build.", "version"),
    sessions_open: gauge("sessions_open", "Sessions currently open."),
    capture_lag_bytes: gauge(
      "capture_lag_bytes",
      "Committed WAL bytes not yet applied to the replica. Open sessions only.",
      "db",
      "branch",
    ),
    durable_age_seconds: gauge(
      "durable_age_seconds",
      "Seconds since the session's last successful flush. Open sessions only.",
      "db",
      "branch",
    ),
    flush: counter("flush_total", "Flushes by result and kind.", "result", "kind"),
    flush_duration: histogram("flush_duration_seconds", "Flush latency."),
    fork: counter("fork_total", "Successful forks by copy path.", "path"),
    fork_duration: histogram("fork_duration_seconds", "Successful fork latency."),
    fork_mode: counter("fork_mode_total", "Successful forks by storage mode.", "mode"),
    rollback: counter("rollback_total", "Successful rollbacks by storage mode.", "mode"),
    promote: counter("promote_total", "Successful promotes by storage mode.", "mode"),
    checkpoint_duration: histogram("checkpoint_duration_seconds", "At-rest checkpoint latency."),
    overwrite_detected: counter(
      "checkpoint_overwrite_detected_total",
      "At-rest checkpoints that committed but found the store head may not be their own content.",
    ),
    reap: counter("reap_total", "Branches reaped (TTL-expired, destroyed) by the janitor."),
    gc_tombstoned: counter("gc_tombstoned_total", "Objects newly tombstoned by a GC pass."),
    gc_deleted: counter("gc_deleted_total", "Objects deleted by GC after their grace period."),
    gc_backlog: gauge("gc_backlog", "Tombstoned objects currently inside their grace period."),
    gc_errors: counter("gc_errors_total", "Janitor GC passes that returned an error."),
    ro_cache_bytes: gauge("ro_cache_bytes", "Bytes used by checkouts-ro."),
    ro_cache_evictions: counter("ro_cache_evictions_total", "checkouts-ro entries evicted under -ro-cache-budget."),
    janitor_runs: counter("janitor_runs_total", "Janitor ticks by outcome.", "result"),
  };
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #families = registerFamilies(this.#registry);

  /** Registers every family, and every label combination that is known beforehand at 0. */
  constructor(version: string) {
    const { build_info, flush, janitor_runs, fork, fork_mode, rollback, promote } = this.#families;
    build_info.set({ version }, 1);
    for (const result of ["ok", "error"]) {
      for (const kind of ["auto", "manual"]) flush.inc({ result, kind }, 0);
      janitor_runs.inc({ result }, 0);
    }
    for (const path of ["fast", "slow"]) fork.inc({ path }, 0);
    for (const family of [fork_mode, rollback, promote]) {
      for (const mode of ["shared", "materialized"]) family.inc({ mode }, 0);
    }
  }

  get content_type(): string {
    return this.#registry.contentType;
  }

  sessionEvent(event: SessionEvent): void {
    if (event.type !== "flushed" && event.type !== "flush_failed") return;
    const { kind, duration_seconds } = event.detail;
    this.#families.flush.inc({ result: event.type === "flushed" ? "ok" : "error", kind });
    this.#families.flush_duration.observe(duration_seconds);
  }

  forked(fork: { path: CopyPath; mode: StorageMode }, seconds: number): void {
    this.#families.fork.inc({ path: fork.path });
    this.#families.fork_mode.inc({ mode: fork.mode });
    this.#families.fork_duration.observe(seconds);
  }

  repointed(how: "rollback" | "promote", mode: StorageMode): void {
    this.#families[how].inc({ mode });
  }

  /** Counts a checkpoint of a branch without a session. */
  checkpointed(seconds: number, overwrite_detected: boolean): void {
    this.#families.checkpoint_duration.observe(seconds);
    if (overwrite_detected) this.#families.overwrite_detected.inc();
  }

  janitorPassed({ result, reaped, gc, gc_failed, ro_cache }: JanitorPass): void {
    const families = this.#families;
    families.janitor_runs.inc({ result });
    families.reap.inc(reaped);
    if (gc_failed) families.gc_errors.inc();
    if (gc) {
      families.gc_tombstoned.inc(gc.tombstoned);
      families.gc_deleted.inc(gc.deleted);
      families.gc_backlog.set(gc.backlog);
    }
    if (ro_cache) {
      families.ro_cache_bytes.set(ro_cache.bytes);
      families.ro_cache_evictions.inc(ro_cache.evicted);
    }
  }

  /** The text exposition, with the sessions as they are now. */
  async render(sessions: SessionInfo[]): Promise<string> {
    const { sessions_open, capture_lag_bytes, durable_age_seconds } = this.#families;
    capture_lag_bytes.reset();
    durable_age_seconds.reset();
    // One that is being opened, or could not be opened again, has no file.
    const open = sessions.filter(({ checkout }) => checkout !== undefined);
    for (const session of open) {
      const labels = { db: session.db, branch: session.branch };
      // A session whose worker died has neither.
      if (session.capture_lag_bytes !== undefined) capture_lag_bytes.set(labels, session.capture_lag_bytes);
      if (session.durable_age_seconds !== undefined) durable_age_seconds.set(labels, session.durable_age_seconds);
    }
    sessions_open.set(open.length);
    return await this.#registry.metrics();
  }
}

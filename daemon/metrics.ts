/**
 * The daemon's metrics: the 21 families of the contract in the contract's order. Counters and histograms are
 * fed by what happens; gauges about sessions are read at each scrape, so that a closed session's
 * values are absent and not zero.
 *
 * @module
 */

import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { SessionEvent } from "../lib/capture/session.ts";
import type { SessionInfo } from "../lib/protocol/messages.ts";
import type { CopyPath, StorageMode } from "../lib/store/results.ts";

/** Bounds of all histograms in seconds; the contract's numbers. */
export const BUCKETS_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** What one janitor pass did, for the metrics. */
export interface JanitorPass {
  result: "ok" | "error";
  reaped: number;
  /** Absent when the collection failed. */
  gc?: { tombstoned: number; deleted: number; backlog: number };
  /** Whether the collection failed. */
  gc_failed: boolean;
  /** Absent when the cache could not be measured. */
  ro_cache?: { bytes: number; evicted: number };
}

/** All metrics of one daemon. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #sessions_open: Gauge;
  readonly #capture_lag_bytes: Gauge<"db" | "branch">;
  readonly #durable_age_seconds: Gauge<"db" | "branch">;
  readonly #flush_total: Counter<"result" | "kind">;
  readonly #flush_duration: Histogram;
  readonly #fork_total: Counter<"path">;
  readonly #fork_duration: Histogram;
  readonly #fork_mode_total: Counter<"mode">;
  readonly #rollback_total: Counter<"mode">;
  readonly #promote_total: Counter<"mode">;
  readonly #checkpoint_duration: Histogram;
  readonly #overwrite_detected_total: Counter;
  readonly #reap_total: Counter;
  readonly #gc_tombstoned_total: Counter;
  readonly #gc_deleted_total: Counter;
  readonly #gc_backlog: Gauge;
  readonly #gc_errors_total: Counter;
  readonly #ro_cache_bytes: Gauge;
  readonly #ro_cache_evictions_total: Counter;
  readonly #janitor_runs_total: Counter<"result">;

  /** Registers every family, and every label combination that is known beforehand at 0. */
  constructor(version: string) {
    // The order of registration is the order of exposition: the order of the contract's table.
    this.#gauge("build_info", "Always 1; the label is the running build.", ["version"]).set({ version }, 1);
    this.#sessions_open = this.#gauge("sessions_open", "Sessions currently open.");
    this.#capture_lag_bytes = this.#gauge(
      "capture_lag_bytes",
      "Committed WAL bytes not yet applied to the replica. Open sessions only.",
      ["db", "branch"],
    );
    this.#durable_age_seconds = this.#gauge(
      "durable_age_seconds",
      "Seconds since the session's last successful flush. Open sessions only.",
      ["db", "branch"],
    );
    this.#flush_total = this.#counter("flush_total", "Flushes by result and kind.", ["result", "kind"]);
    this.#flush_duration = this.#histogram("flush_duration_seconds", "Flush latency.");
    this.#fork_total = this.#counter("fork_total", "Successful forks by copy path.", ["path"]);
    this.#fork_duration = this.#histogram("fork_duration_seconds", "Successful fork latency.");
    this.#fork_mode_total = this.#counter("fork_mode_total", "Successful forks by storage mode.", ["mode"]);
    this.#rollback_total = this.#counter("rollback_total", "Successful rollbacks by storage mode.", ["mode"]);
    this.#promote_total = this.#counter("promote_total", "Successful promotes by storage mode.", ["mode"]);
    this.#checkpoint_duration = this.#histogram("checkpoint_duration_seconds", "At-rest checkpoint latency.");
    this.#overwrite_detected_total = this.#counter(
      "checkpoint_overwrite_detected_total",
      "At-rest checkpoints that committed but found the store head may not be their own content.",
    );
    this.#reap_total = this.#counter("reap_total", "Branches reaped (TTL-expired, destroyed) by the janitor.");
    this.#gc_tombstoned_total = this.#counter("gc_tombstoned_total", "Objects newly tombstoned by a GC pass.");
    this.#gc_deleted_total = this.#counter("gc_deleted_total", "Objects deleted by GC after their grace period.");
    this.#gc_backlog = this.#gauge("gc_backlog", "Tombstoned objects currently inside their grace period.");
    this.#gc_errors_total = this.#counter("gc_errors_total", "Janitor GC passes that returned an error.");
    this.#ro_cache_bytes = this.#gauge("ro_cache_bytes", "Bytes used by checkouts-ro.");
    this.#ro_cache_evictions_total = this.#counter(
      "ro_cache_evictions_total",
      "checkouts-ro entries evicted under -ro-cache-budget.",
    );
    this.#janitor_runs_total = this.#counter("janitor_runs_total", "Janitor ticks by outcome.", ["result"]);
    for (const result of ["ok", "error"]) {
      for (const kind of ["auto", "manual"]) this.#flush_total.inc({ result, kind }, 0);
      this.#janitor_runs_total.inc({ result }, 0);
    }
    for (const path of ["fast", "slow"]) this.#fork_total.inc({ path }, 0);
    for (const family of [this.#fork_mode_total, this.#rollback_total, this.#promote_total]) {
      for (const mode of ["shared", "materialized"]) family.inc({ mode }, 0);
    }
  }

  /** Type of {@linkcode render}'s text. */
  get content_type(): string {
    return this.#registry.contentType;
  }

  /** Counts a session's flushes. */
  sessionEvent(event: SessionEvent): void {
    if (event.type !== "flushed" && event.type !== "flush_failed") return;
    const { kind, duration_seconds } = event.detail;
    this.#flush_total.inc({ result: event.type === "flushed" ? "ok" : "error", kind });
    this.#flush_duration.observe(duration_seconds);
  }

  /** Counts a successful fork. */
  forked(fork: { path: CopyPath; mode: StorageMode }, seconds: number): void {
    this.#fork_total.inc({ path: fork.path });
    this.#fork_mode_total.inc({ mode: fork.mode });
    this.#fork_duration.observe(seconds);
  }

  /** Counts a successful rollback. */
  rolledBack(mode: StorageMode): void {
    this.#rollback_total.inc({ mode });
  }

  /** Counts a successful promote. */
  promoted(mode: StorageMode): void {
    this.#promote_total.inc({ mode });
  }

  /** Counts a checkpoint of a branch without a session. */
  checkpointed(seconds: number, overwrite_detected: boolean): void {
    this.#checkpoint_duration.observe(seconds);
    if (overwrite_detected) this.#overwrite_detected_total.inc();
  }

  /** Counts a pass of the janitor. */
  janitorPassed(pass: JanitorPass): void {
    this.#janitor_runs_total.inc({ result: pass.result });
    this.#reap_total.inc(pass.reaped);
    if (pass.gc_failed) this.#gc_errors_total.inc();
    if (pass.gc) {
      this.#gc_tombstoned_total.inc(pass.gc.tombstoned);
      this.#gc_deleted_total.inc(pass.gc.deleted);
      this.#gc_backlog.set(pass.gc.backlog);
    }
    if (pass.ro_cache) {
      this.#ro_cache_bytes.set(pass.ro_cache.bytes);
      this.#ro_cache_evictions_total.inc(pass.ro_cache.evicted);
    }
  }

  /** The text exposition, with the sessions as they are now. */
  async render(sessions: SessionInfo[]): Promise<string> {
    this.#capture_lag_bytes.reset();
    this.#durable_age_seconds.reset();
    let open = 0;
    for (const session of sessions) {
      if (session.state === "pending") continue;
      open++;
      const { db, branch, capture_lag_bytes, durable_age_seconds } = session;
      // A session whose worker died has neither.
      if (capture_lag_bytes !== undefined) this.#capture_lag_bytes.set({ db, branch }, capture_lag_bytes);
      if (durable_age_seconds !== undefined) this.#durable_age_seconds.set({ db, branch }, durable_age_seconds);
    }
    this.#sessions_open.set(open);
    return await this.#registry.metrics();
  }

  #gauge<L extends string>(name: string, help: string, labelNames: readonly L[] = []): Gauge<L> {
    return new Gauge({ name: `bstore_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #counter<L extends string>(name: string, help: string, labelNames: readonly L[] = []): Counter<L> {
    return new Counter({ name: `bstore_${name}`, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string): Histogram {
    return new Histogram({ name: `bstore_${name}`, help, buckets: BUCKETS_SECONDS, registers: [this.#registry] });
  }
}

/**
 * Metrics beyond the contract's 21 families, served at `/metrics/more`. A part of the daemon that counts something of
 * its own has a family here; what is known beforehand begins at 0. docs/reference/metrics.md is written from them.
 */

import { Registry } from "prom-client";
import type { SessionEvent } from "../lib/capture/session.ts";
import type { OpAnswer, SessionInfo } from "../lib/protocol/messages.ts";
import type { FoldResult, HistoryCost, ScrubResult } from "../lib/store/results.ts";
import { familiesOf } from "./metrics.ts";

/** Every further family; the order is that of exposition. */
function registerFamilies(registry: Registry) {
  const { gauge, counter } = familiesOf(registry);
  return {
    failed: gauge(
      "session_failed",
      "1 for each session in error, and for each that could not be opened again.",
      "db",
      "branch",
    ),
    retaken: counter("lease_retaken_total", "Leases that sessions took again after a pause."),
    rebases: counter("session_rebases_total", "Times that sessions had to start over from a full copy."),
    stepped_aside: counter(
      "session_stepped_aside_total",
      "Times that sessions let go of a log for the application's checkpoints, until the next flush.",
    ),
    merges: counter("merges_total", "Merges and reverts that changed a branch.", "op"),
    merge_conflicts: counter("merge_conflicts_total", "Conflicts for which a merge or revert changed nothing.", "op"),
    merge_locked: counter("merge_locked_seconds_total", "Time for which merges and reverts held the write lock.", "op"),
    scrubbed_objects: counter("scrub_objects_total", "Objects and cached copies that scrubbing has read."),
    scrubbed_bytes: counter("scrub_bytes_total", "Their bytes."),
    scrub_damaged: gauge(
      "scrub_damaged",
      "Damaged objects, records and points that scrubbing has met and not found whole since.",
    ),
    history_points: gauge("history_points", "Points of a branch's past that are kept.", "db", "branch"),
    history_bytes: gauge("history_bytes", "Bytes of stored objects that these alone need.", "db", "branch"),
    history_folded: counter("history_folded_points_total", "Points of the past that were folded."),
    history_pruned: counter("history_pruned_points_total", "Points of the past that are kept no more."),
    history_stored: counter("history_stored_bytes_total", "Bytes stored to fold points."),
    scrub_finished: gauge(
      "scrub_finished_timestamp_seconds",
      "When this daemon had read everything last, in seconds since 1970; 0 until then.",
    ),
  };
}

export class MoreMetrics {
  readonly #registry = new Registry();
  readonly #families = registerFamilies(this.#registry);

  constructor() {
    const { merges, merge_conflicts, merge_locked } = this.#families;
    for (const family of [merges, merge_conflicts, merge_locked]) {
      for (const op of ["merge", "revert"]) family.inc({ op }, 0);
    }
  }

  sessionEvent(event: SessionEvent): void {
    if (event.type === "lease_retaken") this.#families.retaken.inc();
    if (event.type === "rebase") this.#families.rebases.inc();
    if (event.type === "stepped_aside") this.#families.stepped_aside.inc();
  }

  merged(op: "merge" | "revert", { merge, conflicts_total, locked_ms }: OpAnswer<"merge">): void {
    if (merge !== undefined) this.#families.merges.inc({ op });
    if (conflicts_total > 0) this.#families.merge_conflicts.inc({ op }, conflicts_total);
    if (locked_ms > 0) this.#families.merge_locked.inc({ op }, locked_ms / 1000);
  }

  scrubbed({ objects, bytes, damaged, finished }: ScrubResult, now_ms: number): void {
    this.#families.scrubbed_objects.inc(objects);
    this.#families.scrubbed_bytes.inc(bytes);
    this.#families.scrub_damaged.set(damaged);
    if (finished) this.#families.scrub_finished.set(now_ms / 1000);
  }

  historyKept(history: readonly HistoryCost[]): void {
    const { history_points, history_bytes } = this.#families;
    history_points.reset();
    history_bytes.reset();
    for (const { db, branch, points, bytes } of history) {
      history_points.set({ db, branch }, points);
      history_bytes.set({ db, branch }, bytes);
    }
  }

  historyFolded({ folded, pruned, stored_bytes }: FoldResult): void {
    this.#families.history_folded.inc(folded);
    this.#families.history_pruned.inc(pruned);
    this.#families.history_stored.inc(stored_bytes);
  }

  /** The text exposition, with the sessions as they are now. */
  async render(sessions: SessionInfo[]): Promise<string> {
    this.#families.failed.reset();
    for (const { db, branch, state } of sessions) if (state === "error") this.#families.failed.set({ db, branch }, 1);
    return await this.#registry.metrics();
  }
}

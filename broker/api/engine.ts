/**
 * What the listeners ask of the engine: the broker's operations, without HTTP. The
 * server and the web pages know nothing else of it, so both are tested with an engine
 * of the test's own.
 *
 * Ids are whole ids here; a caller that takes a prefix from a person resolves it first.
 */

import type { PolicyView } from "../settings/policy_view.ts";
import type { SpendFigures, SubmitRequest, TaskRecord, TrustBrief } from "../task/schema.ts";
import type { TaskStore } from "../task/task_store.ts";
import type { CeilingView, Health, PendingTask, QueueItemView, TaskView } from "./wire.ts";

/** A running broker. Every method throws a `TaskdError`, whose code decides the HTTP status. */
export interface BrokerEngine {
  /** Every task: lists, records, rows, prefixes. Readers only read. */
  readonly tasks: TaskStore;

  /**
   * Admits and begins a task; resolves when its first row is on the disk.
   *
   * @throws {TaskdError} `invalid_request`, `at_capacity`, `ceiling_reached`, `no_space`, `unavailable`.
   */
  submit(request: SubmitRequest): Promise<TaskRecord>;

  /** A task again, from its order, as a new one with `retry_of`; throws as {@linkcode submit}, and `not_found`. */
  retry(id: string): Promise<TaskRecord>;

  /** A whole record with what only the running broker knows. */
  view(id: string): Promise<TaskView>;

  /** What the task's gateway lease has metered; undefined when it holds none. */
  liveSpend(id: string): SpendFigures | undefined;

  /** Calls back with each settled request of any task, until the returned function is called. */
  onSpend(listener: (task_id: string, spend: SpendFigures) => void): () => void;

  /**
   * The diff that a person reads, cut at 4 MiB; throws `not_found` before there is one. What the gate names is the digest
   * of the whole change (docs/explanation/approval.md), not of these bytes.
   */
  diff(id: string): Promise<Uint8Array<ArrayBuffer>>;

  /** What the broker established; throws `not_found` before there is anything. */
  brief(id: string): Promise<TrustBrief>;

  /** Tasks at the gate, oldest first. */
  pending(): PendingTask[];

  /** Approves; throws `wrong_state`, `stale_diff` or `expired`, `not_acknowledged` with `missing`. */
  approve(id: string, request: { diff_sha256: string; acknowledge: readonly string[] }): Promise<void>;

  /** Denies; throws as {@linkcode approve}. */
  deny(id: string, reason: string): Promise<void>;

  /** Ends a task in any stage before the push; throws `wrong_state`. */
  kill(id: string, reason: string): Promise<void>;

  /** Removes the traces, diffs and logs of tasks that ended before `before_ms`; returns their ids. */
  prune(options: { before_ms: number; dry_run: boolean }): Promise<string[]>;

  policy(): PolicyView;
  ceiling(): CeilingView;

  /** Adds to the queue; durable when it resolves. */
  enqueue(request: SubmitRequest): Promise<QueueItemView>;
  /** The queue, oldest first. */
  queue(): QueueItemView[];
  /** Takes an item off the queue, or ends its task; throws `not_found` or `wrong_state`. */
  cancelQueued(id: string): Promise<void>;

  health(): Health;

  /** The metrics in Prometheus text format. */
  metrics(): Promise<string>;
}

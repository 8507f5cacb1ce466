/**
 * What the listeners ask of the engine: the broker's operations, without HTTP. The server and the web pages know
 * nothing else of it, so both are tested with an engine of the test's own.
 *
 * Ids are whole ids here; a caller that takes a prefix from a person resolves it first.
 */

import type { PushRequest } from "../task/decisions.ts";
import type { ApprovalRequest } from "../task/approval.ts";
import type { PolicyView } from "../settings/policy_view.ts";
import type { SpendFigures, SubmitRequest, TaskOrder, TaskRecord, TrustBrief } from "../task/schema.ts";
import type { Decider } from "../task/stages.ts";
import type { TaskStore } from "../task/task_store.ts";
import type {
  BasesView,
  CeilingView,
  DatabaseDiffQuery,
  DatabaseRows,
  EgressGrantRequest,
  Health,
  PendingTask,
  Pruned,
  QueueItemView,
  TaskView,
  Verification,
} from "./wire.ts";

/** How a task was submitted, as far as it decides what the task may ask for, and by whose token. */
export type Submitter = Pick<TaskOrder, "over_network" | "submitted_by">;

/** A running broker. Every method throws a `TaskdError`, whose code decides the HTTP status. */
export interface BrokerEngine {
  /** Every task: lists, records, rows, prefixes. Readers only read. */
  readonly tasks: TaskStore;

  /**
   * Admits and begins a task; resolves when its first row is on the disk.
   *
   * @throws {TaskdError} `invalid_request`, `at_capacity`, `ceiling_reached`, `no_space`, `unavailable`.
   */
  submit(request: SubmitRequest, origin?: Submitter): Promise<TaskRecord>;

  /** A task again, from its order, as a new one with `retry_of`; throws as {@linkcode submit}, and `not_found`. */
  retry(id: string, origin?: Submitter): Promise<TaskRecord>;

  /** A whole record with what only the running broker knows. */
  view(id: string): Promise<TaskView>;

  /** What the task's gateway lease has metered; undefined when it holds none. */
  liveSpend(id: string): SpendFigures | undefined;

  /** Calls back with each settled request of any task, until the returned function is called. */
  onSpend(listener: (task_id: string, spend: SpendFigures) => void): () => void;

  /**
   * The diff that a person reads, cut at 4 MiB; throws `not_found` before there is one, `altered`. What the gate names is
   * the digest of all that would happen (docs/explanation/approval.md), not of these bytes.
   */
  diff(id: string): Promise<Uint8Array<ArrayBuffer>>;

  /** What the broker established; throws `not_found` before there is anything, `altered`. */
  brief(id: string): Promise<TrustBrief>;

  /**
   * A page of the rows of a database that a task changed, between the two points that its gate is bound to; throws
   * `not_found` where it changed none, and once they are gone from the branch store.
   */
  databaseDiff(id: string, query: DatabaseDiffQuery, signal: AbortSignal): Promise<DatabaseRows>;

  /** What an approval has led to, verified from the task's record alone; throws `not_found`. */
  verification(id: string): Promise<Verification>;

  /** What has happened since to what the task's change was made from; asks the code host and the branch store. */
  bases(id: string): Promise<BasesView>;

  pending(): PendingTask[];

  /** Approves; throws `wrong_state`, `stale_diff`, `altered` or `expired`, `not_acknowledged` with `missing`. */
  approve(id: string, request: ApprovalRequest): Promise<void>;

  /** Denies; throws as {@linkcode approve}. */
  deny(id: string, reason: string, by?: Decider): Promise<void>;

  /**
   * Begins another round for what waits in `push_failed` or `data_waits`; throws `wrong_state`, and `invalid_request` for a
   * decision of something that is not in conflict.
   */
  push(id: string, request?: PushRequest): Promise<void>;

  /** Ends a task in any stage before the push, or gives up what waits to land; throws `wrong_state`. */
  kill(id: string, reason: string, by?: Decider): Promise<void>;

  /**
   * Opens a host to a task beside the egress list, once that is on the disk; throws `wrong_state` while it has no way out,
   * `invalid_request` for what may not be listed.
   */
  grantEgress(id: string, request: EgressGrantRequest, by?: Decider): Promise<void>;

  /** Removes the traces, diffs and logs of tasks that ended before `before_ms`, and mirrors not used since. */
  prune(options: { before_ms: number; dry_run: boolean }): Promise<Pruned>;

  policy(): PolicyView;
  ceiling(): CeilingView;

  /** Adds to the queue; durable when it resolves. */
  enqueue(request: SubmitRequest, origin?: Submitter): Promise<QueueItemView>;
  queue(): QueueItemView[];
  /** Takes an item off the queue, or ends its task; throws `not_found` or `wrong_state`. */
  cancelQueued(id: string, by?: Decider): Promise<void>;

  health(): Health;

  metrics(): Promise<string>;
}

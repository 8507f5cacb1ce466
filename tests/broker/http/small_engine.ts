/**
 * An engine in memory, on a real store of tasks, for tests of the listeners and of what stands on them.
 */

import { openConflicts } from "../../../broker/databases/evidence.ts";
import { decideAsRead, type PushRequest } from "../../../broker/task/decisions.ts";
import { buildBrief } from "../../../broker/task/brief.ts";
import type { BrokerEngine, Submitter } from "../../../broker/api/engine.ts";
import {
  type BasesView,
  type CeilingView,
  type DatabaseDiffQuery,
  type DatabaseRows,
  type EgressGrantRequest,
  type Health,
  type PendingTask,
  type Pruned,
  type QueueItemView,
  taskLinks,
  type TaskView,
  type Verification,
} from "../../../broker/api/wire.ts";
import type { SpendFigures, SubmitRequest, TaskRecord, TrustBrief } from "../../../broker/task/schema.ts";
import type { ApprovalRequest } from "../../../broker/task/approval.ts";
import type { PolicyView } from "../../../broker/settings/policy_view.ts";
import { type Decider, isWaiting } from "../../../broker/task/stages.ts";
import type { Task } from "../../../broker/task/task.ts";
import type { TaskStore } from "../../../broker/task/task_store.ts";
import { TaskdError } from "../../../lib/errors.ts";

/** A spend of so many cents. */
export function spendOf(cents: number): SpendFigures {
  return {
    usd: cents / 100,
    requests: cents,
    unmetered_requests: 0,
    input_tokens: 1,
    output_tokens: 1,
    priced: true,
  };
}

/** An engine that does nothing by itself: tests move its tasks. */
export class SmallEngine implements BrokerEngine {
  readonly tasks: TaskStore;
  readonly live = new Map<string, SpendFigures>();
  readonly diffs = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly items: QueueItemView[] = [];
  readonly listeners = new Set<(task_id: string, spend: SpendFigures) => void>();
  /** What was asked for, in order. */
  readonly asked: unknown[] = [];
  /** Thrown by whatever is asked next. */
  refusal: unknown;
  /** What a submission waits for. */
  held: Promise<void> = Promise.resolve();

  constructor(tasks: TaskStore) {
    this.tasks = tasks;
  }

  #note(...what: unknown[]): void {
    this.asked.push(what);
    const { refusal } = this;
    this.refusal = undefined;
    if (refusal !== undefined) throw refusal;
  }

  async submit(request: SubmitRequest, origin: Submitter = {}): Promise<TaskRecord> {
    this.#note("submit", request);
    await this.held;
    const { agent = "agent_a", ...rest } = request;
    return (await this.tasks.create({ agent, ...rest, ...origin })).record;
  }

  async retry(id: string, origin: Submitter = {}): Promise<TaskRecord> {
    this.#note("retry", id);
    const { repo, instruction, agent } = this.tasks.read(id);
    return (await this.tasks.create({ repo, instruction, agent, retry_of: id, ...origin })).record;
  }

  async view(id: string): Promise<TaskView> {
    this.#note("view", id);
    const record = await this.tasks.load(id);
    const live = this.live.get(id);
    const trace = { intact: true as const, rows: record.seq };
    const refused_egress = [{ target: "evil.example:443", reason: "not on the list", hint: "egress.yaml" }];
    return { ...record, ...(live && { live }), trace, refused_egress, links: taskLinks(id) };
  }

  liveSpend(id: string): SpendFigures | undefined {
    return this.live.get(id);
  }

  onSpend(listener: (task_id: string, spend: SpendFigures) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Meters something. */
  spend(id: string, spend: SpendFigures): void {
    this.live.set(id, spend);
    for (const listener of this.listeners) listener(id, spend);
  }

  // deno-lint-ignore require-await
  async diff(id: string): Promise<Uint8Array<ArrayBuffer>> {
    this.#note("diff", id);
    const diff = this.diffs.get(id);
    if (diff === undefined) throw new TaskdError("not_found", "Cannot show the diff: there is none yet");
    return diff;
  }

  // deno-lint-ignore require-await
  async brief(id: string): Promise<TrustBrief> {
    this.#note("brief", id);
    const { repo, instruction, agent } = this.tasks.read(id);
    return buildBrief({ task_id: id, repo, instruction, agent });
  }

  // deno-lint-ignore require-await
  async verification(id: string): Promise<Verification> {
    this.#note("verification", id);
    const { seq } = this.tasks.read(id);
    return { id, verified: true, checks: [{ what: "trace", holds: true, detail: `${seq} rows` }] };
  }

  /** What is answered of changed rows. */
  rows: (query: DatabaseDiffQuery) => DatabaseRows = () => ({ rows: [] });

  // deno-lint-ignore require-await
  async databaseDiff(id: string, query: DatabaseDiffQuery): Promise<DatabaseRows> {
    this.#note("databaseDiff", id, query);
    return this.rows(query);
  }

  /** What is said of a task's bases. */
  readonly base_notes: string[] = [];

  bases(_id: string): Promise<BasesView> {
    return Promise.resolve({ notes: this.base_notes });
  }

  pending(): PendingTask[] {
    this.#note("pending");
    return this.tasks.list({ stage: "awaiting_approval" }).map(({ id }) => {
      const { repo, instruction, agent, stage_since, gate } = this.tasks.read(id);
      const facts = { files_changed: 1, lines_changed: 2, sensitive: false };
      return { id, repo, instruction, agent, since: stage_since, gate: gate!, ...facts };
    });
  }

  async approve(id: string, request: ApprovalRequest): Promise<void> {
    this.#note("approve", id, request);
    await this.#task(id).approve(request);
  }

  async deny(id: string, reason: string, by?: Decider): Promise<void> {
    this.#note("deny", id, reason);
    await this.#task(id).deny(reason, by);
  }

  async push(id: string, { by, ...request }: PushRequest = {}): Promise<void> {
    this.#note("push", id);
    const task = this.#task(id);
    const { stage } = task.record;
    if (!isWaiting(stage)) throw new TaskdError("wrong_state", `It is in ${stage}`);
    const decisions = decideAsRead(openConflicts(task.record), request);
    await task.move({ from: stage, to: "pushing", reason: "a person asked for it", decisions, ...(by && { by }) });
  }

  async kill(id: string, reason: string, by?: Decider): Promise<void> {
    this.#note("kill", id, reason);
    const task = this.#task(id);
    if (task.record.stage !== "running") throw new TaskdError("wrong_state", `It is in ${task.record.stage}`);
    await task.move({ from: "running", to: "done", outcome: "cancelled", reason, ...(by && { by }) });
  }

  // deno-lint-ignore require-await
  async grantEgress(id: string, request: EgressGrantRequest, by?: Decider): Promise<void> {
    this.#note("grantEgress", id, request, by);
    if (this.#task(id).record.stage !== "running") throw new TaskdError("wrong_state", "It does not run");
  }

  #task(id: string): Task {
    const task = this.tasks.live(id);
    if (task === undefined) throw new TaskdError("not_found", "There is no such task");
    return task;
  }

  // deno-lint-ignore require-await
  async prune(options: { before_ms: number; dry_run: boolean }): Promise<Pruned> {
    this.#note("prune", options);
    const mirrors = [{ repo: "https://code.example/a", bytes: 1, last_used_at: "2026-01-01T00:00:00.000Z" }];
    return { pruned: ["aa".repeat(16)], mirrors, dry_run: options.dry_run };
  }

  policy(): PolicyView {
    this.#note("policy");
    return { fields: [{ setting: "network", value: "taskd-egress", source: "default" }], hash: "0".repeat(64) };
  }

  ceiling(): CeilingView {
    this.#note("ceiling");
    const limb = { blocked: false, reason: "" };
    return {
      enabled: true,
      window: "24h",
      window_ms: 86_400_000,
      budget_usd: 5,
      spent_usd: 1,
      headroom_usd: 4,
      max_tasks: 0,
      recorded_starts: 1,
      in_flight_starts: 0,
      starts: 1,
      headroom_starts: null,
      usd: limb,
      tasks: limb,
      damaged: 0,
      oldest_entry: null,
      newest_entry: null,
    };
  }

  // deno-lint-ignore require-await
  async enqueue({ repo, instruction, agent = "agent_a" }: SubmitRequest): Promise<QueueItemView> {
    this.#note("enqueue");
    const id = `${this.items.length}`.padStart(2, "0") + "c".repeat(30);
    const at = "2026-01-01T00:00:00.000Z";
    const item = { id, state: "queued" as const, repo, instruction, agent, queued_at: at, updated_at: at };
    this.items.push(item);
    return item;
  }

  queue(): QueueItemView[] {
    this.#note("queue");
    return this.items;
  }

  // deno-lint-ignore require-await
  async cancelQueued(id: string): Promise<void> {
    this.#note("cancelQueued", id);
    const at = this.items.findIndex((item) => item.id === id);
    if (at < 0) throw new TaskdError("not_found", "There is no such item");
    this.items.splice(at, 1);
  }

  health(): Health {
    this.#note("health");
    const started_at = "2026-01-01T00:00:00.000Z";
    return { ok: true, version: "1", pid: 1, runtime: "deno", started_at, running: 0, pending: 0 };
  }

  // deno-lint-ignore require-await
  async metrics(): Promise<string> {
    this.#note("metrics");
    return "taskd_tasks 1\n";
  }
}

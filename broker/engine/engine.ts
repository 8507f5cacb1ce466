/**
 * The broker's engine: every task of this broker, from its submission to its outcome, and what people may do to it.
 *
 * A task is admitted and on the disk before anything is done for it; a task at the gate holds no slot and survives any
 * restart; what is pushed is what was approved; whatever happens to the broker, the next one finds in the traces what
 * to do.
 */

import * as v from "valibot";
import { withDeadline } from "../../lib/deadline.ts";
import { hasCode, stackOf, TaskdError } from "../../lib/errors.ts";
import { parseJson } from "../../lib/text/json.ts";
import { VERSION } from "../../lib/version.ts";
import type { StartClaim } from "../admission/admission.ts";
import type { BrokerEngine, Submitter } from "../api/engine.ts";
import { readable } from "../api/readable.ts";
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
} from "../api/wire.ts";
import {
  requestOf,
  type SpendFigures,
  type SubmitRequest,
  type TaskRecord,
  TRUST_BRIEF,
  type TrustBrief,
} from "../task/schema.ts";
import type { EgressDecision } from "../egress/decision.ts";
import type { GatewayLease, Settlement } from "../gateway/lease.ts";
import type { PushRequest } from "../task/decisions.ts";
import { type ApprovalRequest, standing } from "../task/approval.ts";
import { BrokerMetrics } from "./metrics.ts";
import { policyView } from "../settings/explain.ts";
import type { PolicyView } from "../settings/policy_view.ts";
import type { Decider } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import type { TaskStore } from "../task/task_store.ts";
import { basesNow } from "./bases.ts";
import { Background } from "./background.ts";
import { checkData, readRows, sweepData } from "./database_stages.ts";
import { LateStages } from "./late_stages.ts";
import { planTask, type TaskPlan } from "./task_plan.ts";
import type { EngineDeps, TaskOrigin, TaskQueue } from "./engine_deps.ts";
import { reachRepo } from "./repo_address.ts";
import { removeLeftovers } from "./restore.ts";
import { keptFile, pendingTask, pruneTasks, taskView } from "./views.ts";
import { verifyApproval } from "./verification.ts";
import { figures, TaskWork } from "./task_work.ts";
import { plural } from "../../lib/text/plural.ts";

const NO_REASON = "a person ended it and gave no reason";
/** How long ending a task waits while it leaves its stage: a large work tree is removed meanwhile. */
const WRITTEN_MS = 10_000;

export class Engine implements BrokerEngine {
  readonly #deps: EngineDeps;
  #queue: TaskQueue | undefined;
  readonly #metrics: BrokerMetrics;
  readonly #started_at: string;
  readonly #works = new Map<string, TaskWork>();
  readonly #claims = new Map<string, StartClaim>();
  readonly #background: Background;
  readonly #spend_listeners = new Set<(task_id: string, spend: SpendFigures) => void>();
  /** By task: questions to code host and branch store that are not answered yet. */
  readonly #bases = new Map<string, Promise<BasesView>>();
  readonly #over = new AbortController();
  readonly #late: LateStages;

  private constructor(deps: EngineDeps) {
    this.#deps = deps;
    this.#background = new Background((error) => {
      const text = error instanceof TaskdError ? error.message : stackOf(error);
      deps.log("error", "background_failed", `work in the background failed: ${text}`);
    });
    this.#started_at = new Date(deps.clock.now()).toISOString();
    this.#metrics = new BrokerMetrics(VERSION, () => ({
      running: this.#works.size,
      pending: this.#atGate().length,
      waiting: Map.groupBy(deps.tasks.unfinished(), ({ stage }) => stage),
      slots: deps.resolved.settings.max_concurrent_tasks,
      ceiling: deps.admission.ceiling(),
      queue: this.#queue?.list() ?? [],
      disk_bytes: deps.room.taken,
      stage_free_bytes: deps.room.free(),
    }));
    this.#late = new LateStages(deps, {
      ci: deps.ci?.(this),
      background: this.#background,
      claims: this.#claims,
      over: AbortSignal.any([this.#over.signal, ...deps.signal === undefined ? [] : [deps.signal]]),
      onEnded: (outcome) => this.#metrics.ended(outcome),
    });
    deps.tasks.onChange((change) => {
      const { rows, record } = change;
      this.#metrics.changed(change);
      for (const row of rows) {
        if (row.type !== "stage") continue;
        const to = row.outcome === undefined ? row.to : `${row.to} (${row.outcome})`;
        const reason = row.reason === undefined ? "" : `: ${row.reason}`;
        deps.log("info", "task_stage", `task ${record.id} came to ${to}${reason}`, {
          task_id: record.id,
          stage: row.to,
          outcome: row.outcome,
        });
      }
    });
  }

  /**
   * Takes over what an earlier broker left, and is then ready. Its sandboxes must be swept already.
   *
   * @throws {TaskdError} when scratch of an earlier broker cannot be looked at.
   */
  static async open(deps: EngineDeps): Promise<Engine> {
    const engine = new Engine(deps);
    for (const { id, fault } of deps.tasks.damaged()) {
      const message = `the trace of ${id} is ${fault.problem} at row ${fault.seq}: it is left as it is`;
      deps.log("error", "trace_damaged", message, { task_id: id });
    }
    try {
      await engine.#late.restore(deps.tasks.unfinished().map(({ id }) => id));
      const keep = new Set(deps.tasks.unfinished().map(({ id }) => id));
      const gone = await removeLeftovers(deps, keep);
      if (gone.length > 0) {
        deps.log("info", "leftovers_removed", `removed scratch of ${plural(gone.length, "ended task")}`);
      }
      engine.#background.go(() => sweepData(deps));
      // It starts tasks by itself: only now is it known which slots are free.
      engine.#queue = deps.queue?.(engine);
      return engine;
    } catch (error) {
      // What was taken over goes on by itself: gates, pushes, watches.
      await engine.stop();
      throw error;
    }
  }

  get tasks(): TaskStore {
    return this.#deps.tasks;
  }

  submit(request: SubmitRequest, origin: TaskOrigin = {}): Promise<TaskRecord> {
    return this.#begin(request, origin);
  }

  retry(id: string, { over_network, submitted_by }: Submitter = {}): Promise<TaskRecord> {
    const record = this.tasks.read(id);
    const network = over_network ?? record.over_network;
    return this.#begin(requestOf(record), {
      retry_of: id,
      ...(network === undefined ? {} : { over_network: network }),
      ...(submitted_by === undefined ? {} : { submitted_by }),
    });
  }

  async #begin(request: SubmitRequest, origin: TaskOrigin): Promise<TaskRecord> {
    const { resolved, runtime, admission, tasks, room } = this.#deps;
    this.#refuseWhenStopping();
    const plan = planTask(request, {
      settings: resolved.settings,
      runtime,
      origin,
    });
    if (origin.over_network) await reachRepo(this.#deps, plan.order, "fetch");
    await this.#checkCredential(plan);
    await checkData(this.#deps, request.databases);
    const low = await room.low();
    this.#refuseWhenStopping();
    const { agent, auth } = plan;
    let claim: StartClaim;
    try {
      if (low !== undefined) {
        const hint = "Make room there; tasks that run already go on";
        throw new TaskdError("no_space", `Cannot start the task: ${low}`, { hint });
      }
      claim = admission.claim({
        lane: agent.lane,
        auth,
        agent: agent.name,
        ...(origin.retry_of === undefined ? {} : { retry_of: origin.retry_of }),
      });
    } catch (error) {
      // An item of the queue is not refused: it waits, and is tried again.
      const counts = origin.queue_id === undefined && hasCode(error, "at_capacity", "ceiling_reached", "no_space");
      if (counts) this.#metrics.refused(error.code);
      throw error;
    }
    let task: Task;
    const creating = tasks.create(plan.order);
    // A stop waits for it: what is on the disk by then ends with a reason.
    this.#background.go(() => creating.then(() => {}, () => {}));
    try {
      task = await creating;
    } catch (error) {
      claim.abandon();
      throw error;
    }
    const { record } = task;
    claim.begin(task.id, record.created_at);
    this.#claims.set(task.id, claim);
    this.#metrics.started();
    this.#work(task, plan);
    return record;
  }

  #refuseWhenStopping(): void {
    this.#over.signal.throwIfAborted();
  }

  async #checkCredential({ agent, auth }: TaskPlan): Promise<void> {
    const problem = await this.#deps.credentialProblem(agent.lane, auth);
    if (problem === undefined) return;
    throw new TaskdError("auth_failed", `Cannot take the task for ${agent.name} (${agent.label}): ${problem}`, {
      hint: "`taskd setup` asks for what is missing",
    });
  }

  #work(task: Task, plan: TaskPlan): void {
    const work = new TaskWork(this.#deps, task, plan, () => this.#claims.get(task.id)?.releaseSlot());
    this.#works.set(task.id, work);
    if (this.#over.signal.aborted) work.abandon();
    this.#background.go(async () => {
      await work.finished;
      this.#works.delete(task.id);
      if (task.record.stage === "awaiting_approval") await this.#late.keepGate(task);
      else await this.#late.settle(task);
    });
  }

  async approve(id: string, request: ApprovalRequest): Promise<void> {
    this.#refuseWhenStopping();
    await this.#background.call(() => this.#late.approve(id, request));
  }

  async deny(id: string, reason: string, by?: Decider): Promise<void> {
    this.#refuseWhenStopping();
    await this.#background.call(() => this.#late.deny(id, given(reason), by));
  }

  async push(id: string, request: PushRequest = {}): Promise<void> {
    this.#refuseWhenStopping();
    await this.#background.call(() => this.#late.push(id, request));
  }

  async kill(id: string, reason: string, by?: Decider): Promise<void> {
    const work = this.#works.get(id);
    if (work?.end("cancelled", given(reason), by)) return;
    if (work !== undefined) await this.#untilWritten(work);
    await this.#background.call(() => this.#late.cancel(id, given(reason), by));
  }

  async grantEgress(id: string, request: EgressGrantRequest, by?: Decider): Promise<void> {
    const work = this.#works.get(id);
    if (work !== undefined) return await work.grantEgress(request, by);
    throw new TaskdError("wrong_state", `Cannot grant the task ${id} a host: it is ${standing(this.tasks.read(id))}`, {
      hint: "A task reaches out only while its setup and its agent run",
    });
  }

  /** Waits until a task's decided move is written, no longer than that takes while the disk has room. */
  async #untilWritten({ finished, task }: TaskWork): Promise<void> {
    await withDeadline(finished, this.#deps.clock, WRITTEN_MS).catch(() => {
      const { id, stage } = task.record;
      throw new TaskdError(
        "unavailable",
        `Cannot end the task ${id}: it leaves ${stage}, and that is not written yet`,
        {
          hint: "Try again; if it stays so, the broker's log says what keeps it, such as a disk that is full",
        },
      );
    });
  }

  view(id: string): Promise<TaskView> {
    return taskView(this.tasks, id, () => this.#works.get(id)?.live());
  }

  liveSpend(id: string): SpendFigures | undefined {
    return this.#works.get(id)?.spend();
  }

  onSpend(listener: (task_id: string, spend: SpendFigures) => void): () => void {
    this.#spend_listeners.add(listener);
    return () => this.#spend_listeners.delete(listener);
  }

  settled(lease: GatewayLease, settlement: Settlement): void {
    this.#metrics.settled(settlement);
    const spend = figures(lease.spend());
    // The ceiling and the pages show it once it is on the disk: nothing that was shown is taken back.
    const noted = this.#works.get(settlement.task_id)?.spend_noted ?? Promise.resolve();
    void noted.then(() => {
      this.#deps.admission.settled(settlement);
      for (const listener of this.#spend_listeners) listener(settlement.task_id, spend);
    });
  }

  decided(decision: EgressDecision): void {
    this.#metrics.decided(decision);
  }

  async diff(id: string): Promise<Uint8Array<ArrayBuffer>> {
    return await keptFile(this.tasks, id, "diff");
  }

  async brief(id: string): Promise<TrustBrief> {
    const brief = v.safeParse(readable(TRUST_BRIEF), parseJson(await keptFile(this.tasks, id, "brief")));
    if (brief.success) return brief.output;
    throw new TaskdError("corrupt", `Cannot read the brief of ${id}: ${brief.issues[0].message}`);
  }

  async databaseDiff(id: string, query: DatabaseDiffQuery, signal: AbortSignal): Promise<DatabaseRows> {
    return await readRows(this.#deps, await this.tasks.load(id), query, signal);
  }

  verification(id: string): Promise<Verification> {
    return verifyApproval(this.tasks, id);
  }

  async bases(id: string): Promise<BasesView> {
    // One question at a time for each task, however many ask it.
    const asked = this.#bases.get(id) ?? this.tasks.load(id).then((record) => basesNow(this.#deps, record));
    this.#bases.set(id, asked);
    return await asked.finally(() => this.#bases.delete(id));
  }

  pending(): PendingTask[] {
    const now_ms = this.#deps.clock.now();
    return this.#atGate().flatMap((record) => pendingTask(record, now_ms) ?? []);
  }

  #atGate(): TaskRecord[] {
    return this.tasks.unfinished().flatMap(({ id, stage }) =>
      stage === "awaiting_approval" ? this.tasks.live(id)?.record ?? [] : []
    );
  }

  async prune(options: { before_ms: number; dry_run: boolean }): Promise<Pruned> {
    const keep = ({ queue_id }: { queue_id?: string }) => this.#queue?.isSettled(queue_id ?? "") === false;
    const pruned = await pruneTasks(this.tasks, { ...options, keep });
    const mirrors = await this.#deps.mirrors?.prune(options) ?? [];
    return { pruned, mirrors, dry_run: options.dry_run };
  }

  policy(): PolicyView {
    return policyView(this.#deps.resolved);
  }

  ceiling(): CeilingView {
    return this.#deps.admission.ceiling();
  }

  async enqueue(request: SubmitRequest, origin: Submitter = {}): Promise<QueueItemView> {
    const { resolved, runtime } = this.#deps;
    // What can never begin is refused now, and is no dead letter later.
    const { order } = planTask(request, { settings: resolved.settings, runtime, origin });
    if (origin.over_network) await reachRepo(this.#deps, order, "fetch");
    return await this.#theQueue().enqueue(request, origin);
  }

  queue(): QueueItemView[] {
    return this.#theQueue().list();
  }

  cancelQueued(id: string, by?: Decider): Promise<void> {
    return this.#theQueue().cancel(id, by);
  }

  #theQueue(): TaskQueue {
    if (this.#queue !== undefined) return this.#queue;
    throw new TaskdError("unavailable", "Cannot use the queue: this broker runs without one");
  }

  health(): Health {
    return {
      ok: true,
      version: VERSION,
      pid: Deno.pid,
      runtime: this.#deps.runtime.name,
      started_at: this.#started_at,
      running: this.#works.size,
      pending: this.#atGate().length,
    };
  }

  metrics(): Promise<string> {
    return this.#metrics.text();
  }

  /**
   * Takes nothing more, ends what runs, pushes too, and releases every task. What waits at the gate goes on waiting for
   * the next broker; a push that was cut off is begun again by it, once it has asked the remote.
   */
  async stop(): Promise<void> {
    if (this.#over.signal.aborted) return;
    this.#over.abort(
      new TaskdError("stopping", "Cannot do this now: the broker is stopping", { hint: "Try again in a moment" }),
    );
    for (const work of this.#works.values()) work.abandon();
    await this.#queue?.stop();
    await this.#background.idle();
    await this.tasks.close();
  }
}

function given(reason: string): string {
  return reason.trim() === "" ? NO_REASON : reason;
}

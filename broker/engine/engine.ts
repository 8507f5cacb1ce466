/**
 * The broker's engine: every task of this broker, from its submission to its outcome, and what a person may do to it on
 * the way.
 *
 * What it guarantees: a task is admitted and on the disk before anything is done for it; a task at the gate holds no
 * slot and survives any restart; what is pushed is what was approved; whatever happens to the broker, the next one finds
 * in the traces what to do.
 *
 * @module
 */

import { hasCode, TaskdError } from "../../lib/errors.ts";
import { VERSION } from "../../lib/version.ts";
import type { StartClaim } from "../admission/admission.ts";
import type { BrokerEngine } from "../api/engine.ts";
import { NotAcknowledged } from "../api/not_acknowledged.ts";
import type {
  CeilingView,
  Health,
  PendingTask,
  QueueItemView,
  SubmitRequest,
  TaskView,
  TrustBrief,
} from "../api/wire.ts";
import type { Decision } from "../egress/decision.ts";
import type { GatewayLease, Settlement } from "../gateway/lease.ts";
import { BrokerMetrics } from "../metrics.ts";
import { removeTree } from "../remove_tree.ts";
import { type PolicyView, policyView } from "../settings/explain.ts";
import { type GateAnswer, judgeApproval, judgeDenial } from "../task/approval.ts";
import type { SpendFigures } from "../task/rows.ts";
import type { TaskRecord } from "../task/record.ts";
import type { Task } from "../task/task.ts";
import type { TaskStore } from "../task/task_store.ts";
import { Background } from "./background.ts";
import { checkData, isDataOnly, releaseData, sweepData } from "./data.ts";
import { type Plan, planTask } from "./order.ts";
import type { CiWatch, EngineParts, TaskOrigin, TaskQueue } from "./parts.ts";
import { stagePlaces } from "./places.ts";
import { pushApproved } from "./push.ts";
import { gateProblem, removeLeftovers, restoreTask } from "./restore.ts";
import { keptFile, pendingTask, pruneTasks, taskView } from "./views.ts";
import { figures, TaskWork } from "./work.ts";

/** Between looks at a remote that could not be asked what it has. */
const LOOK_AGAIN_MS = 60_000;
const NO_REASON = "somebody ended it and gave no reason";

/** A broker at work. */
export class Engine implements BrokerEngine {
  readonly #parts: EngineParts;
  readonly #ci: CiWatch | undefined;
  #queue: TaskQueue | undefined;
  readonly #metrics: BrokerMetrics;
  readonly #started_at: string;
  /** Tasks on their way to the gate. */
  readonly #works = new Map<string, TaskWork>();
  readonly #claims = new Map<string, StartClaim>();
  /** Gates, pushes, watches. */
  readonly #background: Background;
  readonly #spend_listeners = new Set<(task_id: string, spend: SpendFigures) => void>();
  readonly #over = new AbortController();

  private constructor(parts: EngineParts) {
    this.#parts = parts;
    this.#background = new Background((error) => {
      const text = error instanceof TaskdError ? error.message : error instanceof Error ? error.stack : String(error);
      parts.log("error", "background_failed", `work in the background failed: ${text}`);
    });
    this.#started_at = new Date(parts.clock.now()).toISOString();
    this.#ci = parts.ci?.(this);
    this.#metrics = new BrokerMetrics(VERSION, () => ({
      running: this.#works.size,
      pending: this.#atGate().length,
      slots: parts.resolved.settings.max_concurrent_tasks,
      ceiling: parts.admission.ceiling(),
      queue: this.#queue?.list() ?? [],
    }));
    parts.tasks.onChange((change) => {
      const { rows, record } = change;
      this.#metrics.changed(change);
      for (const row of rows) {
        if (row.type !== "stage") continue;
        const to = row.outcome === undefined ? row.to : `${row.to} (${row.outcome})`;
        const reason = row.reason === undefined ? "" : `: ${row.reason}`;
        parts.log("info", "task_stage", `task ${record.id} came to ${to}${reason}`, {
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
  static async open(parts: EngineParts): Promise<Engine> {
    const engine = new Engine(parts);
    for (const { id, fault } of parts.tasks.damaged()) {
      const message = `the trace of ${id} is ${fault.problem} at row ${fault.seq}: it is left as it is`;
      parts.log("error", "trace_damaged", message, { task_id: id });
    }
    const unfinished = parts.tasks.unfinished();
    for (const { id } of unfinished) await engine.#restore(id);
    const keep = new Set(parts.tasks.unfinished().map(({ id }) => id));
    const gone = await removeLeftovers(parts, keep);
    if (gone.length > 0) parts.log("info", "leftovers_removed", `removed scratch of ${gone.length} ended tasks`);
    engine.#background.go(() => sweepData(parts));
    // It starts tasks by itself: only now is it known which slots are free.
    engine.#queue = parts.queue?.(engine);
    return engine;
  }

  get tasks(): TaskStore {
    return this.#parts.tasks;
  }

  submit(request: SubmitRequest, origin: TaskOrigin = {}): Promise<TaskRecord> {
    return this.#begin(request, origin);
  }

  retry(id: string): Promise<TaskRecord> {
    const { repo, instruction, agent, model, base, egress_extra, sensitive, draft, platform, databases } = this.tasks
      .read(id);
    const order = { repo, instruction, agent, model, base, egress_extra, sensitive, draft, platform, databases };
    const given = Object.fromEntries(Object.entries(order).filter(([, value]) => value !== undefined));
    return this.#begin(given as unknown as SubmitRequest, { retry_of: id });
  }

  async #begin(request: SubmitRequest, origin: TaskOrigin): Promise<TaskRecord> {
    const { resolved, runtime, admission, tasks } = this.#parts;
    this.#refuseWhenStopping();
    const plan = planTask(request, {
      settings: resolved.settings,
      runtime: runtime.name,
      origin,
    });
    await this.#checkCredential(plan);
    await checkData(this.#parts, request.databases);
    this.#refuseWhenStopping();
    const { agent, auth } = plan;
    let claim: StartClaim;
    try {
      claim = admission.claim({
        lane: agent.lane,
        auth,
        agent: agent.name,
        ...(origin.retry_of === undefined ? {} : { retry_of: origin.retry_of }),
      });
    } catch (error) {
      if (hasCode(error, "at_capacity", "ceiling_reached")) this.#metrics.refused(error.code);
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
    if (this.#over.signal.aborted) {
      throw new TaskdError("stopping", "Cannot do this now: the broker is stopping", {
        hint: "Try again in a moment",
      });
    }
  }

  async #checkCredential({ agent, auth }: Plan): Promise<void> {
    const problem = await this.#parts.credentialProblem(agent.lane, auth);
    if (problem === undefined) return;
    throw new TaskdError("auth_failed", `Cannot take the task for ${agent.name} (${agent.label}): ${problem}`, {
      hint: "`taskd setup` asks for what is missing",
    });
  }

  #work(task: Task, plan: Plan): void {
    const work = new TaskWork(this.#parts, task, plan, () => this.#claims.get(task.id)?.releaseSlot());
    this.#works.set(task.id, work);
    if (this.#over.signal.aborted) work.abandon();
    this.#background.go(async () => {
      await work.finished;
      this.#works.delete(task.id);
      if (task.record.stage === "awaiting_approval") {
        const { repo, instruction } = task.record;
        if (!this.#over.signal.aborted) this.#parts.notify?.({ task_id: task.id, repo, instruction });
        await this.#keepGate(task);
      } else await this.#settle(task);
    });
  }

  /** Stays with a task at the gate until its time is over, somebody has answered, or the broker stops. */
  async #keepGate(task: Task): Promise<void> {
    while (!this.#over.signal.aborted) {
      try {
        if (await task.denyWhenExpired(this.#over.signal)) await this.#settle(task);
        return;
      } catch (error) {
        // The gate is shut all the same; the denial is written when it can be.
        if (!hasCode(error, "no_space", "denied", "unavailable")) return this.#failed(task, error);
        this.#failed(task, error);
        await this.#parts.clock.sleep(LOOK_AGAIN_MS, this.#over.signal).catch(() => {});
      }
    }
  }

  #failed({ id }: Task, error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.#parts.log("error", "task_failed", `cannot go on with task ${id}: ${message}`, { task_id: id });
  }

  async #push(task: Task): Promise<void> {
    const move = await pushApproved(this.#parts, task);
    // Nothing of it is needed any more: whether the change arrived, the remote knows.
    await this.#removeScratch(task);
    await task.move(move);
    if (task.record.stage === "awaiting_ci") await this.#watch(task);
    else await this.#settle(task);
  }

  async #watch(task: Task): Promise<void> {
    await this.#ci?.watch(task, this.#over.signal);
    if (task.record.stage === "done") await this.#settle(task);
  }

  /** Lets go of a task that has ended. */
  async #settle(task: Task): Promise<void> {
    const { id, record } = task;
    const { outcome, updated_at, spend } = record;
    // What could not be written as ended is the next broker's.
    if (outcome === undefined) return;
    this.#metrics.ended(outcome);
    await this.#removeScratch(task);
    await this.#claims.get(id)?.end({ outcome, ended_at: updated_at, spend });
    this.#claims.delete(id);
    // The store may be slow to answer, or not there: nobody waits for it.
    this.#background.go(() => releaseData(this.#parts, record));
    await this.tasks.release(id);
  }

  /** What cannot be removed keeps no task from its end; the next broker tries again. */
  async #removeScratch(task: Task): Promise<void> {
    await removeTree(stagePlaces(this.#parts.resolved.settings.stage_root, task.id).root)
      .catch((error: unknown) => this.#failed(task, error));
  }

  async #restore(id: string): Promise<void> {
    const { tasks, log, admission } = this.#parts;
    let task: Task;
    try {
      task = await tasks.reopen(id);
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      log("error", "trace_failed", `cannot take over task ${id}: ${message}`, { task_id: id });
      return;
    }
    const { stage } = task.record;
    if (stage === "awaiting_approval" || stage === "awaiting_ci" || stage === "pushing") {
      this.#claims.set(id, admission.adopt(task.record));
    }
    // The remote of a push may be slow to answer, or not there: nobody waits for it.
    if (stage === "pushing") return this.#background.go(() => this.#restoreStage(task));
    try {
      await this.#restoreStage(task);
    } catch (error) {
      this.#failed(task, error);
    }
  }

  async #restoreStage(task: Task): Promise<void> {
    // No remote has to be asked: what is promoted already is found to be.
    if (task.record.stage === "pushing" && isDataOnly(task.record)) return await this.#push(task);
    const restored = await restoreTask(this.#parts, task);
    switch (restored.kind) {
      case "ended":
        return await this.#settle(task);
      case "watching":
        return this.#background.go(() => this.#watch(task));
      case "undecided": {
        this.#failed(task, restored.cause);
        return this.#background.go(async () => {
          await this.#parts.clock.sleep(LOOK_AGAIN_MS, this.#over.signal).catch(() => {});
          if (!this.#over.signal.aborted) await this.#restoreStage(task);
        });
      }
      case "kept": {
        const problem = await gateProblem(this.#parts, task);
        if (problem === undefined) return this.#background.go(() => this.#keepGate(task));
        const reason = `the change that waited cannot be pushed any more: ${problem}`;
        await task.move({ from: "awaiting_approval", to: "done", outcome: "cancelled", reason });
        return await this.#settle(task);
      }
    }
  }

  view(id: string): TaskView {
    const work = this.#works.get(id);
    return taskView(this.tasks, id, work && { spend: work.spend(), refused_egress: work.refusedEgress() });
  }

  liveSpend(id: string): SpendFigures | undefined {
    return this.#works.get(id)?.spend();
  }

  onSpend(listener: (task_id: string, spend: SpendFigures) => void): () => void {
    this.#spend_listeners.add(listener);
    return () => this.#spend_listeners.delete(listener);
  }

  /** Told of each settled request of the gateway. */
  settled(lease: GatewayLease, settlement: Settlement): void {
    this.#parts.admission.settled(settlement);
    this.#metrics.settled(settlement);
    const spend = figures(lease.spend());
    for (const listener of this.#spend_listeners) listener(settlement.task_id, spend);
  }

  /** Told of each decision of the egress proxy. */
  decided(decision: Decision): void {
    this.#metrics.decided(decision);
  }

  async diff(id: string): Promise<Uint8Array<ArrayBuffer>> {
    return await keptFile(this.tasks, id, "diff");
  }

  async brief(id: string): Promise<TrustBrief> {
    return JSON.parse(new TextDecoder().decode(await keptFile(this.tasks, id, "brief")));
  }

  pending(): PendingTask[] {
    const now_ms = this.#parts.clock.now();
    return this.#atGate().flatMap((record) => pendingTask(record, now_ms) ?? []);
  }

  /** Records of the tasks at the gate, oldest first. */
  #atGate(): TaskRecord[] {
    return this.tasks.unfinished().flatMap(({ id, stage }) =>
      stage === "awaiting_approval" ? this.tasks.live(id)?.record ?? [] : []
    );
  }

  async approve(id: string, request: { diff_sha256: string; acknowledge: readonly string[] }): Promise<void> {
    this.#refuseWhenStopping();
    const task = this.#atTheGate(id, (record, time) => judgeApproval(record, request, time));
    accept(await task.approve(request));
    this.#background.go(() => this.#push(task));
  }

  async deny(id: string, reason: string): Promise<void> {
    const said = reason.trim() === "" ? NO_REASON : reason;
    this.#refuseWhenStopping();
    const task = this.#atTheGate(id, (record, time) => judgeDenial(record, said, time));
    accept(await task.deny(said));
    await this.#settle(task);
  }

  /** The task whose gate is to be answered; one that this broker has not open gets the answer that its record gives. */
  #atTheGate(id: string, judge: (record: TaskRecord, time: { now_ms: number }) => GateAnswer): Task {
    const task = this.tasks.live(id);
    if (task !== undefined) return task;
    accept(judge(this.tasks.read(id), { now_ms: this.#parts.clock.now() }));
    throw new TaskdError("unavailable", `Cannot answer for the task ${id}: this broker could not take it over`, {
      hint: "The broker's log says why; start it again once that is put right",
    });
  }

  async kill(id: string, reason: string): Promise<void> {
    const said = reason.trim() === "" ? NO_REASON : reason;
    const work = this.#works.get(id);
    if (work?.end("cancelled", said)) return;
    await work?.finished;
    const { stage, outcome } = this.tasks.read(id);
    const task = this.tasks.live(id);
    if (task === undefined || stage !== "awaiting_approval") {
      const stands = outcome === undefined ? `in ${stage}` : `done (${outcome})`;
      throw new TaskdError("wrong_state", `Cannot end the task ${id}: it is ${stands}`, {
        hint: stage === "pushing" ? "The change may have arrived already" : "There is nothing left to end",
      });
    }
    await task.move({ from: "awaiting_approval", to: "done", outcome: "cancelled", reason: said });
    await this.#settle(task);
  }

  prune(options: { before_ms: number; dry_run: boolean }): Promise<string[]> {
    return pruneTasks(this.tasks, options);
  }

  policy(): PolicyView {
    return policyView(this.#parts.resolved);
  }

  ceiling(): CeilingView {
    return this.#parts.admission.ceiling();
  }

  enqueue(request: SubmitRequest): Promise<QueueItemView> {
    return this.#theQueue().enqueue(request);
  }

  queue(): QueueItemView[] {
    return this.#theQueue().list();
  }

  cancelQueued(id: string): Promise<void> {
    return this.#theQueue().cancel(id);
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
      runtime: this.#parts.runtime.name,
      started_at: this.#started_at,
      running: this.#works.size,
      pending: this.#atGate().length,
    };
  }

  metrics(): Promise<string> {
    return this.#metrics.text();
  }

  /**
   * Takes nothing more, ends what runs, waits for pushes, and lets go of every task. What waits at the gate goes on
   * waiting for the next broker.
   */
  async stop(): Promise<void> {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    for (const work of this.#works.values()) work.abandon();
    await this.#queue?.stop();
    await this.#background.idle();
    await this.tasks.close();
  }
}

/** Throws what the gate's answer means. */
function accept(answer: GateAnswer): void {
  if (answer.status === 204) return;
  if (answer.status === 422) throw new NotAcknowledged(answer.missing, answer.detail);
  throw new TaskdError(answer.code, answer.detail);
}

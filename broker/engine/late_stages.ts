/**
 * What happens to a task from its gate on: waiting for a person, the push, the watch of its checks, its end. Also to
 * tasks that an earlier broker left, at whatever stage.
 *
 * Every move is on the disk before it is acted on, and a person's answer before it is confirmed.
 */

import { hasCode, messageOf, TaskdError } from "../../lib/errors.ts";
import { createEmptyFile, isThere } from "../../lib/fs.ts";
import { KeyedMutex } from "../../lib/keyed_mutex.ts";
import type { StartClaim } from "../admission/admission.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { decideAsRead, type PushRequest, readDigest } from "../task/decisions.ts";
import type { Decision } from "../task/database_schema.ts";
import { approvalMove, type ApprovalRequest, denialMove, standing } from "../task/approval.ts";
import type { TaskRecord } from "../task/schema.ts";
import { recoverTask } from "../task/recover.ts";
import { type Decider, isWaiting, type Move, type Outcome, type WaitingStage } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import type { Background } from "./background.ts";
import { openConflicts } from "../databases/evidence.ts";
import { abandonData, isLanding, landsIn, releaseData } from "./database_stages.ts";
import type { CiWatch, EngineDeps } from "./engine_deps.ts";
import { requireUnaltered } from "./gate_check.ts";
import { stagePaths } from "./task_paths.ts";
import { landApproved } from "./push.ts";
import { gateProblem } from "./restore.ts";

const RETRY_MS = 60_000;
/** Between the first two rounds for a change that could not be pushed or promoted; doubled up to the longest. */
const FIRST_PAUSE_MS = 60_000;
const LONGEST_PAUSE_MS = 3_600_000;

export interface LateStagesOptions {
  ci: CiWatch | undefined;
  background: Background;
  /** By task; the claim of a task that has ended is ended and removed. */
  claims: Map<string, StartClaim>;
  over: AbortSignal;
  onEnded(outcome: Outcome): void;
}

export class LateStages {
  readonly #deps: EngineDeps;
  readonly #shared: LateStagesOptions;
  /** By task: ends the pause before its next round. */
  readonly #pausing = new Map<string, AbortController>();
  /** By database: what is checked before the first of several changes still holds at the last. */
  readonly #landing = new KeyedMutex();

  constructor(deps: EngineDeps, shared: LateStagesOptions) {
    this.#deps = deps;
    this.#shared = shared;
  }

  /** Announces a task at the gate and stays with it until its time is over, a person has answered, or the broker stops. */
  async keepGate(task: Task): Promise<void> {
    this.#announce(task);
    while (!this.#shared.over.aborted) {
      try {
        if (await task.denyWhenExpired(this.#shared.over)) await this.settle(task);
        return;
      } catch (error) {
        // The gate is shut all the same; the denial is written when it can be.
        if (!hasCode(error, "no_space", "denied", "unavailable")) return this.#failed(task, error);
        this.#failed(task, error);
        await this.#deps.clock.sleep(RETRY_MS, this.#shared.over).catch(() => {});
      }
    }
  }

  #failed({ id }: Task, error: unknown): void {
    this.#deps.log("error", "task_failed", `cannot go on with task ${id}: ${messageOf(error)}`, { task_id: id });
  }

  /**
   * Rounds for a task in `pushing` until its change has landed, or waits for a person: a round that failed is followed
   * by another one after a while, for `push_retry_for` in all. A notification is sent when it comes to wait, and another
   * one when it waits for something else.
   *
   * @param notified What the last notification was about.
   */
  async #land(task: Task, notified?: string): Promise<void> {
    const { clock, resolved: { settings }, notify } = this.#deps;
    const begun_ms = clock.monotonic();
    for (let pause_ms = FIRST_PAUSE_MS;; pause_ms = Math.min(2 * pause_ms, LONGEST_PAUSE_MS)) {
      if (!await this.#landing.run(landsIn(task.record), () => this.#round(task))) return;
      const { stage, repo, instruction } = task.record;
      if (stage === "awaiting_ci") return await this.#watch(task);
      if (stage === "awaiting_approval") return await this.keepGate(task);
      if (!isWaiting(stage)) return await this.settle(task);
      const news = newsOf(task.record);
      if (news !== notified) notify?.({ task_id: task.id, repo, instruction, stage });
      notified = news;
      const left_ms = settings.push_retry_for - (clock.monotonic() - begun_ms);
      if (settings.push_max_retries === 0 || left_ms < pause_ms) return;
      if (!await this.#pause(task, pause_ms)) return;
      if (!await this.#begin(task, stage, "it is tried again by itself")) return;
    }
  }

  /** One round; false when the broker stops before it is over: then it is the next one's, which asks the remote first. */
  async #round(task: Task): Promise<boolean> {
    if (this.#shared.over.aborted) return false;
    const move = await landApproved(this.#deps, task, this.#shared.over);
    if (move === undefined) return false;
    // Not needed any more once the remote has the change, and it is the remote that knows.
    if (move.to !== "push_failed" && move.to !== "awaiting_approval") await this.#removeScratch(task);
    await this.#write(task, move);
    return true;
  }

  async #pause({ id }: Task, pause_ms: number): Promise<boolean> {
    const pausing = new AbortController();
    this.#pausing.set(id, pausing);
    try {
      await this.#deps.clock.sleep(pause_ms, AbortSignal.any([pausing.signal, this.#shared.over]));
      return true;
    } catch {
      return false;
    } finally {
      if (this.#pausing.get(id) === pausing) this.#pausing.delete(id);
    }
  }

  /**
   * Each gate is announced once. A note beside the staged change says so: what a broker that was killed did not come to
   * say, the next one says.
   */
  #announce({ id, record: { stage, repo, instruction, gate } }: Task): void {
    const { notify, resolved: { settings } } = this.#deps;
    if (stage !== "awaiting_approval" || gate === undefined || this.#shared.over.aborted) return;
    const announced = `${stagePaths(settings.stage_root, id).announced}.${gate.diff_sha256}`;
    if (isThere(announced)) return;
    notify?.({ task_id: id, stage, repo, instruction });
    try {
      createEmptyFile(announced);
    } catch (error) {
      this.#deps.log("warn", "notify", `a start of the broker will announce the gate again: ${messageOf(error)}`, {
        task_id: id,
      });
    }
  }

  /** Begins another round; false when the task has left `stage` in the same moment. */
  async #begin(
    task: Task,
    stage: WaitingStage,
    reason: string,
    { by, decisions }: { by?: Decider | undefined; decisions?: Decision[] | undefined } = {},
  ): Promise<boolean> {
    try {
      await task.move({ from: stage, to: "pushing", reason, ...(by && { by }), ...(decisions && { decisions }) });
    } catch (error) {
      if (!hasCode(error, "conflict")) throw error;
      return false;
    }
    this.#pausing.get(task.id)?.abort();
    return true;
  }

  async push(id: string, { by, ...request }: PushRequest): Promise<void> {
    const record = this.#deps.tasks.read(id);
    const { stage } = record;
    const task = this.#deps.tasks.live(id);
    const found = openConflicts(record);
    const decided = decideAsRead(found, isWaiting(stage) ? request : {});
    // Who has read what is in conflict decides anew; decisions that were on their way stay.
    const asked = { by, decisions: found.length === 0 ? undefined : decided };
    if (!isWaiting(stage) || task === undefined || !await this.#begin(task, stage, "a person asked for it", asked)) {
      const now = this.#deps.tasks.read(id);
      throw new TaskdError("wrong_state", `Cannot push the task ${id}: it is ${standing(now)}`, {
        hint: "taskd push is for tasks in push_failed or data_waits",
      });
    }
    this.#shared.background.go(() => this.#land(task));
  }

  /** Makes a move that the remote knows already: a disk that is full for a while must not hide it. */
  async #write(task: Task, move: Move): Promise<void> {
    for (;;) {
      try {
        return void await task.move(move);
      } catch (error) {
        // The next broker asks the remote what became of it.
        if (!hasCode(error, "no_space", "denied", "unavailable") || this.#shared.over.aborted) throw error;
        this.#failed(task, error);
        await this.#deps.clock.sleep(RETRY_MS, this.#shared.over).catch(() => {});
      }
    }
  }

  async #watch(task: Task): Promise<void> {
    await this.#shared.ci?.watch(task, this.#shared.over);
    if (task.record.stage === "done") await this.settle(task);
  }

  async settle(task: Task): Promise<void> {
    const { id, record } = task;
    const { outcome, updated_at, spend } = record;
    // What could not be written as ended is the next broker's.
    if (outcome === undefined) return;
    this.#shared.onEnded(outcome);
    await this.#removeScratch(task);
    await this.#shared.claims.get(id)?.end({ outcome, ended_at: updated_at, spend });
    this.#shared.claims.delete(id);
    // The store may be slow to answer, or not there: it is not waited for.
    this.#shared.background.go(() => releaseData(this.#deps, record));
    await this.#deps.tasks.release(id);
  }

  /** What cannot be removed keeps no task from its end; the next broker tries again. */
  async #removeScratch(task: Task): Promise<void> {
    await removeTree(stagePaths(this.#deps.resolved.settings.stage_root, task.id).root)
      .catch((error: unknown) => this.#failed(task, error));
  }

  /**
   * Takes over tasks that an earlier broker left; what keeps it from one is logged. One whose landing was cut off goes
   * first, before another task changes the databases that have half of it.
   */
  async restore(ids: readonly string[]): Promise<void> {
    const unpushed: Task[] = [];
    for (const id of ids) await this.#restore(id, unpushed);
    for (const task of unpushed.sort((a, b) => Number(isLanding(b.record)) - Number(isLanding(a.record)))) {
      await this.#landAgain(task).catch((error: unknown) => this.#failed(task, error));
    }
  }

  async #restore(id: string, unpushed: Task[]): Promise<void> {
    const { tasks, log, admission } = this.#deps;
    let task: Task;
    try {
      task = await tasks.reopen(id);
    } catch (error) {
      log("error", "trace_failed", `cannot take over task ${id}: ${messageOf(error)}`, { task_id: id });
      return;
    }
    // One that ends now, too: the ledger then has its outcome and what it had spent.
    this.#shared.claims.set(id, admission.adopt(task.record));
    try {
      await this.#restoreStage(task, unpushed);
    } catch (error) {
      this.#failed(task, error);
    }
  }

  async #landAgain(task: Task): Promise<void> {
    const { stage } = task.record;
    const notified = isWaiting(stage) ? newsOf(task.record) : undefined;
    if (isWaiting(stage)) {
      const { push_max_retries } = this.#deps.resolved.settings;
      if (push_max_retries === 0 || !await this.#begin(task, stage, "the broker started")) return;
    }
    this.#shared.background.go(() => this.#land(task, notified));
  }

  async #restoreStage(task: Task, unpushed: Task[]): Promise<void> {
    const { resolved: { settings }, ci } = this.#deps;
    switch (await recoverTask(task, { watch_ci: settings.ci.watch && ci !== undefined })) {
      case "ended":
        return await this.settle(task);
      case "watching":
        return this.#shared.background.go(() => this.#watch(task));
      case "unpushed":
        return void unpushed.push(task);
      case "kept": {
        const problem = await gateProblem(this.#deps, task, this.#shared.over);
        if (problem === undefined) return this.#shared.background.go(() => this.keepGate(task));
        const reason = `the change that waited cannot be pushed any more: ${problem}`;
        await task.move({ from: "awaiting_approval", to: "done", outcome: "cancelled", reason });
        return await this.settle(task);
      }
    }
  }

  /** Approves, and pushes in the background; throws what the gate answers. */
  async approve(id: string, request: ApprovalRequest): Promise<void> {
    const check = (record: TaskRecord, time: { now_ms: number }) => approvalMove(record, request, time);
    const task = this.#atTheGate(id, check);
    check(task.record, { now_ms: this.#deps.clock.now() });
    try {
      await requireUnaltered(this.#deps, task, this.#shared.over);
    } catch (error) {
      // Where another decision came first, what waited is gone, and nothing was altered.
      check(task.record, { now_ms: this.#deps.clock.now() });
      throw error;
    }
    await task.approve(request);
    this.#shared.background.go(() => this.#land(task));
  }

  async deny(id: string, reason: string, by?: Decider): Promise<void> {
    const task = this.#atTheGate(id, (record, time) => denialMove(record, reason, time));
    await task.deny(reason, by);
    await this.settle(task);
  }

  /** The task whose gate is to be answered; where this broker has it not open, its record gives the refusal. */
  #atTheGate(id: string, check: (record: TaskRecord, time: { now_ms: number }) => unknown): Task {
    const task = this.#deps.tasks.live(id);
    if (task !== undefined) return task;
    check(this.#deps.tasks.read(id), { now_ms: this.#deps.clock.now() });
    throw new TaskdError("unavailable", `Cannot answer for the task ${id}: this broker could not take it over`, {
      hint: "The broker's log says why; start it again once that is put right",
    });
  }

  /** Ends what waits at its gate, or gives up what waits to land; throws `wrong_state` for a task in another stage. */
  async cancel(id: string, reason: string, by?: Decider): Promise<void> {
    const record = this.#deps.tasks.read(id);
    const { stage } = record;
    const task = this.#deps.tasks.live(id);
    if (task === undefined || stage !== "awaiting_approval" && !isWaiting(stage)) {
      throw new TaskdError("wrong_state", `Cannot end the task ${id}: it is ${standing(record)}`, {
        hint: stage === "pushing" ? "The change may have arrived already" : "There is nothing left to end",
      });
    }
    try {
      if (isWaiting(stage)) await abandonData(task);
      await task.move({ ...givenUp(record, reason), ...(by && { by }) });
    } catch (error) {
      // Another decision came first, in the same moment.
      if (!hasCode(error, "conflict")) throw error;
      throw new TaskdError("wrong_state", `Cannot end the task ${id}: it left ${stage} just now`, { cause: error });
    }
    this.#pausing.get(id)?.abort();
    await this.settle(task);
  }
}

/** What a task waits for, as far as a person has to do something else for it. */
function newsOf(record: TaskRecord): string {
  return `${record.stage} ${readDigest(openConflicts(record))}`;
}

/** The end of a task that a person ends while it waits; of what could not land, the reason stays. */
function givenUp(record: TaskRecord, reason: string): Move {
  const { stage, pushed } = record;
  const why = isWaiting(stage) ? `given up: ${reason}; it had failed: ${record.reason}` : reason;
  if (stage === "data_waits" && pushed !== undefined) {
    return {
      from: stage,
      to: "done",
      outcome: "pushed",
      reason: `pushed to ${pushed.branch}; its data is ${why}`,
      pushed,
    };
  }
  // The type knows moves by their stages; the move is checked against the table when it is made.
  return { from: stage, to: "done", outcome: "cancelled", reason: why } as Move;
}

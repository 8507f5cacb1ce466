/**
 * What happens to a task from its gate on: waiting for a person, the push, the watch of its checks, its end. Also to
 * tasks that an earlier broker left, at whatever stage.
 *
 * Every move is on the disk before it is acted on, and a person's answer before it is confirmed.
 */

import { hasCode, messageOf, TaskdError } from "../../lib/errors.ts";
import type { StartClaim } from "../admission/admission.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { approvalMove, type ApprovalRequest, denialMove } from "../task/approval.ts";
import type { TaskRecord } from "../task/schema.ts";
import type { Move, Outcome } from "../task/stages.ts";
import type { Task } from "../task/task.ts";
import type { Background } from "./background.ts";
import { isDataOnly, releaseData } from "./database_stages.ts";
import type { CiWatch, EngineDeps } from "./engine_deps.ts";
import { stagePaths } from "./task_paths.ts";
import { pushApproved } from "./push.ts";
import { gateProblem, restoreTask } from "./restore.ts";

/** Between attempts at what could not be asked or written. */
const RETRY_MS = 60_000;

export interface LateStagesOptions {
  ci: CiWatch | undefined;
  background: Background;
  /** By task; the claim of a task that has ended is ended and removed. */
  claims: Map<string, StartClaim>;
  /** Aborted when the broker stops. */
  over: AbortSignal;
  onEnded(outcome: Outcome): void;
}

export class LateStages {
  readonly #deps: EngineDeps;
  readonly #shared: LateStagesOptions;

  constructor(deps: EngineDeps, shared: LateStagesOptions) {
    this.#deps = deps;
    this.#shared = shared;
  }

  /** Stays with a task at the gate until its time is over, a person has answered, or the broker stops. */
  async keepGate(task: Task): Promise<void> {
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

  async #push(task: Task): Promise<void> {
    const move = await pushApproved(this.#deps, task);
    // Not needed any more: the remote knows whether the change arrived.
    await this.#removeScratch(task);
    await this.#write(task, move);
    if (task.record.stage === "awaiting_ci") await this.#watch(task);
    else await this.settle(task);
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

  /** Releases a task that has ended. */
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

  /** Takes over a task that an earlier broker left; what keeps it from that is logged. */
  async restore(id: string): Promise<void> {
    const { tasks, log, admission } = this.#deps;
    let task: Task;
    try {
      task = await tasks.reopen(id);
    } catch (error) {
      log("error", "trace_failed", `cannot take over task ${id}: ${messageOf(error)}`, { task_id: id });
      return;
    }
    const { stage } = task.record;
    if (stage === "awaiting_approval" || stage === "awaiting_ci" || stage === "pushing") {
      this.#shared.claims.set(id, admission.adopt(task.record));
    }
    // The remote of a push may be slow to answer, or not there: it is not waited for.
    if (stage === "pushing") return this.#shared.background.go(() => this.#restoreStage(task));
    try {
      await this.#restoreStage(task);
    } catch (error) {
      this.#failed(task, error);
    }
  }

  async #restoreStage(task: Task): Promise<void> {
    // No remote has to be asked: what is promoted already is found to be.
    if (task.record.stage === "pushing" && isDataOnly(task.record)) return await this.#push(task);
    const restored = await restoreTask(this.#deps, task);
    switch (restored.kind) {
      case "ended":
        return await this.settle(task);
      case "watching":
        return this.#shared.background.go(() => this.#watch(task));
      case "undecided": {
        this.#failed(task, restored.cause);
        return this.#shared.background.go(async () => {
          await this.#deps.clock.sleep(RETRY_MS, this.#shared.over).catch(() => {});
          if (!this.#shared.over.aborted) await this.#restoreStage(task);
        });
      }
      case "kept": {
        const problem = await gateProblem(this.#deps, task);
        if (problem === undefined) return this.#shared.background.go(() => this.keepGate(task));
        const reason = `the change that waited cannot be pushed any more: ${problem}`;
        await task.move({ from: "awaiting_approval", to: "done", outcome: "cancelled", reason });
        return await this.settle(task);
      }
    }
  }

  /** Approves, and pushes in the background; throws what the gate answers. */
  async approve(id: string, request: ApprovalRequest): Promise<void> {
    const task = this.#atTheGate(id, (record, time) => approvalMove(record, request, time));
    await task.approve(request);
    this.#shared.background.go(() => this.#push(task));
  }

  async deny(id: string, reason: string): Promise<void> {
    const task = this.#atTheGate(id, (record, time) => denialMove(record, reason, time));
    await task.deny(reason);
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

  /** Ends what waits at its gate; throws `wrong_state` for a task in another stage. */
  async cancel(id: string, reason: string): Promise<void> {
    const { stage, outcome } = this.#deps.tasks.read(id);
    const task = this.#deps.tasks.live(id);
    if (task === undefined || stage !== "awaiting_approval") {
      const stands = outcome === undefined ? `in ${stage}` : `done (${outcome})`;
      throw new TaskdError("wrong_state", `Cannot end the task ${id}: it is ${stands}`, {
        hint: stage === "pushing" ? "The change may have arrived already" : "There is nothing left to end",
      });
    }
    try {
      await task.move({ from: "awaiting_approval", to: "done", outcome: "cancelled", reason });
    } catch (error) {
      // Another decision came first, in the same moment.
      if (!hasCode(error, "conflict")) throw error;
      throw new TaskdError("wrong_state", `Cannot end the task ${id}: it left the gate just now`, { cause: error });
    }
    await this.settle(task);
  }
}

/**
 * A task while its broker works on it: the record, and the only way to change it. A change is checked against
 * everything said before, also what is still being written, so that of two people at the gate one comes first; it
 * counts once its row is on the disk, and the caller acts on a move only then.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import {
  approvalMove,
  type ApprovalRequest,
  denialMove,
  expiryMove,
  gateExpiresIn,
  type GateTime,
} from "./approval.ts";
import { foldRow } from "./record.ts";
import type { TaskOrder, TaskRecord } from "./schema.ts";
import type { Row, TaskEvent } from "./rows.ts";
import { assertMove, type Decider, type Move } from "./stages.ts";
import type { TraceHead } from "./trace.ts";
import { TraceWriter, type TraceWriterOptions } from "./trace_writer.ts";

export type TaskNote = Exclude<TaskEvent, { type: "created" | "stage" | "cut" }>;

export interface TaskChange {
  record: TaskRecord;
  /** Rows that are new, all on the disk. */
  rows: readonly Row[];
  head: TraceHead;
}

export interface TaskOptions {
  clock?: Clock;
  onChange?: (change: TaskChange) => void;
}

/** The longest between two looks at a gate: the wall clock may be set forward, and timers end at 2^31 ms. */
const GATE_POLL_MS = 60_000;

export class Task {
  readonly #clock: Clock;
  readonly #onChange: (change: TaskChange) => void;
  /** Set before a task is given to anyone. */
  #writer!: TraceWriter;
  #durable: TaskRecord | undefined;
  /** As it will be once all that is queued is on the disk; undefined while nothing is. */
  #pending: TaskRecord | undefined;
  /** Monotonic milliseconds at which the task came to its stage, or was opened in it. */
  #stage_seen_ms: number;

  private constructor({ clock = systemClock, onChange = () => {} }: TaskOptions) {
    this.#clock = clock;
    this.#onChange = onChange;
    this.#stage_seen_ms = clock.monotonic();
  }

  /**
   * Begins a task: when it resolves, the task is on the disk.
   *
   * @throws {TaskdError} `already_exists`, `invalid_request`, `denied`, `no_space` or `unavailable`; there is then none.
   */
  static async create(audit_root: string, order: TaskOrder, options: TaskOptions = {}): Promise<Task> {
    const task = new Task(options);
    task.#writer = await TraceWriter.create(audit_root, { type: "created", task: order }, task.#writing());
    return task;
  }

  /**
   * Goes on with a task that an earlier broker left.
   *
   * @throws {TaskdError} `corrupt` when its trace is not what was written; `busy`, `not_found`, `denied`, `no_space` or
   * `unavailable`.
   */
  static async open(audit_root: string, id: string, options: TaskOptions = {}): Promise<Task> {
    const task = new Task(options);
    const onRow = (row: Row) => task.#replay(row);
    task.#writer = await TraceWriter.open(audit_root, id, { ...task.#writing(), onRow });
    if (task.id === id) return task;
    await task.close();
    throw new TaskdError("corrupt", `Cannot open the task ${id}: its trace is that of ${task.id}`);
  }

  get id(): string {
    return this.record.id;
  }

  /** What is on the disk. Not to be changed. */
  get record(): TaskRecord {
    if (this.#durable !== undefined) return this.#durable;
    throw new TaskdError("internal", "A task was used before its first row was written");
  }

  get #known(): TaskRecord {
    return this.#pending ?? this.record;
  }

  /** The end of its trace on the disk. */
  get head(): TraceHead {
    return this.#writer.head;
  }

  /**
   * Writes something down.
   *
   * @returns The record with it, and perhaps with what was written together with it.
   * @throws {TaskdError} `conflict` when the task has ended or is in another stage; `invalid_request` or `too_large` for the
   * event; `no_space`, `denied`, `unavailable` or `fenced`: it is not written.
   */
  append(event: TaskNote): Promise<TaskRecord> {
    return this.#append(event);
  }

  /** Moves the task on; throws as {@linkcode append}; of two moves from one stage the second is `conflict`. */
  move(move: Move): Promise<TaskRecord> {
    return this.#append({ type: "stage", ...move });
  }

  async #append(event: TaskEvent): Promise<TaskRecord> {
    await this.#writer.append(event, (row) => {
      if (row.type === "stage") assertMove(this.id, this.#known.stage, row);
      this.#queue(row);
    });
    return this.record;
  }

  /** Approves what is at the gate; throws as {@linkcode approvalMove} and {@linkcode Task.move}. */
  async approve(request: ApprovalRequest): Promise<void> {
    await this.move(approvalMove(this.#known, request, this.#gateTime()));
  }

  async deny(reason: string, by?: Decider): Promise<void> {
    await this.move({ ...denialMove(this.#known, reason, this.#gateTime()), ...(by && { by }) });
  }

  /**
   * Stays with a task at the gate and denies it when its time is over.
   *
   * @returns Whether it was denied so; false when it left the gate otherwise, or on `signal`.
   * @throws {TaskdError} `no_space`, `denied`, `unavailable` or `fenced`: the denial could not be written. The gate is shut
   * all the same.
   */
  async denyWhenExpired(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      const left_ms = gateExpiresIn(this.#known, this.#gateTime());
      if (left_ms === undefined) return false;
      if (left_ms <= 0) {
        await this.move(expiryMove(this.record));
        return true;
      }
      try {
        await this.#clock.sleep(Math.min(left_ms, GATE_POLL_MS), signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }
    return false;
  }

  #gateTime(): GateTime {
    return { now_ms: this.#clock.now(), waited_ms: this.#clock.monotonic() - this.#stage_seen_ms };
  }

  close(): Promise<void> {
    return this.#writer.close();
  }
  #writing(): TraceWriterOptions {
    return {
      clock: this.#clock,
      onDurable: (rows, head) => {
        const before = this.#durable?.stage;
        for (const row of rows) this.#durable = foldRow(this.#durable, row);
        // What is still being written keeps its own record.
        if (this.#pending?.seq === this.record.seq) this.#pending = undefined;
        if (this.record.stage !== before) this.#stage_seen_ms = this.#clock.monotonic();
        this.#onChange({ record: this.record, rows, head });
      },
      onGivenUp: () => this.#pending = undefined,
    };
  }

  /** Takes a row that was there before; the note of a cut comes here after it was written. */
  #replay(row: Row): void {
    if (row.seq === this.#durable?.seq) return;
    this.#durable = foldRow(this.#durable, row);
  }

  #queue(row: Row): void {
    try {
      this.#pending = foldRow(this.#known, row);
    } catch (error) {
      if (!hasCode(error, "corrupt")) throw error;
      const attempted = `Cannot write a ${row.type} row for the task ${this.id}`;
      throw new TaskdError("conflict", `${attempted}, which is in ${this.#known.stage}`, { cause: error });
    }
  }
}

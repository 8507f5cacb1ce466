/**
 * Follows a task as it goes: its events as lines that stay, and on a terminal one line
 * that changes in place, with the stage, the time, the spend and the last output. A
 * broker that is replaced meanwhile is waited for; nothing is missed or shown twice.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { TaskEventView, TaskView } from "../../broker/api/wire.ts";
import { laterSpend } from "../../broker/web/pages/spend.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { readableLines } from "./_agent_output.ts";
import { spendWord } from "./_task_text.ts";
import type { Io } from "../text/io.ts";

export type TaskProgress = Pick<TaskView, "stage" | "outcome" | "reason" | "gate" | "pushed" | "spend">;

export interface FollowOptions {
  io: Io;
  /** Until a person has to decide or a code host has, or until the task has ended. */
  until: "gate" | "end";
  /** Number of the last event that is known: only those behind it count. */
  after?: number;
  /** Ends the following, beside `io.signal`. */
  signal?: AbortSignal;
  /** Shows an event; lines that stay. */
  show(event: TaskEventView): void;
  clock?: Clock;
}

/** How long a broker that does not answer is waited for, in milliseconds: a restart takes a second or two. */
const RECONNECT_TIMEOUT_MS = 30_000;
/** Between two attempts to reach it again, in milliseconds. */
const RETRY_MS = 500;
/** The line that changes is drawn again at least so often, in milliseconds, because of the time in it. */
const REDRAW_MS = 1_000;
/** And at most so often: an agent may print faster than a person reads. */
const DRAW_APART_MS = 100;

/**
 * Follows the task until the moment that is asked for. The broker has answered before, so it is waited for when it does
 * not any more.
 *
 * @throws {TaskdError} `interrupted` when a signal is aborted: the task itself goes on; `broker_unreachable` when the
 * broker does not come back.
 */
export async function followTask(broker: BrokerClient, id: string, options: FollowOptions): Promise<TaskProgress> {
  const { io, until, show, clock = systemClock } = options;
  const signal = options.signal === undefined ? io.signal : AbortSignal.any([io.signal, options.signal]);
  const view = new LiveView(io, clock);
  const progress: TaskProgress = { stage: "admission" };
  let { after } = options;
  let lost_ms: number | undefined;
  const wait = async (failure: TaskdError) => {
    if (lost_ms === undefined) io.note("The broker does not answer: it is waited for");
    lost_ms ??= clock.monotonic();
    if (clock.monotonic() - lost_ms > RECONNECT_TIMEOUT_MS) throw failure;
    await clock.sleep(RETRY_MS, signal);
  };
  try {
    for (;;) {
      let failure = gone(id);
      try {
        const stream = broker.events(id, { signal, ...(after === undefined ? {} : { after }) });
        for await (const event of stream) {
          lost_ms = undefined;
          after = event.id ?? after;
          take(progress, event);
          show(event);
          await view.update(progress, event);
          if (isOver(progress, until)) return progress;
        }
      } catch (error) {
        if (!hasCode(error, "broker_unreachable", "stopping")) throw error;
        failure = error;
      }
      await wait(failure);
    }
  } finally {
    view.stop();
  }
}

function isOver({ stage, outcome }: TaskProgress, until: "gate" | "end"): boolean {
  if (outcome !== undefined || stage === "push_failed" || stage === "data_waits") return true;
  return until === "gate" && (stage === "awaiting_approval" || stage === "awaiting_ci");
}

function gone(id: string): TaskdError {
  return new TaskdError("broker_unreachable", `The broker sends no more events of the task ${id}`, {
    hint: "Start it with `taskd start`, then see `taskd inspect`",
  });
}

function take(progress: TaskProgress, { event, data }: TaskEventView): void {
  switch (event) {
    case "stage": {
      const { ts: _ts, ...moved } = data;
      delete progress.reason;
      Object.assign(progress, moved);
      break;
    }
    case "spend": {
      const { ts: _ts, live: _live, ...spend } = data;
      progress.spend = laterSpend(progress.spend, spend);
      break;
    }
    case "result": {
      const { ts: _ts, ...ended } = data;
      Object.assign(progress, { stage: "done" }, ended);
      break;
    }
  }
}

/** The line that changes; nothing where there is no terminal. */
class LiveView {
  readonly #line: ReturnType<Io["live"]>;
  readonly #clock: Clock;
  readonly #stop = new AbortController();
  #progress: TaskProgress | undefined;
  #since_ms: number | undefined;
  #drawn_ms: number | undefined;
  #output = "";

  constructor(io: Io, clock: Clock) {
    this.#line = io.live();
    this.#clock = clock;
    if (this.#line !== undefined) void this.#tick();
  }

  async update(progress: TaskProgress, event: TaskEventView): Promise<void> {
    if (this.#line === undefined) return;
    this.#progress = progress;
    this.#since_ms ??= Date.parse(event.data.ts);
    if (event.event === "output") {
      const last = readableLines(event.data.text.trimEnd()).at(-1) ?? "";
      this.#output = sanitizeLine(last).trim() || this.#output;
    }
    const soon = this.#drawn_ms !== undefined && this.#clock.monotonic() - this.#drawn_ms < DRAW_APART_MS;
    if (!soon || event.event === "stage") await this.#draw();
  }

  stop(): void {
    this.#stop.abort();
    this.#line?.clear();
  }

  async #tick(): Promise<void> {
    try {
      for (;;) {
        await this.#clock.sleep(REDRAW_MS, this.#stop.signal);
        await this.#draw();
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }

  async #draw(): Promise<void> {
    if (this.#progress === undefined || this.#stop.signal.aborted) return;
    this.#drawn_ms = this.#clock.monotonic();
    const { stage, spend } = this.#progress;
    const elapsed_ms = Math.max(0, this.#clock.now() - (this.#since_ms ?? this.#clock.now()));
    const elapsed = formatDuration(Math.floor(elapsed_ms / 1_000) * 1_000);
    const words = [stage, elapsed, ...(spend === undefined ? [] : [spendWord({ spend })]), this.#output];
    await this.#line?.show(words.join("  "));
  }
}

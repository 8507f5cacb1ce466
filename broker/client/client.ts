/**
 * A client of the task broker: a method for each route. Errors are the broker's own, with
 * their codes; an answer is checked before it is given on, and is of a bounded size.
 */

import * as v from "valibot";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { hasCode } from "../../lib/errors.ts";
import type {
  CeilingView,
  Health,
  PendingTask,
  Pruned,
  QueueItemView,
  StatsView,
  Submitted,
  TaskList,
  TaskView,
} from "../api/wire.ts";
import type { Grouping, SubmitRequest, TrustBrief } from "../task/schema.ts";
import * as wire from "../api/wire.ts";
import { readable } from "../api/readable.ts";
import type { PolicyView } from "../settings/policy_view.ts";
import type { Stage } from "../task/stages.ts";
import { readEvents, type StreamedEvent } from "./events.ts";
import { errorOf, notUnderstood } from "./problems.ts";
import { type BrokerAddress, exchange, HEAD_DEADLINE_MS, type Received, type Sending } from "./transport.ts";
import { parseJson } from "../../lib/text/json.ts";
import { concat } from "../../lib/concat.ts";

export type { BrokerAddress, StreamedEvent };

/** The most bytes of an answer in JSON: a list of a thousand tasks has one. */
const MAX_ANSWER_BYTES = 64 << 20;
const MAX_DIFF_BYTES = 512 << 20;
/** How often a stream of events that breaks off is resumed before its reader gets an error. */
const RESUME_TRIES = 4;
/** Before the second of these, and twice as long before each further one. */
const RESUME_PAUSE_MS = 100;

/** Options of a client. */
export interface ClientOptions {
  /** Ends every call that is under way with `interrupted`. */
  signal?: AbortSignal | undefined;
  /** Time, by default the system's. */
  clock?: Clock;
  /** How long the head of an answer is waited for, in milliseconds. */
  head_deadline_ms?: number;
}

/** The text of a diff. {@linkcode BrokerClient.approve} takes the digest of the whole change instead: `gate.diff_sha256`. */
export interface TaskDiff {
  bytes: Uint8Array<ArrayBuffer>;
  /** What the broker says the SHA-256 of these bytes is. */
  sha256: string;
}

/**
 * Asks one broker.
 *
 * Ids may be any unique prefix; one of several is refused with `usage`. Times are ISO 8601 in UTC, money is USD, sizes are bytes.
 *
 * Every method throws a `TaskdError`. Beside the codes that it names: `broker_unreachable` when no broker answers or the
 * answer is not understood, `denied` when the socket may not be used, `interrupted` on the signal, and `stopping`,
 * `overloaded` or `timed_out`, after which the call can be made again.
 *
 * @example Decide what waits for approval
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * async function decide(broker: BrokerClient): Promise<void> {
 *   for (const { id, gate, lines_changed } of await broker.pending()) {
 *     const { flags } = await broker.brief(id);
 *     if (flags.length > 0) await broker.deny(id, "it is flagged");
 *     else if (lines_changed > 500) console.log((await broker.diff(id)).bytes.length);
 *     else await broker.approve(id, { diff_sha256: gate.diff_sha256, acknowledge: gate.second_look });
 *   }
 * }
 *
 * const broker = new BrokerClient({ socket: "/run/none.sock" });
 * await decide(broker).catch((error) => console.log(error.code, error.hint)); // broker_unreachable …
 * ```
 *
 * @example Follow tasks and the queue
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * async function work(broker: BrokerClient): Promise<void> {
 *   await broker.enqueue({ repo: "https://example.com/o/r.git", instruction: "Fix the test" });
 *   for (const { id, state } of await broker.queue()) if (state === "queued") await broker.cancelQueued(id);
 *
 *   const [newest] = (await broker.tasks({ limit: 1 })).tasks;
 *   if (newest === undefined) return;
 *   for await (const text of broker.log(newest.id)) console.log(text);
 *   const { outcome } = await broker.task(newest.id);
 *   if (outcome === undefined) await broker.kill(newest.id, "no longer needed");
 *   else if (outcome === "agent_failed") await broker.retry(newest.id);
 * }
 *
 * const broker = new BrokerClient({ socket: "/run/none.sock" });
 * await work(broker).catch((error) => console.log(error.code)); // broker_unreachable
 * ```
 *
 * @example Watch a broker
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 *
 * async function watch(broker: BrokerClient): Promise<void> {
 *   console.log((await broker.health()).pid, (await broker.policy()).hash, await broker.uiUrl());
 *   console.log((await broker.ceiling()).headroom_usd, (await broker.stats({ by: "agent" })).groups);
 *   console.log(await broker.metrics());
 *   await broker.prune({ before: "2026-01-01T00:00:00Z", dry_run: true });
 * }
 *
 * const broker = new BrokerClient({ socket: "/run/none.sock" });
 * await watch(broker).catch((error) => console.log(error.code)); // broker_unreachable
 * ```
 */
export class BrokerClient {
  readonly place: BrokerAddress;
  readonly #clock: Clock;
  readonly #signal: AbortSignal | undefined;
  readonly #head_deadline_ms: number;

  /** Nothing is connected before something is asked. */
  constructor(place: BrokerAddress, options: ClientOptions = {}) {
    this.place = place;
    this.#clock = options.clock ?? systemClock;
    this.#signal = options.signal;
    this.#head_deadline_ms = options.head_deadline_ms ?? HEAD_DEADLINE_MS;
  }

  /**
   * Submits a task.
   *
   * @throws {TaskdError} `invalid_request`, `at_capacity`, `ceiling_reached`, `auth_failed`, `no_space`, `unavailable`.
   */
  submit(request: SubmitRequest): Promise<Submitted> {
    return this.#json(wire.SUBMITTED, post("/tasks", request));
  }

  /**
   * Submits a task again, as a new one.
   *
   * @throws {TaskdError} `not_found`, and as {@linkcode submit}.
   */
  retry(id: string): Promise<Submitted> {
    return this.#json(wire.SUBMITTED, post(`/tasks/${segment(id)}/retry`));
  }

  /**
   * Tasks, newest first.
   *
   * @param options `limit`: at most so many, 1-1000; `before`: the `next` of the page before; `stage`: those in it alone.
   * @throws {TaskdError} `invalid_request`, `not_found` (`before`).
   */
  tasks(options: { limit?: number; before?: string; stage?: Stage } = {}): Promise<TaskList> {
    return this.#json(wire.TASK_LIST, get("/tasks", options));
  }

  /**
   * The whole record of a task.
   *
   * @throws {TaskdError} `not_found`, `corrupt` (its trace).
   */
  task(id: string): Promise<TaskView> {
    return this.#json(wire.TASK_VIEW, get(`/tasks/${segment(id)}`));
  }

  /**
   * What happens to a task, up to its result. A connection that breaks off is taken up again after the last event.
   *
   * @param options `after`: the id of an event, to get only those behind it.
   * @throws {TaskdError} `not_found`, `invalid_request`, `corrupt` (its trace).
   */
  async *events(
    id: string,
    options: { after?: number; signal?: AbortSignal } = {},
  ): AsyncGenerator<StreamedEvent, void> {
    const signal = this.#until(options.signal);
    let after = options.after ?? 0;
    for (let failures = 0;;) {
      try {
        const sending = { ...get(`/tasks/${segment(id)}/events`), headers: { "last-event-id": String(after) } };
        using received = await this.#send(sending, signal);
        if (received.status === 204) return;
        for await (const event of readEvents(received.body)) {
          failures = 0;
          after = event.id ?? after;
          yield event;
          if (event.event === "result") return;
        }
      } catch (error) {
        if (!hasCode(error, "broker_unreachable") || failures >= RESUME_TRIES) throw error;
      }
      // A broker that ends its streams is going; the one that takes its place needs a moment.
      if (failures >= RESUME_TRIES) throw notUnderstood("the stream of events ends without a result");
      // On an abort the next request says that it was interrupted.
      await this.#clock.sleep(RESUME_PAUSE_MS * 2 ** failures++, signal).catch(() => {});
    }
  }

  /**
   * The diff as a person reads it, cut at 4 MiB; the digest that is approved is of the whole change, not of this text.
   *
   * @throws {TaskdError} `not_found`, also before there is one.
   */
  async diff(id: string): Promise<TaskDiff> {
    using received = await this.#send(get(`/tasks/${segment(id)}/diff`));
    return { bytes: await readAll(received, MAX_DIFF_BYTES), sha256: received.header("x-diff-sha256") };
  }

  /**
   * What the broker itself established about a task.
   *
   * @throws {TaskdError} `not_found`, also before there is anything.
   */
  brief(id: string): Promise<TrustBrief> {
    return this.#json(wire.TRUST_BRIEF, get(`/tasks/${segment(id)}/brief`));
  }

  /**
   * What a task has printed, as it comes.
   *
   * @param options `follow`: go on until the task has ended.
   * @throws {TaskdError} `not_found`.
   */
  async *log(id: string, options: { follow?: boolean; signal?: AbortSignal } = {}): AsyncGenerator<string, void> {
    const path = `/tasks/${segment(id)}/log${options.follow === true ? "?follow=1" : ""}`;
    using received = await this.#send(get(path), this.#until(options.signal));
    const decoder = new TextDecoder();
    for await (const bytes of received.body) yield decoder.decode(bytes, { stream: true });
    const rest = decoder.decode();
    if (rest !== "") yield rest;
  }

  /**
   * Puts a task into the queue.
   *
   * @throws {TaskdError} `invalid_request`, `overloaded` (the queue is full), `no_space`, `unavailable`.
   */
  enqueue(request: SubmitRequest): Promise<QueueItemView> {
    return this.#json(wire.QUEUE_ITEM, post("/queue", request));
  }

  /** The queue, oldest first. */
  async queue(): Promise<QueueItemView[]> {
    return (await this.#json(wire.QUEUE_LIST, get("/queue"))).items;
  }

  /**
   * Takes an item off the queue, or ends its task.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`.
   */
  cancelQueued(id: string): Promise<void> {
    return this.#done(post(`/queue/${segment(id)}/cancel`));
  }

  /** Tasks that wait for approval, oldest first. */
  async pending(): Promise<PendingTask[]> {
    return (await this.#json(wire.PENDING_LIST, get("/admin/pending"))).tasks;
  }

  /**
   * Approves the change of `gate.diff_sha256`.
   *
   * @param request `diff_sha256`: the gate's, in hex; `acknowledge`: every category of its `second_look`.
   * @throws {TaskdError} `not_found`, `wrong_state`, `stale_diff`, `expired`, `not_acknowledged` (`NotAcknowledged`, with what is missing).
   */
  approve(id: string, request: { diff_sha256: string; acknowledge: readonly string[] }): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/approve`, request));
  }

  /**
   * Refuses what waits for approval.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`, `expired`.
   */
  deny(id: string, reason = ""): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/deny`, { reason }));
  }

  /**
   * Ends a task in any stage before its push.
   *
   * @throws {TaskdError} `not_found`, `wrong_state`.
   */
  kill(id: string, reason = ""): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/kill`, { reason }));
  }

  /**
   * Removes the records of tasks that ended before `before`, in ISO 8601.
   *
   * @throws {TaskdError} `invalid_request`.
   */
  prune(request: { before: string; dry_run: boolean }): Promise<Pruned> {
    return this.#json(wire.PRUNED, post("/admin/prune", request));
  }

  /** The settings in force. */
  policy(): Promise<PolicyView> {
    return this.#json(wire.POLICY_VIEW, get("/admin/policy"));
  }

  /** The headroom of the global ceiling. */
  ceiling(): Promise<CeilingView> {
    return this.#json(wire.CEILING_VIEW, get("/admin/ceiling"));
  }

  /**
   * Outcomes and cost in USD of the tasks since `since`, in ISO 8601; of all without it.
   *
   * @throws {TaskdError} `invalid_request`.
   */
  stats(options: { since?: string; by?: Grouping } = {}): Promise<StatsView> {
    return this.#json(wire.STATS_VIEW, get("/admin/stats", options));
  }

  /** The address of the web pages, with their token: a secret. */
  async uiUrl(): Promise<string> {
    return (await this.#json(wire.UI_ADDRESS, get("/admin/ui"))).url;
  }

  /** That the broker is there. */
  health(): Promise<Health> {
    return this.#json(wire.HEALTH, get("/healthz"));
  }

  /** The metrics in Prometheus text format. */
  async metrics(): Promise<string> {
    using received = await this.#send(get("/metrics"));
    return new TextDecoder().decode(await readAll(received, MAX_ANSWER_BYTES));
  }

  async #json<T>(schema: v.GenericSchema<unknown, T>, sending: Sending): Promise<T> {
    using received = await this.#send(sending);
    const parsed = v.safeParse(readable(schema), parseJson(await readAll(received, MAX_ANSWER_BYTES)), {
      abortEarly: true,
    });
    if (parsed.success) return parsed.output;
    const issue = parsed.issues[0];
    throw notUnderstood(`${v.getDotPath(issue) ?? "it"}: ${issue.message.slice(0, 200)}`);
  }

  async #done(sending: Sending): Promise<void> {
    using received = await this.#send(sending);
    await readAll(received, MAX_ANSWER_BYTES);
  }

  async #send(sending: Sending, signal = this.#signal): Promise<Received> {
    const received = await exchange(this.place, { ...sending, signal }, {
      clock: this.#clock,
      head_deadline_ms: this.#head_deadline_ms,
    });
    if (received.status >= 200 && received.status < 300) return received;
    using _failed = received;
    throw errorOf(parseJson(await readAll(received, MAX_ANSWER_BYTES)), received.status);
  }

  #until(signal: AbortSignal | undefined): AbortSignal | undefined {
    if (signal === undefined || this.#signal === undefined) return signal ?? this.#signal;
    return AbortSignal.any([signal, this.#signal]);
  }
}

function get(path: string, query: Readonly<Record<string, string | number | undefined>> = {}): Sending {
  const parameters = new URLSearchParams(
    Object.entries(query).flatMap(([name, value]) => value === undefined ? [] : [[name, String(value)]]),
  );
  return { method: "GET", path: parameters.size === 0 ? path : `${path}?${parameters}` };
}

function post(path: string, body?: object): Sending {
  return { method: "POST", path, ...(body && { body: JSON.stringify(body) }) };
}

/** An id as a segment of a path: whatever a person has typed. */
function segment(id: string): string {
  // An empty one would be another route.
  return id === "" ? "%20" : encodeURIComponent(id);
}

async function readAll({ body }: Received, max_bytes: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of body) {
    size += part.length;
    if (size > max_bytes) throw notUnderstood(`it has more than ${max_bytes} bytes`);
    parts.push(part);
  }
  return concat(parts);
}

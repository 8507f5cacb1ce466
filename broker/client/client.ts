/**
 * A client of the task broker: a method for each route, described in mod.d.mts. Errors are the broker's own, with their
 * codes; an answer is checked before it is given on, and is of a bounded size.
 */

import * as v from "valibot";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { hasCode } from "../../lib/errors.ts";
import type { DecideRequest } from "../task/database_schema.ts";
import type { SubmitRequest, TrustBrief } from "../task/schema.ts";
import type { Grouping } from "../task/stats_schema.ts";
import * as wire from "../api/wire.ts";
import { readable } from "../api/readable.ts";
import type { PolicyView } from "../settings/policy_view.ts";
import type { Seen, Stage } from "../task/stages.ts";
import { readEvents, type StreamedEvent } from "./events.ts";
import { errorOf, notUnderstood } from "./problems.ts";
import {
  type BrokerAddress,
  exchange,
  HEAD_DEADLINE_MS,
  type Received,
  type Sending,
  type TransportOptions,
} from "./transport.ts";
import { parseJson } from "../../lib/text/json.ts";
import { GatheredBytes } from "../../lib/gathered_bytes.ts";

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
  /** What the client says it is. */
  user_agent?: string;
}

/** The text of a diff. {@linkcode BrokerClient.approve} takes the digest of all that would happen: `gate.diff_sha256`. */
export interface TaskDiff {
  bytes: Uint8Array<ArrayBuffer>;
  /** What the broker says the SHA-256 of these bytes is. */
  shown_sha256: string;
}

/**
 * Asks one broker.
 *
 * Ids may be any unique prefix; one of several is refused with `usage`. Times are ISO 8601 in UTC, money is USD, sizes are bytes.
 *
 * Every method throws a `TaskdError`. Beside the codes that it names: `broker_unreachable` when no broker answers or the
 * answer is not understood, `denied` when the socket may not be used, `interrupted` on the signal, and `stopping`,
 * `overloaded` or `timed_out`, after which the call can be made again.
 */
export class BrokerClient {
  readonly place: BrokerAddress;
  readonly #options: ClientOptions & TransportOptions;

  constructor(place: BrokerAddress, options: ClientOptions = {}) {
    this.place = place;
    const { clock = systemClock, head_deadline_ms = HEAD_DEADLINE_MS } = options;
    this.#options = { ...options, clock, head_deadline_ms };
  }

  submit(request: SubmitRequest): Promise<wire.Submitted> {
    return this.#json(wire.SUBMITTED, post("/tasks", request));
  }

  retry(id: string): Promise<wire.Submitted> {
    return this.#json(wire.SUBMITTED, post(`/tasks/${segment(id)}/retry`));
  }

  tasks(options: { limit?: number; before?: string; stage?: Stage } = {}): Promise<wire.TaskList> {
    return this.#json(wire.TASK_LIST, get("/tasks", options));
  }

  task(id: string): Promise<wire.TaskView> {
    return this.#json(wire.TASK_VIEW, get(`/tasks/${segment(id)}`));
  }

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
      await this.#options.clock.sleep(RESUME_PAUSE_MS * 2 ** failures++, signal).catch(() => {});
    }
  }

  async diff(id: string): Promise<TaskDiff> {
    using received = await this.#send(get(`/tasks/${segment(id)}/diff`));
    return { bytes: await readAll(received, MAX_DIFF_BYTES), shown_sha256: received.header("x-shown-sha256") };
  }

  brief(id: string): Promise<TrustBrief> {
    return this.#json(wire.TRUST_BRIEF, get(`/tasks/${segment(id)}/brief`));
  }

  databaseDiff(id: string, query: wire.DatabaseDiffQuery): Promise<wire.DatabaseRows> {
    return this.#json(wire.DATABASE_ROWS, get(`/tasks/${segment(id)}/database-diff`, query));
  }

  async *log(id: string, options: { follow?: boolean; signal?: AbortSignal } = {}): AsyncGenerator<string, void> {
    const path = `/tasks/${segment(id)}/log${options.follow === true ? "?follow=1" : ""}`;
    using received = await this.#send(get(path), this.#until(options.signal));
    const decoder = new TextDecoder();
    for await (const bytes of received.body) yield decoder.decode(bytes, { stream: true });
    const rest = decoder.decode();
    if (rest !== "") yield rest;
  }

  enqueue(request: SubmitRequest): Promise<wire.QueueItemView> {
    return this.#json(wire.QUEUE_ITEM, post("/queue", request));
  }

  async queue(): Promise<wire.QueueItemView[]> {
    return (await this.#json(wire.QUEUE_LIST, get("/queue"))).items;
  }

  cancelQueued(id: string): Promise<void> {
    return this.#done(post(`/queue/${segment(id)}/cancel`));
  }

  verification(id: string): Promise<wire.Verification> {
    return this.#json(wire.VERIFICATION, get(`/tasks/${segment(id)}/verification`));
  }

  bases(id: string): Promise<wire.BasesView> {
    return this.#json(wire.BASES_VIEW, get(`/admin/tasks/${segment(id)}/bases`));
  }

  async pending(): Promise<wire.PendingTask[]> {
    return (await this.#json(wire.PENDING_LIST, get("/admin/pending"))).tasks;
  }

  approve(
    id: string,
    request: { diff_sha256: string; acknowledge: readonly string[]; seen?: Seen; decide?: DecideRequest },
  ): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/approve`, request));
  }

  deny(id: string, reason = ""): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/deny`, { reason }));
  }

  push(id: string, request: { decide?: DecideRequest; conflicts_read_sha256?: string } = {}): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/push`, request));
  }

  kill(id: string, reason = ""): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/kill`, { reason }));
  }

  grantEgress(id: string, request: wire.EgressGrantRequest): Promise<void> {
    return this.#done(post(`/admin/tasks/${segment(id)}/egress`, request));
  }

  prune(request: { before: string; dry_run: boolean }): Promise<wire.Pruned> {
    return this.#json(wire.PRUNED, post("/admin/prune", request));
  }

  policy(): Promise<PolicyView> {
    return this.#json(wire.POLICY_VIEW, get("/admin/policy"));
  }

  ceiling(): Promise<wire.CeilingView> {
    return this.#json(wire.CEILING_VIEW, get("/admin/ceiling"));
  }

  stats(options: { since?: string; by?: Grouping } = {}): Promise<wire.StatsView> {
    return this.#json(wire.STATS_VIEW, get("/admin/stats", options));
  }

  async uiUrl(): Promise<string> {
    return (await this.#json(wire.UI_ADDRESS, get("/admin/ui"))).url;
  }

  apiTokens(): Promise<wire.TokenList> {
    return this.#json(wire.TOKEN_LIST, get("/admin/tokens"));
  }

  createApiToken(request: wire.CreateTokenRequest): Promise<wire.CreatedToken> {
    return this.#json(wire.CREATED_TOKEN, post("/admin/tokens", request));
  }

  revokeApiToken(name: string): Promise<void> {
    return this.#done(post(`/admin/tokens/${segment(name)}/revoke`));
  }

  health(): Promise<wire.Health> {
    return this.#json(wire.HEALTH, get("/healthz"));
  }

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

  async #send(sending: Sending, signal = this.#options.signal): Promise<Received> {
    const { user_agent } = this.#options;
    const headers = { ...(user_agent && { "user-agent": user_agent }), ...sending.headers };
    const received = await exchange(this.place, { ...sending, headers, signal }, this.#options);
    if (received.status >= 200 && received.status < 300) return received;
    using _failed = received;
    throw errorOf(parseJson(await readAll(received, MAX_ANSWER_BYTES)), received.status);
  }

  #until(signal: AbortSignal | undefined): AbortSignal | undefined {
    const { signal: own } = this.#options;
    return signal === undefined || own === undefined ? signal ?? own : AbortSignal.any([signal, own]);
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
  const gathered = new GatheredBytes();
  for await (const part of body) {
    if (gathered.length + part.length > max_bytes) throw notUnderstood(`it has more than ${max_bytes} bytes`);
    gathered.push(part);
  }
  return gathered.whole();
}

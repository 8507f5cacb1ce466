/**
 * One client connection, and what every kind of request on it goes through: who asks, may they, can it be reached, and
 * a line in the log.
 */

import type { Clock } from "../../lib/clock.ts";
import type { MovingDeadline, MovingDeadlines } from "../../lib/moving_deadlines.ts";
import type { SharedBuffers } from "./_shared_buffers.ts";
import { BufferedConnection, type Stream } from "./_buffered_connection.ts";
import type { AccessLog } from "./access_log.ts";
import type { EgressAdmission, EgressAdmissions } from "./admissions.ts";
import type { EgressDecision } from "./decision.ts";
import type { Dialer } from "./dialer.ts";
import { type EgressTarget, formatTarget } from "./host_name.ts";
import { type RequestHead, valuesOf } from "./http_head.ts";
import { type Reason, REASONS, Refused } from "./reasons.ts";

/** Times in milliseconds. */
export const EGRESS_TIMEOUTS = {
  /** From a connection's or a request's first byte to the end of the request's head. */
  head_ms: 10_000,
  keep_alive_ms: 60_000,
  resolve_ms: 10_000,
  connect_ms: 10_000,
  /** From the answer to CONNECT to a whole ClientHello. */
  hello_ms: 10_000,
  /** Of a plain request or response in which no byte moves. */
  exchange_ms: 300_000,
  /** Of a tunnel in which no byte moves, in either direction. */
  tunnel_ms: 900_000,
  /** For a refused client to take its answer. */
  linger_ms: 2_000,
};

export type EgressTimeouts = typeof EGRESS_TIMEOUTS;

export const EGRESS_LIMITS = {
  /** Connections of all clients; each takes up to two descriptors. */
  connections: 4_096,
  connections_per_task: 256,
  /** Connections from one address that no task has proved to be its own yet. */
  pending_per_peer: 128,
};

export type EgressLimits = typeof EGRESS_LIMITS;

export interface SessionDeps {
  clock: Clock;
  admissions: EgressAdmissions;
  dialer: Dialer;
  log: AccessLog;
  buffers: SharedBuffers;
  deadlines: MovingDeadlines;
  timeouts: EgressTimeouts;
  limits: EgressLimits;
  onDecision: (decision: EgressDecision) => void;
}

export interface Attempt {
  at_ms: number;
  started_ms: number;
  /** Bytes that the client had been sent before. */
  sent_before: number;
  method: string;
  path?: string;
  target?: EgressTarget;
  address?: string;
  /** A grant lets it through, and not the list. */
  granted?: boolean;
  /** The answer to CONNECT is out: what follows belongs to the tunnel. */
  established: boolean;
}

export class Session {
  readonly client: BufferedConnection;
  readonly deadline: MovingDeadline;
  readonly deps: SessionDeps;
  readonly peer: string;
  #admission: EgressAdmission | undefined;
  #upstream: BufferedConnection | undefined;
  /** What is waited for before there is an upstream. */
  #waiting: AbortController | undefined;

  constructor(stream: Stream, peer: string, deps: SessionDeps) {
    this.deps = deps;
    this.peer = peer;
    this.deadline = deps.deadlines.create();
    this.client = new BufferedConnection(stream, () => this.deadline.progress(), deps.buffers);
  }

  /** The task whose connection it is, once that is proved. */
  get admission(): EgressAdmission | undefined {
    return this.#admission;
  }

  close(): void {
    this.client.close();
    this.#upstream?.close();
    this.#waiting?.abort(new Refused("client_gone"));
  }

  end(): void {
    this.close();
    this.deadline.clear();
    this.#admission?.release(this);
  }

  begin(method: string): Attempt {
    const { clock } = this.deps;
    const sent_before = this.client.sent_bytes;
    return { at_ms: clock.now(), started_ms: clock.monotonic(), sent_before, method, established: false };
  }

  /** Whose request it is. Throws {@linkcode Refused}; a connection is one task's for good. */
  authenticate(head: RequestHead): void {
    const admission = this.deps.admissions.authenticate(valuesOf(head.fields, "proxy-authorization"));
    if (this.#admission === admission) return;
    if (this.#admission !== undefined) throw new Refused("credentials_wrong");
    this.#admission = admission;
    if (!admission.take(this, this.deps.limits.connections_per_task)) throw new Refused("too_many_connections");
  }

  /**
   * Throws {@linkcode Refused} unless the task may reach the attempt's target.
   *
   * @param in_granted Whether it is made inside a tunnel that a grant has let through, and so counted.
   */
  authorise(attempt: Attempt, target: EgressTarget, in_granted = false): void {
    if (this.#admission === undefined || this.#admission.ended) throw new Refused("credentials_wrong");
    attempt.granted = in_granted || this.#admission.authorise(target, this) === "grant";
    if (!this.deps.log.healthy) throw new Refused("log_unavailable");
  }

  /** The addresses of a target that was authorised. Throws {@linkcode Refused}. */
  async resolve(target: EgressTarget): Promise<string[]> {
    return await this.deps.dialer.addresses(target.host, this.#bounded("resolve_timeout", "resolve_ms"));
  }

  /** Connects to one of `addresses`, which {@linkcode resolve} gave. Throws {@linkcode Refused}. */
  async dial(attempt: Attempt, target: EgressTarget, addresses: string[]): Promise<BufferedConnection> {
    const bounded = () => this.#bounded("connect_timeout", "connect_ms");
    const { stream, address } = await this.deps.dialer.dial(addresses, target.port, bounded);
    attempt.address = address;
    this.#upstream = new BufferedConnection(stream, () => this.deadline.progress(), this.deps.buffers);
    // The client, or the task, may have gone in the meantime, and nothing else would close it.
    if (this.client.closed) this.#upstream.close();
    return this.#upstream;
  }

  /** Puts an allowed or refused attempt on record for the task; the log's line is {@linkcode log}'s. */
  record(attempt: Attempt, outcome: Refused | number): EgressDecision {
    const decision = this.#decision(attempt, outcome);
    this.#admission?.ring.add(decision);
    this.deps.onDecision(decision);
    return decision;
  }

  log(attempt: Attempt, decision: EgressDecision): void {
    this.deps.log.write(decision, {
      elapsed_ms: this.deps.clock.monotonic() - attempt.started_ms,
      sent_bytes: this.client.sent_bytes - attempt.sent_before,
    });
  }

  #decision(attempt: Attempt, outcome: Refused | number): EgressDecision {
    const { at_ms, method, target, path, address, granted } = attempt;
    const refused = typeof outcome === "number" ? undefined : outcome;
    const reason: Reason = refused?.reason ?? "allowed";
    const status = refused === undefined ? outcome as number : REASONS[refused.reason].status;
    const detail = refused === undefined ? granted && "granted" : refused.detail;
    const failed = [0, 408, 500, 502, 504].includes(status);
    return {
      at_ms,
      peer: this.peer,
      method,
      verdict: refused === undefined ? "allowed" : failed ? "failed" : "denied",
      reason,
      status,
      ...this.#admission === undefined ? {} : { task_id: this.#admission.task_id },
      ...target === undefined ? {} : { ...target, url: urlOf(target, path) },
      ...address === undefined ? {} : { address },
      ...detail ? { detail } : {},
    };
  }

  #bounded(reason: "resolve_timeout" | "connect_timeout", time: "resolve_ms" | "connect_ms"): AbortSignal {
    const abort = this.#waiting = new AbortController();
    this.deadline.set(this.deps.timeouts[time], () => abort.abort(new Refused(reason)));
    if (this.client.closed) abort.abort(new Refused("client_gone"));
    return abort.signal;
  }
}

function urlOf(target: EgressTarget, path: string | undefined): string {
  return path === undefined ? formatTarget(target) : `http://${formatTarget(target, 80)}${path}`;
}

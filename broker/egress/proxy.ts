/**
 * The egress proxy: a sandbox's only connection to other hosts. It knows each task by its password, and lets it reach
 * the hosts and ports of the egress list and nothing else.
 *
 * What it guarantees: a name that is not listed is never looked up; what is dialled is an address that was checked and
 * found public; what goes through belongs to the host that was asked for, by SNI or by Host; every decision is in the
 * access log; every wait, buffer and count has a bound.
 */

import type { Clock, RandomBytes } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { MovingDeadlines } from "../../lib/moving_deadlines.ts";
import { acceptAll } from "../../lib/accept.ts";
import { hostPort } from "../../lib/http/address.ts";
import type { HttpListener } from "../../lib/http/server.ts";
import { SharedBuffers } from "./_shared_buffers.ts";
import { serveClient } from "./_client_requests.ts";
import {
  EGRESS_LIMITS,
  EGRESS_TIMEOUTS,
  type EgressLimits,
  type EgressTimeouts,
  Session,
  type SessionDeps,
} from "./_session.ts";
import { AccessLog } from "./access_log.ts";
import { EgressAdmissions } from "./admissions.ts";
import type { EgressDecision } from "./decision.ts";
import { Dialer, type DialerOptions } from "./dialer.ts";
import type { EgressGrant } from "./grants.ts";
import { refusalResponse, Refused } from "./reasons.ts";
import type { EgressList } from "./egress_rules.ts";

export { EGRESS_LIMITS, EGRESS_TIMEOUTS } from "./_session.ts";

/** How the log names a client over a socket, which has no address. */
const UNNAMED_PEER = "unix";

export interface EgressProxyOptions extends DialerOptions {
  clock: Clock;
  random: RandomBytes;
  egress: EgressList;
  log_dir: string;
  onDecision?: (decision: EgressDecision) => void;
  timeouts?: Partial<EgressTimeouts>;
  limits?: Partial<EgressLimits>;
}

export interface TaskEgress {
  username: string;
  password: string;
  /** The proxy with both, as HTTP_PROXY and HTTPS_PROXY take it. */
  url: string;
  /** What the proxy decided for the task, the latest last; also after the end. */
  decisions(): EgressDecision[];
  /** Opens a host beside the list; throws as {@linkcode GrantedHosts.add}. */
  grant(grant: EgressGrant): void;
  /** How often each grant was used, in the order in which they were given; also after the end. */
  grantUses(): number[];
  /** Ends the admission: its connections are closed, and the password is worth nothing. */
  end(): void;
}

export class EgressProxy {
  readonly #listener: HttpListener;
  /** Where it listens; the port is the real one when 0 was asked for. */
  readonly address: { hostname: string; port: number };
  readonly #deps: SessionDeps;
  readonly #egress: EgressList;
  readonly #sessions = new Set<Session>();
  readonly #serving = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  readonly #accepting: Promise<void>;

  private constructor(
    listener: HttpListener,
    address: { hostname: string; port: number },
    log: AccessLog,
    options: EgressProxyOptions,
  ) {
    this.#listener = listener;
    this.address = address;
    this.#egress = options.egress;
    this.#deps = {
      clock: options.clock,
      admissions: new EgressAdmissions(options),
      dialer: new Dialer(options),
      log,
      buffers: new SharedBuffers(),
      deadlines: new MovingDeadlines(options.clock),
      timeouts: { ...EGRESS_TIMEOUTS, ...options.timeouts },
      limits: { ...EGRESS_LIMITS, ...options.limits },
      onDecision: options.onDecision ?? (() => {}),
    };
    const take = (client: Deno.Conn) => {
      const serving = this.#serve(client);
      this.#serving.add(serving);
      serving.finally(() => this.#serving.delete(serving));
    };
    this.#accepting = acceptAll(listener, take, { clock: options.clock, signal: this.#stop.signal });
  }

  /**
   * Listens on `address`: the setting `gateway_ip` and port {@linkcode PROXY_PORT}; or accepts on `listener`, which its
   * clients know by that address.
   *
   * Requires `--allow-net`, `--allow-sys=networkInterfaces` and reading and writing of the log's directory.
   *
   * @throws {TaskdError} `unavailable` when the address cannot be used; errors of the log's file.
   */
  static listen(
    address: { hostname: string; port: number },
    options: EgressProxyOptions,
    listener?: HttpListener,
  ): EgressProxy {
    const log = AccessLog.open(options.log_dir);
    try {
      if (listener !== undefined) return new EgressProxy(listener, address, log, options);
      const own = Deno.listen({ ...address, transport: "tcp" });
      return new EgressProxy(own, own.addr, log, options);
    } catch (cause) {
      log.close();
      throw new TaskdError("unavailable", `Cannot listen on ${address.hostname}:${address.port} for the egress proxy`, {
        cause,
        hint: "See whether another broker runs, and whether the address exists on this host (gateway_ip)",
      });
    }
  }

  get connections(): number {
    return this.#sessions.size;
  }

  /**
   * Admits a task to the operator's list, and to `extra`, which admission has approved.
   *
   * @throws {TaskdError} `invalid_request` for a bad id or list entry; `already_exists` for a task that is admitted.
   */
  admit({ task_id, extra }: { task_id: string; extra?: EgressList }): TaskEgress {
    const { admissions } = this.#deps;
    const { admission, password } = admissions.admit(task_id, this.#egress, extra ?? { entries: [] });
    return {
      username: task_id,
      password,
      url: `http://${task_id}:${password}@${hostPort(this.address)}`,
      decisions: () => admission.ring.list(),
      grant: (grant) => admission.grants.add(grant),
      grantUses: () => admission.grants.uses(),
      end: () => admissions.end(admission),
    };
  }

  async close(): Promise<void> {
    if (this.#stop.signal.aborted) return;
    this.#stop.abort();
    const is_closed = this.#listener.close() !== false;
    for (const session of this.#sessions) session.close();
    await Promise.all([is_closed && this.#accepting, ...this.#serving]);
    this.#deps.deadlines.close();
    this.#deps.log.close();
  }

  async #serve(client: Deno.Conn): Promise<void> {
    const peer = "hostname" in client.remoteAddr ? client.remoteAddr.hostname : UNNAMED_PEER;
    const session = new Session(client, peer, this.#deps);
    if (!this.#hasRoom(peer)) return rejectOverloaded(session);
    this.#sessions.add(session);
    try {
      if (isTcp(client)) client.setNoDelay(true);
    } catch {
      // The peer is gone; the first read fails.
    }
    await serveClient(session);
    this.#sessions.delete(session);
  }

  /**
   * Whether there is room for a connection of `peer`. Where a bound is reached, the oldest connection gives way that has
   * shown no credentials: on loopback any user of the machine can open as many as there may be.
   */
  #hasRoom(peer: string): boolean {
    const { connections, pending_per_peer } = this.#deps.limits;
    if (this.#sessions.size < Math.min(connections, pending_per_peer)) return true;
    const pending = [...this.#sessions].filter(({ admission }) => admission === undefined);
    const of_peer = pending.filter((session) => session.peer === peer);
    const oldest = of_peer.length >= pending_per_peer
      ? of_peer[0]
      : this.#sessions.size >= connections
      ? pending[0]
      : undefined;
    if (oldest === undefined) return this.#sessions.size < connections;
    this.#sessions.delete(oldest);
    oldest.close();
    return true;
  }
}

function isTcp(client: Deno.Conn): client is Deno.TcpConn {
  return client.remoteAddr.transport === "tcp";
}

/** Answers that there is no room, without waiting for the client. */
async function rejectOverloaded(session: Session): Promise<void> {
  const refused = new Refused("overloaded");
  const attempt = session.begin("NONE");
  const decision = session.record(attempt, refused);
  await session.client.write(refusalResponse(refused, undefined, true)).catch(() => {});
  session.end();
  session.log(attempt, decision);
}

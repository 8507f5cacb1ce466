/**
 * The model gateway: the one way from a sandbox to a model's API. A task's token opens it; the real key is added here
 * to outgoing requests, and is in no answer, no log and no error. What passes is listed, read whole and checked before
 * a byte goes out, and metered as it comes back.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { type Clock, type RandomBytes, systemClock, systemRandom } from "../../lib/clock.ts";
import { MovingDeadlines } from "../../lib/moving_deadlines.ts";
import { concat } from "../../lib/concat.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { type Lane, LANES, laneText } from "../agents.ts";
import type { HttpTimeouts } from "../../lib/http/connection_stream.ts";
import { drain, hasBody, type HttpExchange } from "../../lib/http/node_messages.ts";
import { BoundedServer, type HttpListener } from "../../lib/http/server.ts";
import { ClientGone, MAX_HELD_BYTES, readJsonBody } from "./body.ts";
import { Exchange, EXCHANGE_LIMITS, type ExchangeLimits, MAX_HELD_ANSWER_BYTES } from "./exchange.ts";
import { presentedToken } from "./headers.ts";
import { type Claim, type GatewayLease, type LeaseOptions, type Settlement, TaskLease } from "./lease.ts";
import { bound } from "./metering/estimate.ts";
import type { PriceBook } from "./prices.ts";
import { Refusal } from "./refusal.ts";
import { type MemoryShare, SharedMemory } from "./shared_memory.ts";
import { type MatchedRoute, matchRoute } from "./routes.ts";
import { checkBody } from "./fields/mod.ts";
import { InvalidJson, parseStrictJson } from "../../lib/text/strict_json.ts";
import { Upstream, type UpstreamOptions } from "./upstream.ts";
import { GATEWAY_PORT } from "../egress/ports.ts";

/**
 * Opening brackets, commas and colons of a body. Of the requests that were recorded of agents (recorded_requests.json
 * of the tests) the largest has 340 without its conversation, and a turn of one adds 10 to 20: this is room for more than
 * ten thousand turns beside a hundred tools with large schemas, more than the largest context window holds.
 */
export const MAX_BODY_MARKS = 1 << 18;
export const MAX_GATEWAY_CONNECTIONS = 1_024;
/** Of one task, and of one address whose tasks are not known yet, at most; and a quarter of all, so that no one takes them. */
export const MAX_GATEWAY_SHARE = 256;
const HINT = "Another broker may be running, or the address of gateway_ip does not exist yet";

export interface GatewayOptions {
  hostname: string;
  /** Default {@linkcode GATEWAY_PORT}; 0 takes any free one. */
  port?: number;
  /** What it accepts on in place of that address, by which its clients know it. */
  listener?: HttpListener | undefined;
  upstreams: Partial<Record<Lane, UpstreamOptions>>;
  prices: PriceBook;
  /** Connections at once, of all tasks; {@linkcode MAX_GATEWAY_CONNECTIONS} by default. */
  max_connections?: number;
  onSettled?: (lease: GatewayLease, settlement: Settlement) => void;
  /** Receives defects of this program; never a request's content. */
  log?: (line: string) => void;
  clock?: Clock;
  random?: RandomBytes;
  limits?: Partial<ExchangeLimits>;
  /** Shorter deadlines of its clients, for tests. */
  timeouts?: Partial<HttpTimeouts> | undefined;
}

interface Entry {
  lease: TaskLease;
  handle: GatewayLease;
  bodies: MemoryShare;
  answers: MemoryShare;
}

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #clock: Clock;
  readonly #limits: ExchangeLimits;
  readonly #server: BoundedServer<void>;
  /** Connections of one task, or one address. */
  readonly #share: number;
  /** Where it listens; the port is the real one when 0 was asked for. */
  readonly address: { hostname: string; port: number };
  readonly #upstreams = new Map<Lane, Upstream>();
  readonly #leases = new Map<string, Entry>();
  readonly #deadlines: MovingDeadlines;
  readonly #body_memory = new SharedMemory(MAX_HELD_BYTES, "requests");
  readonly #answer_memory = new SharedMemory(MAX_HELD_ANSWER_BYTES, "answers");
  #closing = false;

  private constructor(options: GatewayOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#limits = { ...EXCHANGE_LIMITS, ...options.limits };
    this.#deadlines = new MovingDeadlines(this.#clock);
    for (const lane of LANES) {
      const upstream = options.upstreams[lane];
      if (upstream) this.#upstreams.set(lane, new Upstream(lane, upstream));
    }
    const max_connections = options.max_connections ?? MAX_GATEWAY_CONNECTIONS;
    this.#share = Math.min(MAX_GATEWAY_SHARE, Math.ceil(max_connections / 4));
    this.#server = new BoundedServer<void>({
      serve: (exchange) => this.#serve(exchange),
      log: options.log,
      max_connections,
      max_share: this.#share,
      clock: this.#clock,
      timeouts: options.timeouts,
    });
    const { hostname, port = GATEWAY_PORT } = options;
    if (options.listener === undefined) {
      this.address = this.#server.listen({ hostname, port }, HINT, () => {});
    } else {
      this.address = { hostname, port };
      this.#server.over(options.listener, undefined);
    }
  }

  /** Listens. Throws `unavailable` when the address cannot be had. */
  static start(options: GatewayOptions): Gateway {
    return new Gateway(options);
  }

  /** Opens the gateway for a task; throws `invalid_request` when its lane has no upstream or no credential. */
  lease(options: LeaseOptions): GatewayLease {
    if (!this.#upstreams.get(options.lane)?.serves(options.auth)) {
      throw new TaskdError(
        "invalid_request",
        `Cannot lease the gateway: ${laneText(options.lane)} has no ${options.auth}`,
        {
          hint: "Set the vendor's key, or sign in to its subscription",
        },
      );
    }
    const { lease, token } = TaskLease.create(options, this.#options.random ?? systemRandom);
    const handle: GatewayLease = {
      token,
      spend: () => lease.spend(),
      reported: () => lease.reported(),
      end: async () => {
        this.#leases.delete(lease.digest);
        lease.ending.abort();
        await lease.idle();
        return lease.spend();
      },
    };
    this.#leases.set(lease.digest, {
      lease,
      handle,
      bodies: this.#body_memory.share(),
      answers: this.#answer_memory.share(),
    });
    return handle;
  }

  /** Accepts nothing more, ends every lease, and resolves once all is settled. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#server.stopAccepting();
    await Promise.all([...this.#leases.values()].map(({ handle }) => handle.end()));
    await this.#server.close(0);
    this.#deadlines.close();
    for (const upstream of this.#upstreams.values()) upstream.close();
  }

  async #serve({ incoming, outgoing, stream }: HttpExchange<void>): Promise<void> {
    // A model may think for long, and what is spent for a client that is gone has to be known.
    stream.streaming();
    let claim: Claim | undefined;
    let ending: AbortSignal | undefined;
    const cut = () => stream.destroy();
    try {
      if (incoming.headers.upgrade !== undefined) throw new Refusal("upgrade_refused", UPGRADE_DETAIL);
      if (this.#closing) throw new Refusal("stopping", "The gateway is stopping");
      const entry = this.#leases.get(sha256Hex(presentedToken(incoming.headers)));
      if (!entry) throw new Refusal("unauthorized", "The token is unknown, or its task has ended");
      if (!this.#server.assign(stream, entry.lease.digest)) {
        throw new Refusal("overloaded", `The task has ${this.#share} requests on their way`);
      }
      const route = matchRoute(entry.lease.options.lane, incoming.method ?? "", incoming.url ?? "");
      claim = entry.lease.claim();
      ending = entry.lease.ending.signal;
      ending.addEventListener("abort", cut);
      await this.#exchange(entry, claim, route, incoming, outgoing);
    } catch (error) {
      await this.#refuse(error, incoming, outgoing);
    } finally {
      claim?.withdraw();
      ending?.removeEventListener("abort", cut);
    }
  }

  async #exchange(
    { lease, handle, bodies, answers }: Entry,
    claim: Claim,
    route: MatchedRoute,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    using body = route.row.method === "POST" ? await readJsonBody(request, bodies) : undefined;
    if (!body && hasBody(request)) throw new Refusal("bad_request", "A request of this route has no body");
    const { lane } = lease.options;
    const version = request.headers["anthropic-version"];
    const checked = body && checkBody(lane, route, parsed(body.bytes), {
      allowed: lease.allow_tools,
      version: Array.isArray(version) ? version.join() : version,
    });
    if (checked?.switch_off !== undefined) body!.bytes = switchedOff(body!.bytes, checked.switch_off);
    const { prices } = this.#options;
    if (lease.ending.signal.aborted) throw new Refusal("unauthorized", "The task of this token has ended");
    claim.recheck();
    if (route.row.usage && checked) {
      // A model without a price never meets the budget; its requests are counted.
      const most = { ...checked, body_bytes: body.bytes.length };
      const bound_usd = prices.boundOf(lane, checked.model, bound(most));
      if (bound_usd !== undefined) claim.reserve(bound_usd);
    }
    const exchange = new Exchange({
      lease,
      claim,
      upstream: this.#upstreams.get(lane)!,
      prices,
      clock: this.#clock,
      deadline: this.#deadlines.create(),
      memory: answers,
      limits: this.#limits,
      route,
      asked: checked,
      body: body?.bytes,
      request,
      response,
      onSettled: (settlement) => {
        lease.options.onSpend?.(lease.spend());
        this.#options.onSettled?.(handle, settlement);
      },
    });
    await exchange.run();
  }

  async #refuse(error: unknown, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (error instanceof ClientGone) return;
    if (!(error instanceof Refusal)) this.#options.log?.(`defect: gateway ${defect(error)}`);
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const refusal = error instanceof Refusal ? error : new Refusal("internal", "The broker's log has the details");
    const { status, headers, body } = refusal.answer();
    // What was not read of a request stands in the way of the next one. Who has no token is not waited for: it would hold
    // a place, which on loopback all tasks share.
    if (refusal.code === "unauthorized" && hasBody(request)) response.shouldKeepAlive = false;
    else if (!await drain(request)) response.shouldKeepAlive = false;
    response.writeHead(status, headers);
    response.end(request.method === "HEAD" ? undefined : body);
  }
}

const UPGRADE_DETAIL = "Send plain requests; WebSockets and other protocols are not offered";

/** The stack of a defect: names of functions, no message, since that can quote a header. */
function defect(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const frames = error.stack?.split("\n").filter((line) => line.startsWith("    at ")) ?? [];
  return [error.name, ...frames.slice(0, 5)].join(" |");
}

/** An object's bytes with one flag more, and else as they came. */
function switchedOff(bytes: Uint8Array, flag: string): Uint8Array {
  const after = bytes.indexOf(0x7b) + 1;
  return concat([bytes.subarray(0, after), new TextEncoder().encode(`"${flag}":false,`), bytes.subarray(after)]);
}

/** Agents cut what they send where they like: halves of surrogate pairs are the vendor's to take or refuse. */
function parsed(bytes: Uint8Array): unknown {
  try {
    return parseStrictJson(bytes, { any_text: true, max_marks: MAX_BODY_MARKS });
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    throw new Refusal("bad_request", `The body ${error.message}`, error.field);
  }
}

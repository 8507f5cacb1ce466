/**
 * The model gateway: the one way from a sandbox to a model's API. A task's token opens it; the real key is added here
 * to outgoing requests, and is in no answer, no log and no error. What passes is listed, read whole and checked before
 * a byte goes out, and metered as it comes back.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type Clock, type RandomBytes, systemClock, systemRandom } from "../../lib/clock.ts";
import { MovingDeadlines } from "../../lib/moving_deadlines.ts";
import { TaskdError } from "../../lib/errors.ts";
import { type Lane, LANES, laneText } from "../agents.ts";
import { BodyMemory, ClientGone, drainBody, readJsonBody } from "./body.ts";
import { Exchange, EXCHANGE_LIMITS, type ExchangeLimits } from "./exchange.ts";
import { presentedToken } from "./headers.ts";
import { type Claim, type GatewayLease, type LeaseOptions, type Settlement, TaskLease, tokenDigest } from "./lease.ts";
import type { PriceBook } from "./prices.ts";
import { Refusal } from "./refusal.ts";
import { type MatchedRoute, matchRoute } from "./routes.ts";
import { checkBody } from "./rules/mod.ts";
import { InvalidJson, parseStrictJson } from "../../lib/text/strict_json.ts";
import { Upstream, type UpstreamOptions } from "./upstream.ts";
import { GATEWAY_PORT } from "../egress/ports.ts";

const HEADERS_MS = 10_000;
const REQUEST_MS = 60_000;
const KEEP_ALIVE_MS = 60_000;
/** How often Node checks the two times above; its default of 30 s would make them 40 s and 90 s. */
const CHECK_MS = 1_000;
export const MAX_GATEWAY_CONNECTIONS = 1_024;
/** Of one address, so that no sandbox takes every place. */
export const MAX_CONNECTIONS_PER_PEER = 256;
/** How long a client that was refused an upgrade may take to read its answer. */
const LINGER_MS = 2_000;

export interface GatewayOptions {
  hostname: string;
  /** Default {@linkcode GATEWAY_PORT}; 0 takes any free one. */
  port?: number;
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
  timeouts?: { headers_ms?: number; request_ms?: number };
}

interface Entry {
  lease: TaskLease;
  handle: GatewayLease;
}

export class Gateway {
  readonly #options: GatewayOptions;
  readonly #clock: Clock;
  readonly #limits: ExchangeLimits;
  readonly #server: Server;
  readonly #upstreams = new Map<Lane, Upstream>();
  readonly #leases = new Map<string, Entry>();
  readonly #deadlines: MovingDeadlines;
  readonly #body_memory = new BodyMemory();
  readonly #peers = new Map<string, number>();
  /** Connections that Node no longer handles, until they are closed. */
  readonly #detached = new Set<Duplex>();
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
    this.#server = createServer({
      headersTimeout: options.timeouts?.headers_ms ?? HEADERS_MS,
      requestTimeout: options.timeouts?.request_ms ?? REQUEST_MS,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: CHECK_MS,
    }, (request, response) => void this.#serve(request, response));
    this.#server.maxConnections = options.max_connections ?? MAX_GATEWAY_CONNECTIONS;
    this.#server.on("connection", (socket: Socket) => this.#count(socket));
    this.#server.on(
      "upgrade",
      (_request: IncomingMessage, socket: Duplex) => this.#endWith(socket, UPGRADE_ANSWER),
    );
    this.#server.on("clientError", (_error: Error, socket: Socket) => this.#endWith(socket, BAD_REQUEST_ANSWER));
  }

  static async start(options: GatewayOptions): Promise<Gateway> {
    const gateway = new Gateway(options);
    const { hostname, port = GATEWAY_PORT } = options;
    try {
      await new Promise<void>((resolve, reject) => {
        gateway.#server.once("error", reject);
        gateway.#server.listen(port, hostname, resolve);
      });
    } catch (cause) {
      throw new TaskdError("unavailable", `Cannot listen on ${hostname}:${port}`, {
        cause,
        hint: "Another broker may be running, or the address of gateway_ip does not exist yet",
      });
    }
    return gateway;
  }

  get address(): { hostname: string; port: number } {
    const address = this.#server.address();
    if (address === null || typeof address === "string") return { hostname: this.#options.hostname, port: 0 };
    return { hostname: address.address, port: address.port };
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
      end: async () => {
        this.#leases.delete(lease.digest);
        lease.ending.abort();
        await lease.idle();
        return lease.spend();
      },
    };
    this.#leases.set(lease.digest, { lease, handle });
    return handle;
  }

  /** Accepts nothing more, ends every lease, and resolves once all is settled. */
  async close(): Promise<void> {
    this.#closing = true;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    await Promise.all([...this.#leases.values()].map(({ handle }) => handle.end()));
    this.#server.closeAllConnections();
    for (const socket of this.#detached) socket.destroy();
    await closed;
    this.#deadlines.close();
    for (const upstream of this.#upstreams.values()) upstream.close();
  }

  /** Counts a connection until it is closed; one too many of its address is closed at once. */
  #count(socket: Socket): void {
    const { remoteAddress: peer = "" } = socket;
    const count = (this.#peers.get(peer) ?? 0) + 1;
    if (count > MAX_CONNECTIONS_PER_PEER) {
      socket.destroy();
      return;
    }
    this.#peers.set(peer, count);
    socket.once("close", () => {
      const left = this.#peers.get(peer)! - 1;
      if (left === 0) this.#peers.delete(peer);
      else this.#peers.set(peer, left);
    });
  }

  /** Answers on a connection that has left Node's hands, and sees to its end: Node neither reads nor bounds it. */
  #endWith(socket: Duplex, refusal: Refusal): void {
    const { status, headers, body } = refusal.answer();
    const lines = Object.entries({ ...headers, connection: "close" }).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.on("error", () => {});
    if (!socket.writable || this.#closing) {
      socket.destroy();
      return;
    }
    const deadline = this.#deadlines.create();
    this.#detached.add(socket);
    socket.once("close", () => {
      deadline.clear();
      this.#detached.delete(socket);
    });
    deadline.set(LINGER_MS, () => socket.destroy());
    socket.resume();
    socket.end(`HTTP/1.1 ${status} Refused\r\n${lines.join("")}\r\n${body}`);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on("error", () => {});
    let claim: Claim | undefined;
    let ending: AbortSignal | undefined;
    const cut = () => request.socket.destroy();
    try {
      if (request.headers.upgrade !== undefined) throw new Refusal("upgrade_refused", UPGRADE_DETAIL);
      if (this.#closing) throw new Refusal("stopping", "The gateway is stopping");
      const entry = this.#leases.get(tokenDigest(presentedToken(request.headers)));
      if (!entry) throw new Refusal("unauthorized", "The token is unknown, or its task has ended");
      const route = matchRoute(entry.lease.options.lane, request.method ?? "", request.url ?? "");
      claim = entry.lease.claim();
      ending = entry.lease.ending.signal;
      ending.addEventListener("abort", cut);
      await this.#exchange(entry, claim, route, request, response);
    } catch (error) {
      this.#refuse(error, request, response);
    } finally {
      claim?.withdraw();
      ending?.removeEventListener("abort", cut);
    }
  }

  async #exchange(
    { lease, handle }: Entry,
    claim: Claim,
    route: MatchedRoute,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    using body = route.row.method === "POST" ? await readJsonBody(request, this.#body_memory) : undefined;
    if (!body) refuseBody(request);
    const { lane } = lease.options;
    const model = body && checkBody(lane, route, parsed(body.bytes), lease.allow_tools);
    const { prices } = this.#options;
    if (lease.ending.signal.aborted) throw new Refusal("unauthorized", "The task of this token has ended");
    // A model without a price never meets the budget; its requests are counted.
    if (route.row.usage && model !== undefined && prices.priceOf(lane, model)) claim.reserve();
    const exchange = new Exchange({
      lease,
      claim,
      upstream: this.#upstreams.get(lane)!,
      prices,
      clock: this.#clock,
      deadline: this.#deadlines.create(),
      limits: this.#limits,
      route,
      model,
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

  #refuse(error: unknown, request: IncomingMessage, response: ServerResponse): void {
    if (error instanceof ClientGone) return;
    if (!(error instanceof Refusal)) this.#options.log?.(`defect: gateway ${defect(error)}`);
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const refusal = error instanceof Refusal ? error : new Refusal("internal", "The broker's log has the details");
    const { status, headers, body } = refusal.answer();
    drainBody(request);
    response.writeHead(status, headers);
    response.end(request.method === "HEAD" ? undefined : body);
  }
}

const UPGRADE_DETAIL = "Send plain requests; WebSockets and other protocols are not offered";
const UPGRADE_ANSWER = new Refusal("upgrade_refused", UPGRADE_DETAIL);
const BAD_REQUEST_ANSWER = new Refusal("bad_request", "The request could not be read, or did not arrive in time");

/** The stack of a defect: names of functions, no message, since that can quote a header. */
function defect(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const frames = error.stack?.split("\n").filter((line) => line.startsWith("    at ")) ?? [];
  return [error.name, ...frames.slice(0, 5)].join(" |");
}

function refuseBody(request: IncomingMessage): void {
  const { "content-length": length = "0", "transfer-encoding": coding } = request.headers;
  if (length !== "0" || coding !== undefined) throw new Refusal("bad_request", "A request of this route has no body");
}

/** Agents cut what they send where they like: halves of surrogate pairs are the vendor's to take or refuse. */
function parsed(bytes: Uint8Array): unknown {
  try {
    return parseStrictJson(bytes, { any_text: true });
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    throw new Refusal("bad_request", `The body ${error.message}`, error.field);
  }
}

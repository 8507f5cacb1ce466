/**
 * The HTTP listener: health, metrics, events, operations and profiles over one address, behind one
 * bearer token. Operations go to the same dispatcher and answers through the same encoder as on the
 * unix socket; events come from the same publisher.
 */

import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import { stackOf, TaskdError } from "../../lib/errors.ts";
import { hostPort, type HttpAddress } from "../../lib/http/address.ts";
import { readBounded } from "../../lib/http/body.ts";
import { checkRequest, type HostRule, requireJsonType, tcpHostRule } from "../../lib/http/browser_guard.ts";
import type { HttpTimeouts } from "../../lib/http/connection_stream.ts";
import { type RequestConnection, serveFetch } from "../../lib/http/node_messages.ts";
import { RequestRefused } from "../../lib/http/request_refused.ts";
import { BoundedServer } from "../../lib/http/server.ts";
import { decodeRequest, failure } from "../../lib/protocol/codec.ts";
import { decodeLine, MAX_LINE_BYTES } from "../../lib/protocol/lines.ts";
import type { SessionInfo } from "../../lib/protocol/messages.ts";
import type { Dispatcher } from "../dispatch.ts";
import type { DaemonLog } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { MoreMetrics } from "../more_metrics.ts";
import type { Publisher } from "../publisher.ts";
import type { BearerToken } from "./auth.ts";
import type { SampledThreads } from "../sampling.ts";
import { Profiler } from "./profile.ts";
import { eventStream } from "./sse.ts";

/** Seconds of a profile unless the request says otherwise; the contract's number. */
const DEFAULT_PROFILE_SECONDS = 30;
/** How long close() waits for requests whose answers no client takes any more. */
const LAST_CALLS_MS = 2_000;
/** Left of the write budget for encoding and sending a profile. */
const PROFILE_MARGIN_MS = 5_000;

export interface HttpOptions {
  address: HttpAddress;
  token: BearerToken;
  dispatcher: Dispatcher;
  publisher: Publisher;
  metrics: Metrics;
  more_metrics: MoreMetrics;
  /** Sessions, open and opening, for metrics. */
  sessions: () => Promise<SessionInfo[]>;
  sessionCount: () => number;
  threads: SampledThreads;
  max_connections?: number;
  clock: Clock;
  random: RandomBytes;
  log: DaemonLog;
  timeouts?: Partial<HttpTimeouts> | undefined;
}

export class HttpServer {
  readonly #options: HttpOptions;
  readonly #profiler: Profiler;
  readonly #server: BoundedServer<HostRule>;
  /** `host:port` as it is. */
  readonly address: string;

  constructor(options: HttpOptions) {
    this.#options = options;
    this.#profiler = new Profiler(options.clock, options.threads);
    this.#server = new BoundedServer<HostRule>({
      serve: serveFetch({
        answer: (request, connection, rule) => this.#route(request, connection, rule),
        failed: (error) => {
          if (error instanceof RequestRefused) return refusal(error);
          options.log(`defect: http ${stackOf(error)}`);
          return problem(500, "internal", "The daemon has a defect; its log has the details");
        },
      }),
      max_connections: options.max_connections,
      log: options.log,
      clock: options.clock,
      timeouts: options.timeouts,
    });
    const hint = "Choose another address, or port 0 for any free one";
    const { hostname } = options.address;
    const ruleOf = ({ port }: Deno.NetAddr) => tcpHostRule({ hostname, port });
    this.address = hostPort(this.#server.listen(options.address, hint, ruleOf));
  }

  get connections(): number {
    return this.#server.connections;
  }

  stopAccepting(): void {
    this.#server.stopAccepting();
  }

  /** Ends everything, answers in transit last; the publisher ends the event streams before. */
  close(): Promise<void> {
    return this.#server.close(LAST_CALLS_MS);
  }

  async #route(request: Request, connection: RequestConnection, rule: HostRule): Promise<Response> {
    const { gone } = connection;
    const { pathname, searchParams } = checkRequest(request, connection.url, rule);
    if (pathname === "/healthz") {
      return await only(request, "GET", () => json(200, { ok: true, sessions: this.#options.sessionCount() }));
    }
    if (!this.#options.token.accepts(request.headers.get("authorization"))) {
      const why = "The token is missing or wrong: it is sent as Authorization: Bearer <token>";
      return problem(401, "denied", why, { "www-authenticate": 'Bearer realm="taskd"' });
    }
    switch (pathname) {
      case "/metrics":
        return await only(request, "GET", () => this.#metrics(this.#options.metrics));
      case "/metrics/more":
        return await only(request, "GET", () => this.#metrics(this.#options.more_metrics));
      case "/events":
        return await only(request, "GET", () => this.#events(connection, searchParams.get("more") === "1"));
      case "/rpc":
        return await only(request, "POST", () => this.#rpc(request));
      case "/debug/pprof":
      case "/debug/pprof/":
        return await only(request, "GET", () => profileIndex());
      case "/debug/pprof/profile":
      case "/debug/pprof/heap":
      case "/debug/pprof/allocs":
        return await only(request, "GET", () => this.#profile(pathname.slice(13), searchParams, gone));
      default:
        return problem(404, "not_found", "There is no such route");
    }
  }

  async #metrics(families: Metrics | MoreMetrics): Promise<Response> {
    const { metrics: { content_type }, sessions } = this.#options;
    return new Response(await families.render(await sessions()), { headers: { "content-type": content_type } });
  }

  #events(connection: RequestConnection, more: boolean): Response {
    connection.streaming();
    const { publisher, clock, random } = this.#options;
    return new Response(eventStream(publisher, clock, { prefix: randomHex(random, 4), more }), {
      headers: { "content-type": "text/event-stream", "x-accel-buffering": "no" },
    });
  }

  async #rpc(request: Request): Promise<Response> {
    const body = await readBounded(request, MAX_LINE_BYTES);
    if (!body) return problem(413, "too_large", `A request has at most ${MAX_LINE_BYTES} bytes`);
    requireJsonType(request);
    const decoded = decodeRequest(decodeLine(body));
    const refused = (attempted: string, hint: string) =>
      failure(decoded.id, new TaskdError("invalid_request", `Cannot ${attempted} over /rpc`, { hint }));
    if (this.#options.dispatcher.subscription(decoded)) return json(400, refused("subscribe", "Use GET /events"));
    if (decoded.progress) return json(200, refused("report progress", "Use the unix socket"));
    return json(200, await this.#options.dispatcher.run(decoded));
  }

  async #profile(kind: string, parameters: URLSearchParams, signal: AbortSignal): Promise<Response> {
    const text = parameters.get("seconds");
    const asked = text === null ? (kind === "profile" ? DEFAULT_PROFILE_SECONDS : 1) : Number(text);
    if (!Number.isFinite(asked) || asked <= 0) {
      return problem(400, "invalid_request", '"seconds" must be a number above 0');
    }
    if (this.#profiler.busy) return problem(409, "busy", "Another profile is being taken");
    const seconds = Math.min(asked, Math.max(0.1, (this.#server.timeouts.write_ms - PROFILE_MARGIN_MS) / 1000));
    const until = AbortSignal.any([signal, this.#server.ending]);
    const bytes = await this.#profiler[kind === "profile" ? "cpu" : "heap"](seconds, until);
    return new Response(bytes as Uint8Array<ArrayBuffer>, {
      headers: {
        "content-type": "application/octet-stream",
        "content-disposition": `attachment; filename="${kind}.pb.gz"`,
      },
    });
  }
}

function profileIndex(): Response {
  const text = "profile?seconds=30  CPU samples of every thread\n" +
    "heap?seconds=1      objects allocated in that time that are still live\n" +
    "allocs?seconds=1    the same\n";
  return new Response(text, { headers: { "content-type": "text/plain; charset=utf-8" } });
}

async function only(request: Request, method: string, answer: () => Response | Promise<Response>): Promise<Response> {
  if (request.method === method) return await answer();
  return problem(405, "invalid_request", `Use ${method}`, { allow: method });
}

function json(status: number, value: object, headers: Readonly<Record<string, string>> = {}): Response {
  const type = { "content-type": "application/json" };
  return new Response(`${JSON.stringify(value)}\n`, { status, headers: { ...type, ...headers } });
}

function refusal({ status, code, message, hint, headers }: RequestRefused): Response {
  return json(status, { ok: false, code, error: message, ...(hint !== undefined && { hint }) }, headers);
}

function problem(status: number, code: string, error: string, headers: Record<string, string> = {}): Response {
  return json(status, { ok: false, code, error }, headers);
}

/**
 * The broker's listeners: the unix socket, one for the web pages, and those that the settings `broker.addr`,
 * `broker.api_addr` and `broker.metrics_addr` name. All lead to the same routes; `listener_policy.ts` decides which
 * requests each accepts.
 *
 * Connections that stall are ended, so that a client costs a bounded amount of memory for
 * a bounded time. A task does not depend on its client: what was accepted goes on when the client is gone.
 */

import { type Clock, type RandomBytes, systemClock, systemRandom } from "../../lib/clock.ts";
import { stackOf, TaskdError } from "../../lib/errors.ts";
import { hostPort, type HttpAddress, parseHttpAddress } from "../../lib/http/address.ts";
import type { HttpTimeouts } from "../../lib/http/connection_stream.ts";
import { BearerCheck } from "../../lib/http/bearer.ts";
import { checkRequest, type HostRule, tcpHostRule } from "../../lib/http/browser_guard.ts";
import { type RequestConnection, serveFetch } from "../../lib/http/node_messages.ts";
import { RequestRefused } from "../../lib/http/request_refused.ts";
import { BoundedServer } from "../../lib/http/server.ts";
import { bindSocket } from "../../lib/unix_socket.ts";
import type { BrokerEngine } from "../api/engine.ts";
import { answer, problem } from "./answers.ts";
import { ApiTokens } from "./api_tokens.ts";
import { Call } from "./call.ts";
import { admit, checkAdmin, checkRight, type ListenerPolicy, SOCKET_RULE } from "./listener_policy.ts";
import { PageSessions } from "./page_sessions.ts";
import { isAdmin } from "./rights.ts";
import { findRoutes } from "./routes.ts";
import { prepareSocketFolder } from "../../lib/socket_folder.ts";

/** Milliseconds for calls to end whose answers no client takes any more. */
const LAST_CALLS_MS = 60_000;
/** The part of the time for a whole request that its body has: the rest is for saying that it was too long. */
const BODY_SHARE = 0.8;
/** What to do where an address cannot be had. */
const LISTEN_HINTS = {
  addr: "Choose another address with broker.addr in config.yaml or BROKER_ADDR, or leave it empty",
  api: "Choose another address with broker.api_addr in config.yaml, or leave it empty",
  metrics: "Choose another address with broker.metrics_addr in config.yaml, or leave it empty",
  ui: "The web pages take any free port of 127.0.0.1",
};

export interface ServeHttpOptions {
  engine: BrokerEngine;
  /** Absolute path of the unix socket. */
  socket: string;
  /** `host:port` to expose over TCP, without any authentication. */
  addr?: string;
  /** `host:port` for clients with a token. */
  api_addr?: string;
  /** `host:port` for metrics alone. */
  metrics_addr?: string;
  /** What `/metrics` there asks for, if anything. */
  metrics_token?: string | undefined;
  /** Absolute path of the file of API tokens. */
  tokens: string;
  /** The web pages: the file of a path below `/ui/`. */
  web?: (path: string) => Response | undefined;
  log: (entry: string) => void;
  clock?: Clock;
  random?: RandomBytes;
  max_connections?: number;
  timeouts?: Partial<HttpTimeouts>;
}

/**
 * @throws {TaskdError} `broker_running` when a broker answers on the socket; `usage` for an invalid address or path;
 * `denied`, `not_found` or `already_exists` for a socket that cannot be made; `unavailable` for an address that cannot
 * be had; `denied` or `invalid_config` for the file of tokens.
 */
export async function serveHttp(options: ServeHttpOptions): Promise<RunningHttp> {
  const { clock = systemClock, random = systemRandom } = options;
  const named = (address = "") => address === "" ? undefined : parseHttpAddress(address);
  const addresses = {
    addr: named(options.addr),
    api: named(options.api_addr),
    metrics: named(options.metrics_addr),
  };
  const tokens = await ApiTokens.open({ path: options.tokens, clock, random });
  prepareSocketFolder(options.socket);
  const socket = await bindSocket(options.socket, {
    running: "broker_running",
    name: "broker",
    elsewhere: "choose another path with broker.socket in config.yaml or BROKER_SOCKET",
  });
  try {
    return new RunningHttp(options, { socket, addresses, tokens, clock, random });
  } catch (error) {
    socket.close();
    throw error;
  }
}

interface Opened {
  socket: Awaited<ReturnType<typeof bindSocket>>;
  addresses: Record<"addr" | "api" | "metrics", HttpAddress | undefined>;
  tokens: ApiTokens;
  clock: Clock;
  random: RandomBytes;
}

export class RunningHttp {
  readonly socket: string;
  /** `host:port` of the TCP listeners as they are, where there are any. */
  readonly addr?: string;
  readonly api_addr?: string;
  readonly metrics_addr?: string;
  /** Address of the web pages, without the code that begins a session: `GET /admin/ui` on the socket answers both. */
  readonly ui_url: string;
  readonly #options: ServeHttpOptions;
  readonly #clock: Clock;
  readonly #server: BoundedServer<ListenerPolicy>;
  readonly #sessions: PageSessions;
  readonly #tokens: ApiTokens;

  constructor(options: ServeHttpOptions, { socket, addresses, tokens, clock, random }: Opened) {
    this.#options = options;
    this.#clock = clock;
    this.#tokens = tokens;
    this.#sessions = new PageSessions({ clock, random });
    this.#server = new BoundedServer<ListenerPolicy>({
      serve: serveFetch({
        answer: (request, connection, listener) => this.#answer(request, connection, listener),
        failed: (error) => this.#failed(error),
      }),
      max_connections: options.max_connections,
      log: options.log,
      clock: this.#clock,
      timeouts: options.timeouts,
    });
    this.socket = options.socket;
    const { addr, api, metrics } = addresses;
    if (addr) this.addr = this.#listen(addr, LISTEN_HINTS.addr, (host) => ({ kind: "addr", host }));
    if (api) this.api_addr = this.#listen(api, LISTEN_HINTS.api, (host) => ({ kind: "api", host, tokens }));
    if (metrics) {
      const token = options.metrics_token === undefined ? undefined : new BearerCheck(options.metrics_token);
      this.metrics_addr = this.#listen(metrics, LISTEN_HINTS.metrics, (host) => ({ kind: "metrics", host, token }));
    }
    const ui = this.#server.listen(
      { hostname: "127.0.0.1", port: 0 },
      LISTEN_HINTS.ui,
      (real) => ({ kind: "ui", host: tcpHostRule(real), sessions: this.#sessions }),
    );
    this.ui_url = `http://127.0.0.1:${ui.port}/ui/`;
    const { listener } = socket;
    const closable = { addr: listener.addr, accept: () => listener.accept(), close: () => socket.close() };
    this.#server.over(closable, { kind: "socket", host: SOCKET_RULE });
  }

  /** Listens on an address of the settings; `host:port` as it is. */
  #listen(address: HttpAddress, hint: string, policyOf: (host: HostRule) => ListenerPolicy): string {
    // The name as it was configured, with the port as it is: that is what a Host header has.
    const named = ({ port }: Deno.NetAddr) => ({ hostname: address.hostname, port });
    return hostPort(named(this.#server.listen(address, hint, (real) => policyOf(tcpHostRule(named(real))))));
  }

  stopAccepting(): void {
    this.#server.stopAccepting();
  }

  /** Ends everything: streams at once, answers that are on their way last. */
  close(): Promise<void> {
    this.#sessions.close();
    this.#tokens.close();
    return this.#server.close(LAST_CALLS_MS);
  }

  async #answer(request: Request, connection: RequestConnection, listener: ListenerPolicy): Promise<Response> {
    const { pathname, searchParams } = checkRequest(request, connection.url, listener.host);
    if (listener.kind === "ui" && isPage(pathname)) return this.#page(request, pathname);
    const { routes, id } = findRoutes(pathname);
    const route = routes.find(({ method }) => method === request.method);
    const admitted = admit(request, listener, route);
    if (routes.length === 0) {
      throw new TaskdError("not_found", "Cannot find the route: there is none of this path", {
        hint: "GET /openapi.json lists the routes",
      });
    }
    if (route !== undefined) checkRight(listener, admitted.token?.role, route);
    if (routes.some(isAdmin)) checkAdmin(request, listener, connection.peer);
    if (route === undefined) throw wrongMethod(routes.map(({ method }) => method));
    const call = new Call(request, {
      engine: this.#options.engine,
      clock: this.#clock,
      listener,
      connection,
      ending: this.#server.ending,
      body_deadline_ms: this.#server.timeouts.read_ms * BODY_SHARE,
      uiAddress: () => `${this.ui_url}#code=${this.#sessions.mintCode()}`,
      admitted,
      tokens: this.#tokens,
      sessions: this.#sessions,
      api_addr: this.api_addr ?? null,
    }, { id, query: searchParams });
    call.onlyQuery(Object.keys(route.query ?? {}));
    return await route.run(call);
  }

  #page(request: Request, pathname: string): Response {
    if (request.method !== "GET") throw wrongMethod(["GET"]);
    if (pathname === "/" || pathname === "/ui") return answer(null, { status: 302, location: "/ui/" });
    const page = this.#options.web?.(pathname);
    if (page === undefined) throw new TaskdError("not_found", "Cannot find the page: there is none of this path");
    return page;
  }

  #failed(error: unknown): Response {
    const response = problem(error);
    if (response.status === 500) this.#options.log(`defect: http ${stackOf(error)}`);
    return response;
  }
}

function isPage(pathname: string): boolean {
  return pathname === "/" || pathname === "/ui" || pathname.startsWith("/ui/");
}

function wrongMethod(methods: readonly string[]): RequestRefused {
  const allow = methods.join(", ");
  return new RequestRefused(405, "invalid_request", `Cannot do this here: use ${allow}`, { headers: { allow } });
}

/**
 * An HTTP server behind connection guards, one for each listener that clients connect to. The end waits a bounded time for
 * answers that are on their way.
 */

import { withDeadline } from "../deadline.ts";
import { TaskdError } from "../errors.ts";
import { drain } from "./body.ts";
import { ConnectionServers } from "./connection_server.ts";
import { ConnectionGuard, HTTP_TIMEOUTS } from "./guard.ts";
import type { GuardedListener, GuardedRequest, GuardOptions, HttpTimeouts } from "./guard.ts";

/** How long the end waits for clients to take their answers. */
const LAST_ANSWERS_MS = 2_000;

/** Options of a {@linkcode GuardedServer}; `via` is what its listener was given. */
export interface GuardedServerOptions<Via>
  extends Pick<GuardOptions, "log" | "max_connections" | "clock" | "timeouts"> {
  answer: (request: Request, guarded: GuardedRequest, via: Via) => Promise<Response>;
  /** Answers a request whose `answer` threw. */
  failed: (error: unknown) => Response;
  /** The daemon's unix socket, beside which the connections' servers are bound. */
  socket: string;
}

export class GuardedServer<Via> {
  readonly timeouts: HttpTimeouts;
  readonly #options: GuardedServerOptions<Via>;
  readonly #servers: ConnectionServers;
  readonly #guards = new Set<ConnectionGuard>();
  readonly #ending = new AbortController();

  constructor(options: GuardedServerOptions<Via>) {
    this.#options = options;
    this.timeouts = { ...HTTP_TIMEOUTS, ...options.timeouts };
    this.#servers = new ConnectionServers(options.socket, options.failed);
  }

  /** Aborted when the server ends. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  get connections(): number {
    return [...this.#guards].reduce((sum, guard) => sum + guard.connections, 0);
  }

  /**
   * Listens on TCP. Returns the real address, from which `viaOf` derives what the listener's requests come with.
   *
   * @throws {TaskdError} `unavailable` with `hint` when the address cannot be had; the server has then ended.
   */
  listen(
    { hostname, port }: { hostname: string; port: number },
    hint: string,
    viaOf: (real: Deno.NetAddr) => Via,
  ): Deno.NetAddr {
    try {
      const guard = ConnectionGuard.listen({ hostname, port }, this.#guardOptions(() => via));
      const via = viaOf(guard.address);
      this.#guards.add(guard);
      return guard.address;
    } catch (error) {
      void this.close(0);
      if (!(error instanceof Error) || error instanceof TaskdError) throw error;
      const problem = error instanceof Deno.errors.AddrInUse ? "the address is in use" : error.message;
      throw new TaskdError("unavailable", `Cannot listen on ${hostname}:${port}: ${problem}`, { cause: error, hint });
    }
  }

  over(listener: GuardedListener, via: Via): void {
    this.#guards.add(ConnectionGuard.over(listener, this.#guardOptions(() => via)));
  }

  /** Accepts nothing more; requests that run go on. */
  stopAccepting(): void {
    for (const guard of this.#guards) guard.stopAccepting();
  }

  /** Ends everything, answers in transit last; a request that runs for more than `last_calls_ms` is cut off. */
  async close(last_calls_ms: number): Promise<void> {
    const guards = [...this.#guards];
    this.#ending.abort();
    this.stopAccepting();
    const ended = this.#servers.close();
    // A client that does not take its last answer is not waited for.
    const taken = ended.then(() => Promise.all(guards.map((guard) => guard.drained())));
    await withDeadline(taken, this.#options.clock, LAST_ANSWERS_MS).catch(() => {});
    await Promise.all(guards.map((guard) => guard.close()));
    await withDeadline(ended, this.#options.clock, last_calls_ms).catch(() => {});
  }

  #guardOptions(viaOf: () => Via): GuardOptions {
    const { clock, max_connections, log } = this.#options;
    const answer: GuardOptions["answer"] = (request, guarded) => this.#answer(request, guarded, viaOf());
    return { servers: this.#servers, answer, clock, timeouts: this.timeouts, max_connections, log };
  }

  async #answer(request: Request, guarded: GuardedRequest, via: Via): Promise<Response> {
    const { answer, failed } = this.#options;
    if (request.body === null) guarded.bodyDone();
    const response = await answer(request, guarded, via).catch(failed);
    // What was not read of a refused request stands in the way of the next one.
    if (request.body !== null && !request.bodyUsed) await drain(request, guarded);
    guarded.bodyDone();
    return response;
  }
}

/**
 * The URL of a request: its server knows it by a unix socket, whose scheme has no rules for hosts and paths. A request
 * without a host is one to localhost. Null when it is none.
 */
export function requestUrl({ url }: Request): URL | null {
  return URL.parse(url.replace(/^http\+unix:\/\/(%2F[^/?#]*)?/, (_all, path) => `http://${path ? "localhost" : ""}`));
}

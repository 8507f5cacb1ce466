/**
 * An HTTP server behind connection guards: one Deno.serve on a port of this machine, and before it a guard for each
 * listener that clients connect to. A request that comes past the guards is refused. The end waits a bounded time for
 * answers that are on their way.
 */

import type { Clock } from "../clock.ts";
import { withDeadline } from "../deadline.ts";
import { TaskdError } from "../errors.ts";
import { drain } from "./body.ts";
import {
  ConnectionGuard,
  type GuardedListener,
  type GuardedRequest,
  type GuardOptions,
  HTTP_TIMEOUTS,
  type HttpTimeouts,
} from "./guard.ts";

/** How long the end waits for clients to take their answers. */
const LAST_ANSWERS_MS = 2_000;

/** Options of a {@linkcode GuardedServer}; `via` is what its listener was given. */
export interface GuardedServerOptions<Via> {
  answer: (request: Request, guarded: GuardedRequest, via: Via) => Promise<Response>;
  /** Answers a request whose `answer` threw. */
  failed: (error: unknown) => Response;
  /** Answers a request that came past the guards. */
  refused: () => Response;
  clock: Clock;
  /** Shorter deadlines, for tests. */
  timeouts?: Partial<HttpTimeouts> | undefined;
}

/** A server without listeners at first. */
export class GuardedServer<Via> {
  readonly timeouts: HttpTimeouts;
  readonly #options: GuardedServerOptions<Via>;
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #guards = new Map<ConnectionGuard, Via>();
  readonly #ending = new AbortController();

  constructor(options: GuardedServerOptions<Via>) {
    this.#options = options;
    this.timeouts = { ...HTTP_TIMEOUTS, ...options.timeouts };
    // Only the guards connect here; any other connection is refused by its port.
    this.#server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen: () => {}, onError: options.failed },
      (request, info) => this.#serve(request, info),
    );
  }

  /** Aborted when the server ends. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  get connections(): number {
    return [...this.#guards.keys()].reduce((sum, guard) => sum + guard.connections, 0);
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
      const guard = ConnectionGuard.listen({ hostname, port }, this.#guardOptions());
      this.#guards.set(guard, viaOf(guard.address));
      return guard.address;
    } catch (error) {
      void this.close(0);
      if (!(error instanceof Error) || error instanceof TaskdError) throw error;
      const problem = error instanceof Deno.errors.AddrInUse ? "the address is in use" : error.message;
      throw new TaskdError("unavailable", `Cannot listen on ${hostname}:${port}: ${problem}`, { cause: error, hint });
    }
  }

  over(listener: GuardedListener, via: Via): void {
    this.#guards.set(ConnectionGuard.over(listener, this.#guardOptions()), via);
  }

  /** Accepts nothing more; requests that run go on. */
  stopAccepting(): void {
    for (const guard of this.#guards.keys()) guard.stopAccepting();
  }

  /** Ends everything, answers in transit last; a request that runs for more than `last_calls_ms` is cut off. */
  async close(last_calls_ms: number): Promise<void> {
    const guards = [...this.#guards.keys()];
    this.#ending.abort();
    this.stopAccepting();
    const ended = this.#server.shutdown();
    // A client that does not take its last answer is not waited for.
    const taken = ended.then(() => Promise.all(guards.map((guard) => guard.drained())));
    await withDeadline(taken, this.#options.clock, LAST_ANSWERS_MS).catch(() => {});
    await Promise.all(guards.map((guard) => guard.close()));
    await withDeadline(ended, this.#options.clock, last_calls_ms).catch(() => {});
  }

  #guardOptions(): GuardOptions {
    const backend = { hostname: "127.0.0.1", port: this.#server.addr.port };
    return { backend, clock: this.#options.clock, timeouts: this.timeouts };
  }

  async #serve(request: Request, info: Deno.ServeHandlerInfo<Deno.NetAddr>): Promise<Response> {
    const { answer, failed, refused } = this.#options;
    const came = this.#cameThrough(info.remoteAddr.port);
    if (came === undefined) return refused();
    const { guarded, via } = came;
    if (request.body === null) guarded.bodyDone();
    info.completed.catch(() => {}).finally(() => guarded.responseDone());
    const response = await answer(request, guarded, via).catch(failed);
    // What was not read of a refused request stands in the way of the next one.
    if (request.body !== null && !request.bodyUsed) await drain(request, guarded);
    guarded.bodyDone();
    return response;
  }

  #cameThrough(port: number): { guarded: GuardedRequest; via: Via } | undefined {
    for (const [guard, via] of this.#guards) {
      const guarded = guard.requestBegan(port);
      if (guarded !== undefined) return { guarded, via };
    }
    return undefined;
  }
}

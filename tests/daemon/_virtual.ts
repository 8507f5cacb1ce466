/**
 * A daemon in the test's own process on a clock that stands still, so that the janitor ticks when the test says
 * so and at no other time. Its store, sockets, workers and listeners are real.
 */

import { type RunningDaemon, serve, type ServeOptions } from "../../daemon/serve.ts";
import { type Client, connect, subscribe } from "../../lib/client/client.ts";
import { openStore } from "../../lib/store/open.ts";
import type { Store } from "../../lib/store/store.ts";
import { VirtualClock } from "../support/clock.ts";
import { EventLog, type Place } from "./daemon_process.ts";
import { BEARER, Exposition, TOKEN } from "./_http.ts";

/** Where a daemon works. */
export type StorePlace = Pick<Place, "store" | "socket">;

/** A daemon, a client, its subscriber, and the store beside it. */
export class VirtualDaemon implements AsyncDisposable {
  readonly clock = new VirtualClock(Date.now());
  readonly log: string[] = [];
  readonly place: StorePlace;
  readonly #stack = new AsyncDisposableStack();
  #reap_every_ms = 60_000;
  #daemon!: RunningDaemon;
  client!: Client;
  events!: EventLog;
  /** The same store at rest, as another process would have it. */
  store!: Store;

  private constructor(place: StorePlace) {
    this.place = place;
  }

  /** Starts one; without `reap_every_ms` it ticks at the contract's default of a minute. */
  static async start(place: StorePlace, options: Partial<ServeOptions> = {}): Promise<VirtualDaemon> {
    const virtual = new VirtualDaemon(place);
    const stack = virtual.#stack;
    virtual.#reap_every_ms = options.reap_every_ms ?? 60_000;
    const daemon = await serve({
      store: place.store,
      socket: place.socket,
      clock: virtual.clock,
      log: (entry) => virtual.log.push(entry),
      http: { address: "127.0.0.1:0", token: TOKEN },
      flush_every_ms: 0,
      ...options,
    });
    virtual.#daemon = daemon;
    stack.defer(async () => void await daemon.shutdown());
    virtual.client = stack.use(await connect(place.socket));
    const subscribed = Promise.withResolvers<void>();
    const left = new AbortController();
    const events = new EventLog(subscribe(place.socket, { onSubscribed: subscribed.resolve, signal: left.signal }));
    stack.defer(async () => {
      left.abort();
      await events.ended;
    });
    virtual.events = events;
    await Promise.race([subscribed.promise, events.ended]);
    virtual.store = stack.use(await openStore(place.store, { holder: "test" }));
    return virtual;
  }

  /** What GET /metrics, or what lies below it, shows now. */
  async metrics(below = ""): Promise<Exposition> {
    const response = await fetch(`http://${this.#daemon.http}/metrics${below}`, {
      headers: { ...BEARER, connection: "close" },
    });
    return new Exposition(await response.text());
  }

  /** Passes of the janitor so far. */
  async passes(): Promise<number> {
    const metrics = await this.metrics();
    const of = (result: string) => metrics.value("janitor_runs_total", { result })!;
    return of("ok") + of("error");
  }

  /** Lets one interval go by and waits until the janitor's pass is over. */
  async tick(): Promise<Exposition> {
    const before = await this.passes();
    this.clock.advance(this.#reap_every_ms);
    while (await this.passes() === before) await new Promise((resolve) => setTimeout(resolve, 5));
    return await this.metrics();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

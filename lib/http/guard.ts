/**
 * The connection guard: sits between clients and Deno.serve, which has no timeouts and no bounds of its own
 * and cannot disconnect a stalled reader. It accepts on the public address, pipes each connection to a
 * server of its own, and ends it when a deadline passes: the peer gets a reset, and all memory
 * that was held for it is free.
 *
 * The guard does not read HTTP. It learns the state of a request from the connection's server and from arriving bytes.
 * That server is made for one connection and cannot be reached by another: see connection_server.ts.
 */

import type { Clock } from "../clock.ts";
import { messageOf } from "../errors.ts";
import { isClientGone } from "./accept.ts";
import type { ConnectionServer, ConnectionServers } from "./connection_server.ts";

/** Deadlines in milliseconds; the contract's numbers. */
export const HTTP_TIMEOUTS = {
  /** From a request's first byte to the end of its head. */
  read_header_ms: 5_000,
  /** From a request's first byte to the end of its body. */
  read_ms: 30_000,
  /** From the end of a request's head to the end of its response; streams of events are free of it. */
  write_ms: 90_000,
  /** Between a response and the next request's first byte. */
  idle_ms: 120_000,
  /** Of a single write that the peer does not take. */
  stalled_write_ms: 45_000,
};

export type HttpTimeouts = typeof HTTP_TIMEOUTS;

/** At most this many connections at once unless there is another bound; further ones are closed at once. */
export const MAX_HTTP_CONNECTIONS = 2_048;
const CHUNK_BYTES = 16 << 10;
/** After the last answer of a connection, what still comes is dropped for so long, and no more than so many bytes: closing
 * at once would reset the connection before the answer has been read. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 16 << 20;
const TICK_MS = 250;

export interface GuardedListener {
  readonly addr: Deno.Addr;
  accept(): Promise<Deno.Conn>;
  /** Ends the listener; may be called twice. False when it stays open without serving. */
  close(): unknown;
}

/** What the server knows of the request that a connection is in. */
export interface GuardedRequest {
  /** The whole body was read or abandoned. */
  bodyDone(): void;
  /** The response is a stream without an end. */
  streaming(): void;
  /** The connection ends with this response: the rest of the request is not read. */
  last(): void;
  /** The response has been handed over whole. */
  responseDone(): void;
  /** Aborted when the client will send nothing more: most likely it is gone. An answer still reaches one that listens. */
  readonly gone: AbortSignal;
  readonly peer: Deno.Addr;
}

type Phase = "idle" | "head" | "body" | "response" | "linger";

class Connection {
  readonly #client: Deno.Conn;
  readonly #server: Deno.Conn;
  readonly #clock: Clock;
  readonly #timeouts: HttpTimeouts;
  #phase: Phase = "head";
  #endless = false;
  /** Requests that began, and whether bytes of the next one came during the answer to the last. */
  #requests = 0;
  #ahead = false;
  #request_at_ms: number;
  #phase_at_ms: number;
  #writing_since_ms: number | undefined;
  #closed = false;
  #last = false;
  #dropping = false;
  #dropped_bytes = 0;
  readonly #ended = Promise.withResolvers<void>();
  readonly #gone = new AbortController();

  constructor(client: Deno.Conn, server: Deno.Conn, clock: Clock, timeouts: HttpTimeouts) {
    this.#client = client;
    this.#server = server;
    this.#clock = clock;
    this.#timeouts = timeouts;
    // A new connection owes its first request's head at once, as in the servers this follows.
    this.#request_at_ms = this.#phase_at_ms = clock.monotonic();
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** Pipes both ways until either side ends or a deadline passes. */
  async run(): Promise<void> {
    const up = this.#pipe(this.#client, this.#server, (count) => this.#arrived(count));
    const down = this.#pipe(this.#server, this.#client, () => true);
    // When the server is done with the connection, nothing more comes for the client; when the client
    // only shut down its sending half, its answer is still to come.
    await down;
    if (this.#dropping) this.#enter("linger");
    else this.close();
    await up;
    this.close();
  }

  requestBegan(): GuardedRequest {
    this.#enter("body");
    this.#endless = false;
    this.#ahead = false;
    const mine = ++this.#requests;
    return {
      gone: this.#gone.signal,
      peer: this.#client.remoteAddr,
      bodyDone: () => {
        if (this.#phase === "body") this.#enter("response");
      },
      streaming: () => {
        this.#endless = true;
      },
      last: () => {
        this.#last = true;
      },
      responseDone: () => {
        // The next request may have begun already.
        if (mine !== this.#requests) return;
        this.#endless = false;
        this.#enter("idle");
        if (this.#last) this.#drop();
        else if (this.#ahead) this.#beginHead();
      },
    };
  }

  check(now_ms: number): void {
    const { read_header_ms, read_ms, write_ms, idle_ms, stalled_write_ms } = this.#timeouts;
    const in_phase_ms = now_ms - this.#phase_at_ms;
    const of_request_ms = now_ms - this.#request_at_ms;
    const late = this.#writing_since_ms !== undefined && now_ms - this.#writing_since_ms > stalled_write_ms ||
      this.#phase === "head" && of_request_ms > read_header_ms ||
      this.#phase === "body" && of_request_ms > read_ms ||
      this.#phase === "response" && !this.#endless && in_phase_ms > write_ms ||
      this.#phase === "idle" && in_phase_ms > idle_ms ||
      this.#phase === "linger" && in_phase_ms > LINGER_MS;
    if (late) this.close();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ended.resolve();
    this.#gone.abort();
    for (const side of [this.#client, this.#server]) {
      try {
        side.close();
      } catch {
        // It had ended already.
      }
    }
  }

  /** Passes nothing on to the server any more: it ends the connection, and with it the other direction. */
  #drop(): void {
    this.#dropping = true;
    this.#server.closeWrite().catch(() => this.close());
  }

  /** Takes note of bytes of the client; false for those that are dropped. */
  #arrived(count: number): boolean {
    if (this.#dropping) {
      this.#dropped_bytes += count;
      if (this.#dropped_bytes > LINGER_BYTES) this.close();
      return false;
    }
    if (this.#phase === "idle") this.#beginHead();
    else if (this.#phase === "response") this.#ahead = true;
    return true;
  }

  #beginHead(): void {
    this.#request_at_ms = this.#clock.monotonic();
    this.#enter("head");
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#phase_at_ms = this.#clock.monotonic();
  }

  async #pipe(from: Deno.Conn, to: Deno.Conn, onBytes: (count: number) => boolean): Promise<void> {
    const buffer = new Uint8Array(CHUNK_BYTES);
    try {
      for (;;) {
        const count = await from.read(buffer);
        if (count === null) break;
        if (!onBytes(count)) continue;
        for (let done = 0; done < count;) {
          if (to === this.#client) this.#writing_since_ms = this.#clock.monotonic();
          done += await to.write(buffer.subarray(done, count));
        }
        if (to === this.#client) this.#writing_since_ms = undefined;
      }
      if (from === this.#client) this.#gone.abort();
      if (!this.#dropping || to === this.#client) await to.closeWrite();
    } catch {
      // A side that is gone ends both.
      this.close();
    }
  }
}

export class ConnectionGuard {
  readonly #listener: GuardedListener;
  readonly #options: GuardOptions;
  readonly #clock: Clock;
  readonly #timeouts: HttpTimeouts;
  readonly #connections = new Set<Connection>();
  /** Those and the ones that are not paired yet. */
  #accepted = 0;
  readonly #stop = new AbortController();
  readonly #accepting: Promise<void>;
  readonly #ticking: Promise<void>;
  #left_open = false;

  private constructor(listener: GuardedListener, options: GuardOptions) {
    this.#listener = listener;
    this.#options = options;
    this.#clock = options.clock;
    this.#timeouts = { ...HTTP_TIMEOUTS, ...options.timeouts };
    this.#accepting = this.#accept();
    this.#ticking = this.#tick();
  }

  /** Listens; throws the system's error for the address. */
  static listen(address: { hostname: string; port: number }, options: GuardOptions): ConnectionGuard {
    return new ConnectionGuard(Deno.listen({ ...address, transport: "tcp" }), options);
  }

  /** Accepts on a listener that exists, which it closes at its end. */
  static over(listener: GuardedListener, options: GuardOptions): ConnectionGuard {
    return new ConnectionGuard(listener, options);
  }

  /** Where it listens, over TCP; the port is the real one when 0 was asked for. */
  get address(): Deno.NetAddr {
    return this.#listener.addr as Deno.NetAddr;
  }

  get connections(): number {
    return this.#connections.size;
  }

  /** Stops accepting; connections go on. */
  stopAccepting(): void {
    try {
      this.#left_open = this.#listener.close() === false;
    } catch {
      // It was closed before.
    }
  }

  /** Resolves when every connection has been ended by one of its sides. */
  async drained(): Promise<void> {
    await Promise.all([...this.#connections].map((connection) => connection.ended));
  }

  async close(): Promise<void> {
    this.stopAccepting();
    this.#stop.abort();
    for (const connection of this.#connections) connection.close();
    await Promise.all([this.#left_open || this.#accepting, this.#ticking]);
  }

  async #accept(): Promise<void> {
    for (;;) {
      let client: Deno.Conn;
      try {
        client = await this.#listener.accept();
      } catch (error) {
        if (this.#stop.signal.aborted || error instanceof Deno.errors.BadResource) return;
        if (error instanceof Deno.errors.Interrupted) return;
        if (isClientGone(error)) continue;
        this.#options.log?.(`accept failed: ${messageOf(error)}`);
        // Out of descriptors: wait a moment, go on.
        await this.#clock.sleep(100, this.#stop.signal).catch(() => {});
        continue;
      }
      if (this.#accepted >= (this.#options.max_connections ?? MAX_HTTP_CONNECTIONS)) client.close();
      else this.#serve(client);
    }
  }

  async #serve(client: Deno.Conn): Promise<void> {
    this.#accepted++;
    try {
      await this.#pair(client);
    } finally {
      this.#accepted--;
    }
  }

  async #pair(client: Deno.Conn): Promise<void> {
    const { servers, answer } = this.#options;
    let server: ConnectionServer;
    try {
      server = await servers.open((request, completed) => {
        const guarded = connection.requestBegan();
        completed.finally(() => guarded.responseDone());
        return answer(request, guarded);
      });
    } catch (error) {
      // Out of descriptors, or the server ends.
      this.#options.log?.(`a connection cannot be served: ${messageOf(error)}`);
      client.close();
      return;
    }
    const connection = new Connection(client, server.conn, this.#clock, this.#timeouts);
    this.#connections.add(connection);
    try {
      if ("setNoDelay" in client) (client as Deno.TcpConn).setNoDelay(true);
      await connection.run();
    } catch {
      // The client is gone already, and the system then takes no options for it.
    } finally {
      connection.close();
      this.#connections.delete(connection);
      server.end();
    }
  }

  async #tick(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#clock.sleep(TICK_MS, this.#stop.signal);
      } catch {
        return;
      }
      const now = this.#clock.monotonic();
      for (const connection of this.#connections) connection.check(now);
    }
  }
}

export interface GuardOptions {
  servers: ConnectionServers;
  answer: (request: Request, guarded: GuardedRequest) => Response | Promise<Response>;
  /** Receives what keeps connections from being served. */
  log?: ((line: string) => void) | undefined;
  /** Connections at once; {@linkcode MAX_HTTP_CONNECTIONS} by default. */
  max_connections?: number | undefined;
  clock: Clock;
  /** Shorter deadlines, for tests. */
  timeouts?: Partial<HttpTimeouts> | undefined;
}

/**
 * The HTTP server of both daemons: bounds connections, requests and time on every listener, and survives a lack of
 * descriptors. The end waits a bounded time for answers that are on their way.
 *
 * Where a bound is reached, the connection that has been idle the longest gives way to a new one, and when none is idle
 * one whose peer keeps the rest of a request back, or does not take its answer: so no client takes every place without
 * asking for something. A connection counts as its address's until the server assigns it to an owner: on loopback, many
 * tasks and other users share an address.
 *
 * node:http reads and writes HTTP directly on the connections that are accepted here: there is no second socket that
 * another process could reach, and a client is known by the connection itself. Deno.serve has no deadlines, and node:http's
 * own listeners accept nothing more once descriptors have run out, so neither listens.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { type Clock, nextTurn } from "../clock.ts";
import { withDeadline } from "../deadline.ts";
import { TaskdError } from "../errors.ts";
import { acceptAll } from "../accept.ts";
import { ConnectionStream, HTTP_TIMEOUTS, type HttpTimeouts } from "./connection_stream.ts";
import { hasBody, type HttpExchange } from "./node_messages.ts";

/**
 * At most this many connections of a listener at once unless there is another bound. While none of them can give way,
 * further ones are closed at once.
 */
export const MAX_HTTP_CONNECTIONS = 2_048;
const MAX_HEAD_BYTES = 64 << 10;
/** How long the end waits for clients to take their answers. */
const LAST_ANSWERS_MS = 2_000;
const TICK_MS = 250;
/** How long a peer may stop in the middle of a request or an answer before another client may have its place. */
const LATE_MS = 1_000;
/** Turns of the event loop in which what has come of open connections is read, before one of them is taken for idle. */
const READ_TURNS = 4;

export interface HttpListener {
  readonly addr: Deno.Addr;
  accept(): Promise<Deno.Conn>;
  /** Ends the listener; may be called twice. False when it stays open without serving. */
  close(): unknown;
}

export interface BoundedServerOptions<Via> {
  /** Answers a request; must not reject. The next one of its connection is served when this and the answer have ended. */
  serve: (exchange: HttpExchange<Via>) => Promise<void>;
  /** Receives what keeps connections from being served. */
  log?: ((line: string) => void) | undefined;
  /** Connections of a listener at once; {@linkcode MAX_HTTP_CONNECTIONS} by default. */
  max_connections?: number | undefined;
  /** Of these, connections from one address, or of one owner (see {@linkcode BoundedServer.assign}). */
  max_share?: number | undefined;
  clock: Clock;
  /** Shorter deadlines, for tests. */
  timeouts?: Partial<HttpTimeouts> | undefined;
}

interface Connection<Via> {
  via: Via;
  /** The listener's connections. */
  of: Set<ConnectionStream>;
  /** Whose it is: an address, until it is assigned. */
  owner: string;
  assigned: boolean;
  /** The request that is served. */
  request?: IncomingMessage;
}

export class BoundedServer<Via> {
  readonly timeouts: HttpTimeouts;
  readonly #options: BoundedServerOptions<Via>;
  readonly #http: Server;
  readonly #connections = new Map<ConnectionStream, Connection<Via>>();
  /** Connections of each owner. */
  readonly #shares = new Map<string, number>();
  readonly #listeners = new Map<HttpListener, { accepting: Promise<void>; left_open: boolean }>();
  readonly #answering = new Set<Promise<unknown>>();
  readonly #ending = new AbortController();
  readonly #stop = new AbortController();
  readonly #ticking: Promise<void>;

  constructor(options: BoundedServerOptions<Via>) {
    this.#options = options;
    this.timeouts = { ...HTTP_TIMEOUTS, ...options.timeouts };
    this.#http = createServer({
      // Of a head that came in one piece with the request before it; the others have their connection's deadlines.
      headersTimeout: this.timeouts.read_header_ms,
      requestTimeout: 0,
      keepAliveTimeout: 0,
      connectionsCheckingInterval: TICK_MS,
      maxHeaderSize: MAX_HEAD_BYTES,
      requireHostHeader: false,
    }, (request, response) => this.#enqueue(request, response));
    this.#http.on("clientError", (error, socket) => refuseUnread(error, socket));
    this.#http.on("connect", (_request, socket) => socket.end(bare("405 Method Not Allowed")));
    // It keeps connections open, and looks after the time of heads, while it believes that it listens.
    Object.defineProperty(this.#http, "listening", { get: () => !this.#ending.signal.aborted });
    this.#http.emit("listening");
    this.#ticking = this.#tick();
  }

  /** Aborted when the server ends. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  get connections(): number {
    return this.#connections.size;
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
      const listener = Deno.listen({ hostname, port });
      this.over(listener, viaOf(listener.addr));
      return listener.addr;
    } catch (error) {
      void this.close(0);
      if (!(error instanceof Error) || error instanceof TaskdError) throw error;
      const problem = error instanceof Deno.errors.AddrInUse ? "the address is in use" : error.message;
      throw new TaskdError("unavailable", `Cannot listen on ${hostname}:${port}: ${problem}`, { cause: error, hint });
    }
  }

  /** Accepts on a listener that exists, which it closes at its end. */
  over(listener: HttpListener, via: Via): void {
    this.#listeners.set(listener, { accepting: this.#accept(listener, via), left_open: false });
  }

  /** Accepts nothing more; requests that run go on. */
  stopAccepting(): void {
    for (const [listener, state] of this.#listeners) {
      try {
        state.left_open = listener.close() === false;
      } catch {
        // It was closed before.
      }
    }
  }

  /** Ends everything, answers in transit last; a request that runs for more than `last_calls_ms` is cut off. */
  async close(last_calls_ms: number): Promise<void> {
    const { clock } = this.#options;
    this.#ending.abort();
    this.stopAccepting();
    for (const stream of this.#connections.keys()) if (stream.idle) stream.destroy();
    // A client that does not take its last answer is not waited for.
    const taken = Promise.all([...this.#connections.keys()].map((stream) => stream.ended));
    await withDeadline(taken, clock, LAST_ANSWERS_MS).catch(() => {});
    this.#stop.abort();
    for (const stream of this.#connections.keys()) stream.destroy();
    this.#http.close();
    const accepting = [...this.#listeners.values()].map((state) => state.left_open || state.accepting);
    await Promise.all([...accepting, this.#ticking]);
    await withDeadline(Promise.all(this.#answering), clock, last_calls_ms).catch(() => {});
  }

  #accept(listener: HttpListener, via: Via): Promise<void> {
    const { clock, max_connections = MAX_HTTP_CONNECTIONS, log } = this.#options;
    const open = new Set<ConnectionStream>();
    const take = async (conn: Deno.Conn) => {
      const peer = "hostname" in conn.remoteAddr ? conn.remoteAddr.hostname : "";
      // Of many that come at once, those that have asked already are busy, and not taken for idle ones.
      for (let turn = 0; turn < READ_TURNS && (open.size >= max_connections || this.#hasShare(peer)); turn++) {
        await nextTurn();
      }
      if (this.#ending.signal.aborted) return conn.close();
      // A client that has shown whose it is stays before one that has not; what it asked for, also where it is late.
      const room = open.size < max_connections || this.#giveWay(({ of, assigned }) => of === open && !assigned) ||
        this.#giveWay(({ of }) => of === open, Infinity);
      if (!room || !this.#takeShare(peer)) return conn.close();
      const stream = new ConnectionStream(conn, clock, this.timeouts);
      open.add(stream);
      this.#connections.set(stream, { via, of: open, owner: peer, assigned: false });
      stream.ended.then(() => this.#forget(stream));
      this.#http.emit("connection", stream);
    };
    return acceptAll(listener, take, { clock, log, signal: this.#stop.signal });
  }

  /**
   * Counts a connection as `owner`'s, no longer as its address's; false when all of that one's share is busy. Owners are
   * named apart from addresses.
   */
  assign(stream: ConnectionStream, owner: string): boolean {
    const connection = this.#connections.get(stream);
    if (connection === undefined || connection.owner === owner) return true;
    if (!this.#takeShare(owner)) return false;
    this.#freeShare(connection.owner);
    connection.owner = owner;
    connection.assigned = true;
    return true;
  }

  #takeShare(owner: string): boolean {
    if (this.#hasShare(owner) && !this.#giveWay((connection) => connection.owner === owner)) return false;
    this.#shares.set(owner, (this.#shares.get(owner) ?? 0) + 1);
    return true;
  }

  /** Whether it has all connections that it may have. */
  #hasShare(owner: string): boolean {
    return (this.#shares.get(owner) ?? 0) >= (this.#options.max_share ?? Infinity);
  }

  /**
   * Ends the one of the connections that `counts` which has been idle the longest, or else whose peer has been late the
   * longest, for at least `late_ms`; false when there is none.
   */
  #giveWay(counts: (connection: Connection<Via>) => boolean, late_ms = LATE_MS): boolean {
    let idle: ConnectionStream | undefined;
    let late: ConnectionStream | undefined;
    let late_since_ms = Infinity;
    const by_ms = this.#options.clock.monotonic() - late_ms;
    for (const [stream, connection] of this.#connections) {
      if (!counts(connection)) continue;
      if (stream.idle) {
        if (idle === undefined || stream.since_ms < idle.since_ms) idle = stream;
        continue;
      }
      const since_ms = stream.peerLateSince(connection.request) ?? Infinity;
      if (since_ms <= by_ms && since_ms < late_since_ms) [late, late_since_ms] = [stream, since_ms];
    }
    const given = idle ?? late;
    if (given === undefined) return false;
    this.#forget(given);
    given.destroy();
    return true;
  }

  /** Frees what a connection had; may be called twice. */
  #forget(stream: ConnectionStream): void {
    const connection = this.#connections.get(stream);
    if (connection === undefined) return;
    this.#connections.delete(stream);
    connection.of.delete(stream);
    this.#freeShare(connection.owner);
  }

  #freeShare(owner: string): void {
    const left = this.#shares.get(owner)! - 1;
    if (left === 0) this.#shares.delete(owner);
    else this.#shares.set(owner, left);
  }

  #enqueue(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const stream = incoming.socket as unknown as ConnectionStream;
    stream.enqueue(async () => {
      const answering = this.#serve(incoming, outgoing, stream);
      this.#answering.add(answering);
      await answering.finally(() => this.#answering.delete(answering));
    });
  }

  async #serve(incoming: IncomingMessage, outgoing: ServerResponse, stream: ConnectionStream): Promise<void> {
    const connection = this.#connections.get(stream);
    if (connection === undefined) return;
    connection.request = incoming;
    // No race with the connection's own end: each one would be remembered, with its request, for as long as that is open.
    const closed = Promise.withResolvers<void>();
    outgoing.once("close", closed.resolve);
    stream.once("close", closed.resolve);
    // What comes of a client that is gone is known by the end of its connection.
    outgoing.on("error", () => {});
    // From here on the answer's time counts, not the client's.
    if (!hasBody(incoming)) stream.bodyDone();
    incoming.once("end", () => stream.bodyDone());
    await this.#options.serve({ incoming, outgoing, stream, via: connection.via, ending: this.#ending.signal });
    await closed.promise;
    stream.off("close", closed.resolve);
  }

  async #tick(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#options.clock.sleep(TICK_MS, this.#stop.signal).catch(() => {});
      const now = this.#options.clock.monotonic();
      for (const stream of this.#connections.keys()) stream.check(now);
    }
  }
}

/** Ends a connection whose bytes are no request, or come too late. */
function refuseUnread({ code }: Error & { code?: string }, stream: Duplex): void {
  const status = code === "HPE_HEADER_OVERFLOW" ? "431 Request Header Fields Too Large" : "400 Bad Request";
  // Not into the answer to an earlier request.
  if (code?.startsWith("HPE_") && stream.writable && (stream as ConnectionStream).idle) stream.end(bare(status));
  else stream.destroy();
}

function bare(status: string): string {
  return `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
}

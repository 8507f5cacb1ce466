/**
 * The HTTP server of both daemons: bounds connections, requests and time on every listener, and survives a lack of
 * descriptors. The end waits a bounded time for answers that are on their way.
 *
 * node:http reads and writes HTTP directly on the connections that are accepted here: there is no second socket that
 * another process could reach, and a client is known by the connection itself. Deno.serve has no deadlines, and node:http's
 * own listeners accept nothing more once descriptors have run out, so neither listens.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { Clock } from "../clock.ts";
import { withDeadline } from "../deadline.ts";
import { messageOf, TaskdError } from "../errors.ts";
import { isClientGone } from "./accept.ts";
import { ConnectionStream, HTTP_TIMEOUTS, type HttpTimeouts } from "./connection_stream.ts";
import { drain, METHODS_REFUSED, requestOf, respond } from "./node_messages.ts";

/** At most this many connections of a listener at once unless there is another bound; further ones are closed at once. */
export const MAX_HTTP_CONNECTIONS = 2_048;
const MAX_HEAD_BYTES = 64 << 10;
/** How long the end waits for clients to take their answers. */
const LAST_ANSWERS_MS = 2_000;
const TICK_MS = 250;

export interface HttpListener {
  readonly addr: Deno.Addr;
  accept(): Promise<Deno.Conn>;
  /** Ends the listener; may be called twice. False when it stays open without serving. */
  close(): unknown;
}

/** A request's connection. */
export interface RequestConnection {
  /** Null when the request's target and Host are no URL. */
  readonly url: URL | null;
  readonly peer: Deno.Addr;
  /** Aborted when the client will send nothing more: most likely it is gone. An answer still reaches one that listens. */
  readonly gone: AbortSignal;
  /** The response is a stream without an end. */
  streaming(): void;
  /** The connection ends with this response: the rest of the request is not read. */
  last(): void;
}

export interface BoundedServerOptions<Via> {
  /** `via` is what the listener was given. */
  answer: (request: Request, connection: RequestConnection, via: Via) => Promise<Response>;
  /** Answers a request whose `answer` threw. */
  failed: (error: unknown) => Response;
  /** Receives what keeps connections from being served. */
  log?: ((line: string) => void) | undefined;
  /** Connections of a listener at once; {@linkcode MAX_HTTP_CONNECTIONS} by default. */
  max_connections?: number | undefined;
  clock: Clock;
  /** Shorter deadlines, for tests. */
  timeouts?: Partial<HttpTimeouts> | undefined;
}

export class BoundedServer<Via> {
  readonly timeouts: HttpTimeouts;
  readonly #options: BoundedServerOptions<Via>;
  readonly #http: Server;
  readonly #connections = new Map<ConnectionStream, Via>();
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

  async #accept(listener: HttpListener, via: Via): Promise<void> {
    const { clock, max_connections = MAX_HTTP_CONNECTIONS, log } = this.#options;
    let open = 0;
    for (;;) {
      try {
        const conn = await listener.accept();
        if (open >= max_connections || this.#stop.signal.aborted) {
          conn.close();
          continue;
        }
        open++;
        const stream = new ConnectionStream(conn, clock, this.timeouts);
        this.#connections.set(stream, via);
        stream.ended.then(() => {
          open--;
          this.#connections.delete(stream);
        });
        this.#http.emit("connection", stream);
      } catch (error) {
        if (this.#stop.signal.aborted || error instanceof Deno.errors.BadResource) return;
        if (error instanceof Deno.errors.Interrupted) return;
        if (isClientGone(error)) continue;
        log?.(`accept failed: ${messageOf(error)}`);
        // Out of descriptors: wait a moment, go on.
        await clock.sleep(100, this.#stop.signal).catch(() => {});
      }
    }
  }

  #enqueue(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const stream = incoming.socket as unknown as ConnectionStream;
    stream.enqueue(async () => {
      const answering = this.#respond(incoming, outgoing, stream);
      this.#answering.add(answering);
      await answering.finally(() => this.#answering.delete(answering));
    });
  }

  async #respond(incoming: IncomingMessage, outgoing: ServerResponse, stream: ConnectionStream): Promise<void> {
    const last = () => void (outgoing.shouldKeepAlive = false);
    const response = await this.#answer(incoming, stream, last).catch(this.#options.failed);
    // What was not read of a request stands in the way of the next one.
    if (outgoing.shouldKeepAlive && !await drain(incoming)) last();
    stream.bodyDone();
    if (this.#ending.signal.aborted) last();
    await respond(response, outgoing, stream.endless);
  }

  async #answer(incoming: IncomingMessage, stream: ConnectionStream, last: () => void): Promise<Response> {
    if (METHODS_REFUSED.has(incoming.method)) return new Response(null, { status: 405 });
    const { request, url, has_body } = requestOf(incoming);
    // From here on the answer's time counts, not the client's.
    if (!has_body) stream.bodyDone();
    incoming.once("end", () => stream.bodyDone());
    const { conn: { remoteAddr: peer }, gone } = stream;
    const connection = { url, peer, gone, streaming: () => stream.streaming(), last };
    return await this.#options.answer(request, connection, this.#connections.get(stream)!);
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

/**
 * An accepted connection as the stream that node:http serves, with the deadlines of its requests and answers, on
 * the clock that it is given: one that stalls is ended, and all memory that was held for it is free.
 *
 * Requests of a connection are answered one at a time. What comes during an answer waits, at most one chunk of it.
 */

import type { IncomingMessage } from "node:http";
import { Duplex } from "node:stream";
import type { Clock } from "../clock.ts";
import { concat } from "../concat.ts";
import { writeAll } from "../fs.ts";

/** Deadlines in milliseconds; the contract's numbers. */
export const HTTP_TIMEOUTS = {
  /** From a request's first byte to the end of its head. */
  read_header_ms: 5_000,
  /** From a request's first byte to the end of its body. */
  read_ms: 30_000,
  /** From the end of a request to the end of its response; streams of events are free of it. */
  write_ms: 90_000,
  /** Between a response and the next request's first byte. */
  idle_ms: 120_000,
  /** Of a single write that the peer does not take. */
  stalled_write_ms: 45_000,
};

export type HttpTimeouts = typeof HTTP_TIMEOUTS;

const CHUNK_BYTES = 16 << 10;
/** After the last answer of a connection, what still comes is dropped for so long, and no more than so many bytes: closing
 * at once would reset the connection before the answer has been read. */
const LINGER_MS = 1_000;
const LINGER_BYTES = 16 << 20;

type Phase = "idle" | "head" | "body" | "response" | "linger";

export class ConnectionStream extends Duplex {
  readonly conn: Deno.Conn;
  /** Resolves once the connection is closed. */
  readonly ended: Promise<void> = new Promise((resolve) => this.once("close", resolve));
  readonly #clock: Clock;
  readonly #timeouts: HttpTimeouts;
  readonly #gone = new AbortController();
  #phase: Phase = "head";
  #phase_at_ms: number;
  #request_at_ms: number;
  #endless = false;
  #writing_since_ms: number | undefined;
  #reading = false;
  #dropped_bytes = 0;
  /** Requests that have come and are not answered; the last of them. */
  #requests = 0;
  #last: Promise<unknown> = Promise.resolve();
  #answered = Promise.withResolvers<void>();
  #room = Promise.withResolvers<void>();

  constructor(conn: Deno.Conn, clock: Clock, timeouts: HttpTimeouts) {
    super();
    this.conn = conn;
    this.#clock = clock;
    this.#timeouts = timeouts;
    // A new connection owes its first request's head at once.
    this.#request_at_ms = this.#phase_at_ms = clock.monotonic();
    // What the peer does ends this connection alone.
    this.on("error", () => {});
    void this.#receive();
  }

  /** Aborted when the client will send nothing more: most likely it is gone. An answer still reaches one that listens. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Whether every request that came has been answered. */
  get idle(): boolean {
    return this.#requests === 0;
  }

  /** When what it does began, on the server's clock: of an idle connection, since when it is idle. */
  get since_ms(): number {
    return this.#phase_at_ms;
  }

  /**
   * Since when, on the server's clock, the peer has not taken what is written to it, or has kept the rest of a request
   * back; undefined while this side is at work.
   *
   * @param request The request that is served.
   */
  peerLateSince(request: Pick<IncomingMessage, "complete"> | undefined): number | undefined {
    if (this.#writing_since_ms !== undefined) return this.#writing_since_ms;
    const lacks = this.#phase === "body" && this.#reading && request?.complete === false;
    return lacks ? this.#phase_at_ms : undefined;
  }

  /** Answers a request whose head has come, once those before it are answered. */
  enqueue(answer: () => Promise<void>): void {
    this.#requests++;
    this.#last = this.#last.then(async () => {
      if (this.destroyed) return;
      if (this.#phase !== "head") this.#beginRequest();
      this.#enter("body");
      await answer();
      this.#endless = false;
      if (--this.#requests > 0 || this.#phase === "linger") return;
      this.#enter("idle");
      this.#answered.resolve();
      this.#answered = Promise.withResolvers();
    });
  }

  /** The request has been read whole, or is not read any further. */
  bodyDone(): void {
    if (this.#phase === "body") this.#enter("response");
  }

  /** Whether the response is a stream without an end. */
  get endless(): boolean {
    return this.#endless;
  }

  streaming(): void {
    this.#endless = true;
    if (this.#gone.signal.aborted) this.destroy();
  }

  /** Ends the connection if a deadline has passed. */
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
    if (late) this.destroy();
  }

  override _read(): void {
    this.#room.resolve();
  }

  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    this.#writing_since_ms = this.#clock.monotonic();
    writeAll(this.conn, chunk).then(() => {
      this.#writing_since_ms = undefined;
      done();
    }, done);
  }

  override _writev(parts: { chunk: Uint8Array }[], done: (error?: Error | null) => void): void {
    this._write(concat(parts.map(({ chunk }) => chunk)), "", done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#enter("linger");
    this.#answered.resolve();
    this.#room.resolve();
    this.conn.closeWrite().then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#gone.abort();
    try {
      this.conn.close();
    } catch {
      // It had ended already.
    }
    done(error);
  }

  async #receive(): Promise<void> {
    const buffer = new Uint8Array(CHUNK_BYTES);
    try {
      if ("setNoDelay" in this.conn) (this.conn as Deno.TcpConn).setNoDelay(true);
      for (;;) {
        this.#reading = true;
        const count = await this.conn.read(buffer);
        this.#reading = false;
        if (count === null) break;
        if (this.#phase === "response") await this.#answered.promise;
        if (this.#phase === "linger") {
          this.#dropped_bytes += count;
          if (this.#dropped_bytes > LINGER_BYTES) this.destroy();
          continue;
        }
        if (this.#phase === "idle") {
          this.#beginRequest();
          this.#enter("head");
        }
        this.#room = Promise.withResolvers();
        if (!this.push(buffer.slice(0, count))) await this.#room.promise;
      }
      this.#gone.abort();
      // A stream without an end would learn only from its next write that its reader is gone.
      if (this.#endless) this.destroy();
      if (this.#phase === "response") await this.#answered.promise;
      // Of a request that breaks off, node:http fails the body.
      if (this.#phase === "idle" || this.#phase === "linger") this.destroy();
      else this.push(null);
    } catch {
      // The client is gone, or this side has closed the connection.
      this.destroy();
    }
  }

  #beginRequest(): void {
    this.#request_at_ms = this.#clock.monotonic();
  }

  #enter(phase: Phase): void {
    this.#phase = phase;
    this.#phase_at_ms = this.#clock.monotonic();
  }
}

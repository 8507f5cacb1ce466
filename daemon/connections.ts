/**
 * The unix socket's connections: requests in, answers and events out.
 *
 * Requests of one connection run one after the other, so answers come in order and the daemon reads no further ahead
 * than one buffer: a client that sends faster than it is served waits in its own kernel buffer. The write deadline ends
 * a client that does not read. The number of connections is bounded; when all are taken, one that has asked for nothing
 * the longest makes room, whether it is idle or stopped in the middle of a request.
 */

import { acceptAll } from "../lib/accept.ts";
import type { Clock } from "../lib/clock.ts";
import { withDeadline } from "../lib/deadline.ts";
import { TaskdError } from "../lib/errors.ts";
import { writeAll } from "../lib/fs.ts";
import { type DecodedRequest, decodeRequest, failure, success } from "../lib/protocol/codec.ts";
import { decodeLine, encodeLine, type Line, LineSplitter, MAX_LINE_BYTES } from "../lib/protocol/lines.ts";
import type { Dispatcher } from "./dispatch.ts";
import type { DaemonLog } from "./log.ts";
import { ProgressLines } from "./progress_lines.ts";
import { type Publisher, WRITE_DEADLINE_MS } from "./publisher.ts";
import { RequestReader } from "./request_reader.ts";

/** Connections at once; each holds at most one line and one answer. */
export const MAX_CONNECTIONS = 1024;

/** Bytes handed to the kernel at a time; the write deadline is re-armed for each, so a large answer may take longer. */
const WRITE_CHUNK_BYTES = 64 * 1024;

/** How long a connection may ask for nothing and be kept when all are taken; a command sends its request at once. */
const QUIET_MS = 1_000;

export interface ConnectionsOptions {
  dispatcher: Dispatcher;
  publisher: Publisher;
  clock: Clock;
  log: DaemonLog;
  write_deadline_ms?: number | undefined;
  max_connections?: number;
}

interface Client {
  conn: Deno.UnixConn;
  reader: RequestReader;
  /** A subscriber whose side of the connection has ended (half-closed, or the client has left), or whose end cannot show. */
  maybe_gone: boolean;
  /** Monotonic milliseconds since which it asks for nothing; undefined while a request runs or events are sent. */
  quiet_since: number | undefined;
}

export class Connections {
  readonly #options: ConnectionsOptions;
  readonly #deadline_ms: number;
  readonly #max: number;
  readonly #clients = new Set<Client>();
  readonly #closing = new AbortController();

  constructor(options: ConnectionsOptions) {
    this.#options = options;
    this.#deadline_ms = options.write_deadline_ms ?? WRITE_DEADLINE_MS;
    this.#max = options.max_connections ?? MAX_CONNECTIONS;
  }

  get size(): number {
    return this.#clients.size;
  }

  accept(listener: Deno.UnixListener): Promise<void> {
    const { clock, log } = this.#options;
    return acceptAll(listener, (conn) => this.#admit(conn), { clock, log, signal: this.#closing.signal });
  }

  close(): void {
    this.#closing.abort();
    for (const client of this.#clients) hangUp(client.conn);
  }

  #admit(conn: Deno.UnixConn): void {
    if (this.#clients.size >= this.#max && !this.#makeRoom()) {
      const refusal = new TaskdError("overloaded", `Cannot serve more than ${this.#max} connections`, {
        hint: "End some that are not needed, or try again later",
      });
      this.#write(conn, encodeLine(failure(undefined, refusal))).catch(() => {}).finally(() => hangUp(conn));
      return;
    }
    const client: Client = { conn, reader: new RequestReader(conn), maybe_gone: false, quiet_since: undefined };
    this.#clients.add(client);
    this.#serve(client).catch(() => {}).finally(() => {
      hangUp(conn);
      this.#clients.delete(client);
    });
  }

  /**
   * Ends a subscription whose client seems to have left, which shows only when an event is written to it; else the
   * connection that has been quiet the longest.
   */
  #makeRoom(): boolean {
    let quiet: Client | undefined;
    let since = this.#options.clock.monotonic() - QUIET_MS;
    for (const client of this.#clients) {
      if (client.maybe_gone) return this.#end(client);
      if (client.quiet_since === undefined || client.quiet_since > since) continue;
      [quiet, since] = [client, client.quiet_since];
    }
    return quiet !== undefined && this.#end(quiet);
  }

  #end(client: Client): true {
    hangUp(client.conn);
    this.#clients.delete(client);
    return true;
  }

  async #serve(client: Client): Promise<void> {
    const splitter = new LineSplitter();
    for (;;) {
      client.quiet_since ??= this.#options.clock.monotonic();
      const bytes = await client.reader.read();
      for (const line of bytes === undefined ? splitter.end() : splitter.push(bytes)) {
        if (await this.#answer(client, line) === "over") return;
      }
      if (bytes === undefined) return;
    }
  }

  async #answer(client: Client, line: Line): Promise<"answered" | "over"> {
    const { dispatcher } = this.#options;
    // Bytes that end no line are no request: a client that sends one now and then stays as quiet as it was.
    client.quiet_since = undefined;
    if (line.kind !== "line") {
      await this.#write(client.conn, encodeLine(failure(undefined, framingError(line.kind))));
      return "answered";
    }
    if (isHttp(line.bytes)) {
      await this.#write(client.conn, encodeLine(failure(undefined, httpRefused())));
      return "over";
    }
    const request = decodeRequest(decodeLine(line.bytes));
    const subscription = dispatcher.subscription(request);
    if (subscription !== undefined) {
      await this.#stream(client, encodeLine(success(request.id, {})), subscription);
      return "over";
    }
    const answer = request.progress ? await this.#runWithProgress(client, request) : await dispatcher.run(request);
    await this.#write(client.conn, encodeLine(answer));
    return "answered";
  }

  /** Runs a request, sends its progress, and ends it early when its client leaves. */
  async #runWithProgress({ conn, reader }: Client, request: DecodedRequest): Promise<object> {
    const { dispatcher, clock } = this.#options;
    const left = new AbortController();
    reader.whenLeft(() => left.abort());
    const lines = new ProgressLines(request.id, clock, (line) => this.#write(conn, line));
    try {
      return await dispatcher.run(request, { signal: left.signal, onProgress: lines.onProgress });
    } finally {
      await lines.close();
    }
  }

  /** Streams events until the connection ends. Registered before the ack: no event after the ack can be missed. */
  async #stream(client: Client, ack: Uint8Array, asked: { more?: boolean }): Promise<void> {
    const { conn } = client;
    const subscription = this.#options.publisher.subscribe({
      write: (line) => writeAll(conn, line),
      close: () => hangUp(conn),
    }, asked);
    try {
      await this.#write(conn, ack);
    } catch (error) {
      subscription.cancel();
      throw error;
    }
    subscription.start();
    // The read resolves when the client's side has ended. After a byte that no subscriber sends, its end would never show.
    client.reader.read().catch(() => {}).then(() => client.maybe_gone = true);
    await subscription.done;
  }

  async #write(conn: Deno.UnixConn, bytes: Uint8Array): Promise<void> {
    for (let offset = 0; offset < bytes.length; offset += WRITE_CHUNK_BYTES) {
      const chunk = bytes.subarray(offset, offset + WRITE_CHUNK_BYTES);
      await withDeadline(writeAll(conn, chunk), this.#options.clock, this.#deadline_ms);
    }
  }
}

function framingError(kind: "too_long" | "unterminated"): TaskdError {
  if (kind === "too_long") {
    return new TaskdError("too_large", `Cannot read a request line of more than ${MAX_LINE_BYTES} bytes`);
  }
  return new TaskdError("invalid_request", "Cannot run the last request: the connection ended before its newline", {
    hint: "End every request with a newline",
  });
}

/**
 * Whether a line is the first of an HTTP request. A browser that was led to a forwarded socket sends one, and a body
 * that its page chose: what follows is not read.
 */
function isHttp(bytes: Uint8Array): boolean {
  const latin1 = new TextDecoder("latin1");
  return /^[A-Z]{3,16} /.test(latin1.decode(bytes.subarray(0, 17))) &&
    / HTTP\/\d(?:\.\d)?\r?$/.test(latin1.decode(bytes.subarray(-12)));
}

function httpRefused(): TaskdError {
  return new TaskdError("invalid_request", "Cannot run the request: this socket takes lines of JSON, not HTTP", {
    hint: "For HTTP start the daemon with taskd serve --http",
  });
}

function hangUp(conn: Deno.UnixConn): void {
  try {
    conn.close();
  } catch {
    // It was closed already.
  }
}

/**
 * Connections in raw bytes: a client that writes what no library would, and servers with one handler for each connection.
 */

import type { Clock } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";

/** Bytes, one for each character. */
export function latin1(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}

/** Characters, one for each byte. */
export function text(bytes: Uint8Array): string {
  let found = "";
  for (let at = 0; at < bytes.length; at += 4_096) found += String.fromCharCode(...bytes.subarray(at, at + 4_096));
  return found;
}

export interface RawResponse {
  status: number;
  head: string;
  body: string;
}

/** How long something is waited for that may never come. */
export interface ReadTimeout {
  clock: Clock;
  timeout_ms: number;
}

export class RawClient<Conn extends Deno.Conn = Deno.TcpConn> implements AsyncDisposable {
  readonly conn: Conn;
  readonly #timeout: ReadTimeout | undefined;
  #seen = "";

  constructor(conn: Conn, timeout?: ReadTimeout) {
    this.conn = conn;
    this.#timeout = timeout;
  }

  static async connect(port: number, timeout?: ReadTimeout): Promise<RawClient> {
    return new RawClient(await Deno.connect({ hostname: "127.0.0.1", port }), timeout);
  }

  async send(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? latin1(data) : data;
    for (let done = 0; done < bytes.length;) done += await this.conn.write(bytes.subarray(done));
  }

  /** Reads until `mark` has come, and returns everything up to its end. */
  async until(mark: string): Promise<string> {
    for (;;) {
      const at = this.#seen.indexOf(mark);
      if (at >= 0) return this.#cut(at + mark.length);
      if (!await this.#more()) throw new Error(`ended before ${JSON.stringify(mark)}: ${JSON.stringify(this.#seen)}`);
    }
  }

  /** Reads a response with a Content-Length, or none. */
  async response(): Promise<RawResponse> {
    const head = await this.until("\r\n\r\n");
    const lengths = head.split("\r\n").flatMap((line) => /^content-length: (\d+)$/i.exec(line)?.[1] ?? []);
    const length = Number(lengths[0] ?? 0);
    while (this.#seen.length < length) if (!await this.#more()) throw new Error("ended inside a body");
    return { status: Number(head.split(" ")[1]), head, body: this.#cut(length) };
  }

  /** Reads to the end of what the other side sends; a reset is an end, too. */
  async rest(): Promise<string> {
    while (await this.#more().catch(() => false));
    return this.#cut(this.#seen.length);
  }

  [Symbol.asyncDispose](): Promise<void> {
    try {
      this.conn.close();
    } catch {
      // Already closed.
    }
    return Promise.resolve();
  }

  #cut(length: number): string {
    const cut = this.#seen.slice(0, length);
    this.#seen = this.#seen.slice(length);
    return cut;
  }

  #read(buffer: Uint8Array): Promise<number | null> {
    const reading = this.conn.read(buffer);
    return this.#timeout === undefined ? reading : withDeadline(reading, this.#timeout.clock, this.#timeout.timeout_ms);
  }

  async #more(): Promise<boolean> {
    const buffer = new Uint8Array(64 << 10);
    const count = await this.#read(buffer);
    if (count === null) return false;
    this.#seen += text(buffer.subarray(0, count));
    return true;
  }
}

/** A TCP server with one handler for each connection; errors of a connection are ignored. */
export class Server implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Set<Deno.TcpConn>();
  readonly #running: Promise<void>;
  accepted = 0;

  private constructor(listener: Deno.TcpListener, serve: (conn: Deno.TcpConn) => Promise<void>) {
    this.#listener = listener;
    this.#running = this.#run(serve);
  }

  static start(
    serve: (conn: Deno.TcpConn) => Promise<void>,
    { hostname = "127.0.0.1", port = 0 }: { hostname?: string; port?: number } = {},
  ): Server {
    return new Server(Deno.listen({ hostname, port }), serve);
  }

  /** Sends back what it gets, and ends when the client does. */
  static echo(): Server {
    return Server.start(async (conn) => {
      const buffer = new Uint8Array(64 << 10);
      for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
        for (let done = 0; done < count;) done += await conn.write(buffer.subarray(done, count));
      }
      await conn.closeWrite();
    });
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const conn of this.#connections) this.#end(conn);
    await this.#running;
  }

  #end(conn: Deno.TcpConn): void {
    this.#connections.delete(conn);
    try {
      conn.close();
    } catch {
      // It has ended by itself, or was ended with the server.
    }
  }

  async #run(serve: (conn: Deno.TcpConn) => Promise<void>): Promise<void> {
    const serving: Promise<void>[] = [];
    try {
      for await (const conn of this.#listener) {
        this.accepted++;
        this.#connections.add(conn);
        serving.push(serve(conn).catch(() => {}).finally(() => this.#end(conn)));
      }
    } catch {
      // Closed.
    }
    await Promise.all(serving);
  }
}

/** A server that keeps what it got on each connection, bytes as characters, and answers each first head. */
export function recorder(answer = ""): Server & { got: string[] } {
  const got: string[] = [];
  const server = Server.start(async (conn) => {
    const index = got.push("") - 1;
    const buffer = new Uint8Array(64 << 10);
    let is_answered = answer === "";
    for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
      got[index] += text(buffer.subarray(0, count));
      if (is_answered || !got[index]!.includes("\r\n\r\n")) continue;
      is_answered = true;
      await conn.write(latin1(answer));
    }
  });
  return Object.assign(server, { got });
}

/**
 * A client of HTTP that sends raw bytes: requests no library would write, connections that stay open, are left
 * half way or come too slowly.
 */

import { latin1, text } from "../attacks/raw_connections.ts";

/** A response, read whole. */
export interface RawAnswer {
  status: number;
  head: string;
  body: string;
}

/** A header of a response. */
export function headerOf({ head }: RawAnswer, name: string): string | undefined {
  return new RegExp(`^${name}: (.*)$`, "im").exec(head)?.[1];
}

/** A connection that sends given bytes and reads what arrives. */
export class RawHttp<Conn extends Deno.Conn = Deno.Conn> implements Disposable {
  readonly conn: Conn;
  /** Header lines of every request. */
  readonly #always: readonly string[];
  readonly #host: string;
  /** What was read and not asked for yet, a character for each byte. */
  #rest = "";

  constructor(conn: Conn, always: readonly string[] = []) {
    this.conn = conn;
    this.#always = always;
    this.#host = conn.remoteAddr.transport === "tcp" ? `localhost:${conn.remoteAddr.port}` : "localhost";
  }

  /** Connects to a port of loopback. */
  static async connect(port: number, always?: readonly string[]): Promise<RawHttp<Deno.TcpConn>> {
    return new RawHttp(await Deno.connect({ hostname: "127.0.0.1", port }), always);
  }

  /** Sends text or bytes. */
  async send(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let offset = 0; offset < bytes.length;) offset += await this.conn.write(bytes.subarray(offset));
  }

  /** Sends a request; a Host of its own stands in `more`. */
  async request(line: string, more: readonly string[] = [], body?: string): Promise<void> {
    const host = more.some((header) => /^host:/i.test(header)) ? [] : [`Host: ${this.#host}`];
    const size = body === undefined ? [] : [`Content-Length: ${new TextEncoder().encode(body).length}`];
    const type = body === undefined || more.some((header) => /^content-type:/i.test(header))
      ? []
      : ["Content-Type: application/json"];
    const head = [`${line} HTTP/1.1`, ...host, ...this.#always, ...size, ...type, ...more];
    await this.send(`${head.join("\r\n")}\r\n\r\n${body ?? ""}`);
  }

  /** Reads one response that has a Content-Length, or no body; undefined when the connection ends first. */
  async response(options: { bodyless?: boolean } = {}): Promise<RawAnswer | undefined> {
    for (;;) {
      const end = this.#rest.indexOf("\r\n\r\n");
      if (end >= 0) {
        const head = this.#rest.slice(0, end);
        const size = options.bodyless === true ? 0 : Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
        const body = this.#rest.slice(end + 4, end + 4 + size);
        if (body.length === size) {
          this.#rest = this.#rest.slice(end + 4 + size);
          return { status: Number(head.split(" ")[1]), head, body: utf8(body) };
        }
      }
      if (!await this.#more()) return undefined;
    }
  }

  /** Reads until `mark` has come, from where the last reading has ended. */
  async until(mark: string): Promise<string> {
    for (;;) {
      const at = this.#rest.indexOf(mark);
      if (at >= 0) {
        const found = this.#rest.slice(0, at + mark.length);
        this.#rest = this.#rest.slice(at + mark.length);
        return utf8(found);
      }
      if (!await this.#more()) throw new Error(`the connection ended before ${JSON.stringify(mark)}: ${this.#rest}`);
    }
  }

  /** Resolves when the other side has ended the connection; what comes until then is dropped. */
  async ended(): Promise<void> {
    while (await this.#more()) this.#rest = "";
  }

  async #more(): Promise<boolean> {
    const buffer = new Uint8Array(1 << 16);
    // A reset is an end, too.
    const count = await this.conn.read(buffer).catch(() => null);
    if (count === null) return false;
    this.#rest += text(buffer.subarray(0, count));
    return true;
  }

  [Symbol.dispose](): void {
    try {
      this.conn.close();
    } catch {
      // It was closed already.
    }
  }
}

/** Text of bytes that stand as a character each. */
function utf8(bytes: string): string {
  return new TextDecoder().decode(latin1(bytes));
}

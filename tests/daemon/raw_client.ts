/**
 * A client of the socket that knows nothing of the protocol, to send what no client should.
 */

import { decodeLine, LineSplitter } from "../../lib/protocol/lines.ts";

/** A client that sends bytes and reads lines, and has no opinion about either. */
export class RawClient implements Disposable {
  readonly conn: Deno.UnixConn;
  readonly #lines: AsyncGenerator<string, void, void>;

  private constructor(conn: Deno.UnixConn) {
    this.conn = conn;
    this.#lines = linesOf(conn);
  }

  static async connect(path: string): Promise<RawClient> {
    return new RawClient(await Deno.connect({ transport: "unix", path }));
  }

  async send(data: string | Uint8Array): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    for (let offset = 0; offset < bytes.length;) offset += await this.conn.write(bytes.subarray(offset));
  }

  /** The next line as JSON; undefined at the end. */
  // deno-lint-ignore no-explicit-any
  async next(): Promise<any> {
    const line = await this.#lines.next();
    return line.done ? undefined : JSON.parse(line.value);
  }

  /** Sends one line and reads one. */
  // deno-lint-ignore no-explicit-any
  async ask(line: string): Promise<any> {
    await this.send(`${line}\n`);
    return await this.next();
  }

  [Symbol.dispose](): void {
    try {
      this.conn.close();
    } catch {
      // It was closed already.
    }
  }
}

async function* linesOf(conn: Deno.UnixConn): AsyncGenerator<string, void, void> {
  const splitter = new LineSplitter(256 * 1024 * 1024);
  const buffer = new Uint8Array(64 * 1024);
  for (;;) {
    const count = await conn.read(buffer);
    if (count === null) return;
    for (const line of splitter.push(buffer.subarray(0, count))) {
      if (line.kind === "line") yield decodeLine(line.bytes)!;
    }
  }
}

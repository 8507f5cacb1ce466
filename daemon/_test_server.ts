/**
 * For tests of this folder: a real socket served by real connections, with handlers that a test
 * stages, and a raw client that sends bytes.
 *
 * @module
 */

import { join } from "@std/path/join";
import { systemClock } from "../lib/clock.ts";
import { decodeLine, LineSplitter } from "../lib/protocol/lines.ts";
import { Connections } from "./connections.ts";
import { Dispatcher, type Handlers } from "./dispatch.ts";
import { Publisher } from "./publisher.ts";
import { bindSocket } from "./unix_socket.ts";

/** A served socket. */
export interface TestServer extends AsyncDisposable {
  path: string;
  publisher: Publisher;
  dispatcher: Dispatcher;
  connections: Connections;
  log: string[];
}

/** Serves `handlers` on a socket of its own; an operation that was not staged is a defect. */
export async function testServer(
  handlers: Partial<Handlers>,
  limits: { write_deadline_ms?: number; max_connections?: number } = {},
): Promise<TestServer> {
  const directory = await Deno.makeTempDir();
  const path = join(directory, "s.sock");
  const log: string[] = [];
  const publisher = new Publisher({ clock: systemClock, ...limits });
  const dispatcher = new Dispatcher(handlers as Handlers, (entry) => log.push(entry));
  const options = { dispatcher, publisher, clock: systemClock, log: (entry: string) => log.push(entry) };
  const connections = new Connections({ ...options, ...limits });
  const socket = await bindSocket(path);
  const accepting = connections.accept(socket.listener);
  return {
    path,
    publisher,
    dispatcher,
    connections,
    log,
    [Symbol.asyncDispose]: async () => {
      connections.close();
      socket.close();
      await accepting;
      await Deno.remove(directory, { recursive: true });
    },
  };
}

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

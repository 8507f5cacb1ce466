/**
 * A proxy on loopback with a resolver of the test's own, servers behind it, and clients that write what they like.
 *
 * @module
 */

import { join } from "@std/path/join";
import type { Decision } from "../../../broker/egress/decision.ts";
import { EgressProxy, type EgressProxyOptions, type TaskEgress } from "../../../broker/egress/proxy.ts";
import type { EgressList } from "../../../broker/egress/rules.ts";
import { systemClock, systemRandom } from "../../../lib/clock.ts";

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

/** A client that speaks in raw bytes. */
export class RawClient implements AsyncDisposable {
  readonly conn: Deno.TcpConn;
  #seen = "";

  /** Speaks over `conn`. */
  constructor(conn: Deno.TcpConn) {
    this.conn = conn;
  }

  /** Connects to a proxy or server. */
  static async connect(port: number): Promise<RawClient> {
    return new RawClient(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  /** Writes all of it. */
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
  async response(): Promise<{ status: number; head: string; body: string }> {
    const head = await this.until("\r\n\r\n");
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0);
    while (this.#seen.length < length) if (!await this.#more()) throw new Error("ended inside a body");
    return { status: Number(head.split(" ")[1]), head, body: this.#cut(length) };
  }

  /** Sends a CONNECT and gives its status. */
  async tunnel(target: string, task: TaskEgress): Promise<number> {
    await this.send(connectHead(target, task));
    return (await this.response()).status;
  }

  /** Reads to the end of what the other side sends; a reset is an end, too. */
  async rest(): Promise<string> {
    while (await this.#more().catch(() => false));
    return this.#cut(this.#seen.length);
  }

  /** Closes the connection. */
  [Symbol.asyncDispose](): Promise<void> {
    try {
      this.conn.close();
    } catch {
      // The test did it.
    }
    return Promise.resolve();
  }

  #cut(length: number): string {
    const cut = this.#seen.slice(0, length);
    this.#seen = this.#seen.slice(length);
    return cut;
  }

  async #more(): Promise<boolean> {
    const buffer = new Uint8Array(64 << 10);
    const count = await this.conn.read(buffer);
    if (count === null) return false;
    this.#seen += text(buffer.subarray(0, count));
    return true;
  }
}

/** The field that proves a task. */
export function credentials({ username, password }: { username: string; password: string }): string {
  return `Proxy-Authorization: Basic ${btoa(`${username}:${password}`)}`;
}

/** A CONNECT request. */
export function connectHead(target: string, task: TaskEgress): string {
  return `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${credentials(task)}\r\n\r\n`;
}

/** A proxy, what it is asked and what it decides. */
export class Bench implements AsyncDisposable {
  readonly proxy: EgressProxy;
  readonly log_dir: string;
  /** Names that were looked up, in order. */
  readonly lookups: string[];
  readonly decisions: Decision[];
  readonly #cleanup: (() => void | Promise<void>)[];

  private constructor(proxy: EgressProxy, log_dir: string, lookups: string[], decisions: Decision[]) {
    this.proxy = proxy;
    this.log_dir = log_dir;
    this.lookups = lookups;
    this.decisions = decisions;
    this.#cleanup = [];
  }

  /**
   * Starts one. Names resolve as `names` says (127.0.0.1 for those it does not have), 127.0.0.1 may be dialled, and
   * every port that a listed host has stands for the real port that `ports` gives.
   */
  static async start(
    options: Partial<Omit<EgressProxyOptions, "egress">> & {
      list: Record<string, number[]>;
      names?: Record<string, string[] | (() => string[])>;
      ports?: Record<number, number>;
    },
  ): Promise<Bench> {
    const log_dir = await Deno.makeTempDir();
    const lookups: string[] = [];
    const decisions: Decision[] = [];
    const { list, names = {}, ports = {}, ...rest } = options;
    const proxy = EgressProxy.listen({ hostname: "127.0.0.1", port: 0 }, {
      clock: systemClock,
      random: systemRandom,
      egress: listOf(list),
      log_dir: join(log_dir, "squid"),
      allow_addresses: ["127.0.0.1"],
      resolve: (host) => {
        lookups.push(host);
        const found = names[host] ?? ["127.0.0.1"];
        return Promise.resolve(typeof found === "function" ? found() : found);
      },
      connect: (address, port, signal) =>
        Deno.connect({ hostname: address, port: ports[port] ?? port, transport: "tcp", signal }),
      onDecision: (decision) => decisions.push(decision),
      ...rest,
    });
    return new Bench(proxy, log_dir, lookups, decisions);
  }

  /** The proxy's port. */
  get port(): number {
    return this.proxy.address.port;
  }

  /** Admits a task. */
  admit(task_id = "task1", extra: Record<string, number[]> = {}): TaskEgress {
    return this.proxy.admit({ task_id, extra: listOf(extra) });
  }

  /** Connects to the proxy. */
  async client(): Promise<RawClient> {
    const client = await RawClient.connect(this.port);
    this.defer(() => client[Symbol.asyncDispose]());
    return client;
  }

  /** Sends one request on a connection of its own, and reads the response. */
  async ask(request: string): Promise<{ status: number; head: string; body: string }> {
    await using client = await RawClient.connect(this.port);
    await client.send(request);
    return await client.response();
  }

  /** Sends a CONNECT on a connection of its own: its status, and the reason when it was refused. */
  async connect(target: string, task: TaskEgress): Promise<string> {
    const { status, body } = await this.ask(connectHead(target, task));
    return status === 200 ? "200" : `${status} ${JSON.parse(body).code}`;
  }

  /** The access log's lines. */
  async log(): Promise<string[]> {
    return (await Deno.readTextFile(join(this.log_dir, "squid", "access.log"))).split("\n").slice(0, -1);
  }

  /** Runs `action` at the end. */
  defer(action: () => void | Promise<void>): void {
    this.#cleanup.push(action);
  }

  /** Stops everything. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.proxy.close();
    for (const action of this.#cleanup.reverse()) await action();
    await Deno.remove(this.log_dir, { recursive: true });
  }
}

/** An egress list from hosts and ports. */
export function listOf(list: Record<string, number[]>): EgressList {
  return { entries: Object.entries(list).map(([host, ports]) => ({ host, ports })) };
}

/** A TCP server that deals with each connection as told; a connection that breaks is the test's to notice. */
export class Server implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Set<Deno.TcpConn>();
  readonly #running: Promise<void>;
  /** Connections so far. */
  accepted = 0;

  private constructor(listener: Deno.TcpListener, serve: (conn: Deno.TcpConn) => Promise<void>) {
    this.#listener = listener;
    this.#running = this.#run(serve);
  }

  /** Listens on loopback. */
  static start(serve: (conn: Deno.TcpConn) => Promise<void>): Server {
    return new Server(Deno.listen({ hostname: "127.0.0.1", port: 0 }), serve);
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

  /** Its port. */
  get port(): number {
    return this.#listener.addr.port;
  }

  /** Stops it. */
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
      // The test's server, or the end of the test, did it.
    }
  }

  async #run(serve: (conn: Deno.TcpConn) => Promise<void>): Promise<void> {
    const serving: Promise<void>[] = [];
    try {
      for await (const conn of this.#listener) {
        this.accepted++;
        this.#connections.add(conn);
        serving.push(
          serve(conn).catch(() => {}).finally(() => this.#end(conn)),
        );
      }
    } catch {
      // Closed.
    }
    await Promise.all(serving);
  }
}

/**
 * A proxy on loopback with a resolver of the test's own, servers behind it, and clients that write what they like.
 */

import { join } from "@std/path/join";
import type { EgressDecision } from "../../../broker/egress/decision.ts";
import { EgressProxy, type EgressProxyOptions, type TaskEgress } from "../../../broker/egress/proxy.ts";
import type { EgressList } from "../../../broker/egress/egress_rules.ts";
import { RawClient as Client } from "../../attacks/raw_connections.ts";
import { systemClock, systemRandom } from "../../../lib/clock.ts";

export { latin1, Server, text } from "../../attacks/raw_connections.ts";

/** A client that speaks in raw bytes. */
export class RawClient extends Client {
  /** Connects to a proxy or server. */
  static override async connect(port: number): Promise<RawClient> {
    return new RawClient(await Deno.connect({ hostname: "127.0.0.1", port }));
  }

  /** Sends a CONNECT and gives its status. */
  async tunnel(target: string, task: TaskEgress): Promise<number> {
    await this.send(connectHead(target, task));
    return (await this.response()).status;
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
  readonly decisions: EgressDecision[];
  readonly #cleanup: (() => void | Promise<void>)[];

  private constructor(proxy: EgressProxy, log_dir: string, lookups: string[], decisions: EgressDecision[]) {
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
    const decisions: EgressDecision[] = [];
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
function listOf(list: Record<string, number[]>): EgressList {
  return { entries: Object.entries(list).map(([host, ports]) => ({ host, ports })) };
}

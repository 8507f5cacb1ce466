/** The egress proxy on loopback, with a resolver that records its queries: no query leaves the machine. */

import type { EgressProxyOptions, TaskEgress } from "../../broker/egress/proxy.ts";
import type { EgressDecision } from "../../broker/egress/decision.ts";
import type { EgressList } from "../../broker/egress/egress_rules.ts";
import type { AttackContext, Surfaces } from "./context.ts";
import { RawClient, type RawResponse, type ReadTimeout } from "./raw_connections.ts";

export interface ProxyBenchOptions extends Partial<Pick<EgressProxyOptions, "own_addresses" | "connect">> {
  list: Readonly<Record<string, readonly number[]>>;
  /** Addresses of names; 127.0.0.1 for those that are not there. */
  names?: Readonly<Record<string, string[] | (() => string[])>>;
  /** Real ports in the place of those that are asked for. */
  ports?: Readonly<Record<number, number>>;
}

export class ProxyBench implements AsyncDisposable {
  readonly lookups: string[] = [];
  readonly dialled: string[] = [];
  readonly decisions: EgressDecision[] = [];
  readonly #proxy: ReturnType<Surfaces["proxy"]>;
  readonly #timeout: ReadTimeout;

  private constructor(context: AttackContext, log_dir: string, options: ProxyBenchOptions) {
    this.#timeout = context.timeout;
    const { list, names = {}, ports = {}, connect, ...rest } = options;
    this.#proxy = context.surfaces.proxy({ hostname: "127.0.0.1", port: 0 }, {
      clock: context.clock,
      random: context.random,
      egress: listOf(list),
      log_dir,
      allow_addresses: ["127.0.0.1"],
      resolve: (host) => {
        this.lookups.push(host);
        const found = names[host] ?? ["127.0.0.1"];
        return Promise.resolve(typeof found === "function" ? found() : found);
      },
      connect: (address, port, signal) => {
        this.dialled.push(address);
        if (connect !== undefined) return connect(address, port, signal);
        return Deno.connect({ hostname: address, port: ports[port] ?? port, transport: "tcp", signal });
      },
      onDecision: (decision) => this.decisions.push(decision),
      ...rest,
    });
  }

  static async start(context: AttackContext, options: ProxyBenchOptions): Promise<ProxyBench> {
    return new ProxyBench(context, `${await context.folder()}/log`, options);
  }

  admit(task_id = "task1"): TaskEgress {
    return this.#proxy.admit({ task_id });
  }

  client(): Promise<RawClient> {
    return RawClient.connect(this.#proxy.address.port, this.#timeout);
  }

  /** Sends one request on a connection of its own; a connection that ends without an answer is `closed`. */
  async ask(request: string): Promise<RawResponse> {
    await using client = await this.client();
    try {
      await client.send(request);
      return await client.response();
    } catch {
      return { status: 0, head: "closed", body: "" };
    }
  }

  /** What becomes of a CONNECT: its status, and the code of the refusal. */
  async connect(target: string, task: TaskEgress): Promise<string> {
    return verdictOf(await this.ask(connectHead(target, task)));
  }

  /** What becomes of a plain GET of a URL with this Host. */
  async get(url: string, host: string, task: TaskEgress): Promise<string> {
    return verdictOf(await this.ask(getHead(url, host, task)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#proxy.close();
  }
}

function verdictOf({ status, body }: RawResponse): string {
  const code = /"code": ?"([a-z_]+)"/.exec(body)?.[1];
  return code === undefined ? String(status) : `${status} ${code}`;
}

function listOf(list: Readonly<Record<string, readonly number[]>>): EgressList {
  return { entries: Object.entries(list).map(([host, ports]) => ({ host, ports: [...ports] })) };
}

function proof({ username, password }: TaskEgress): string {
  return `Proxy-Authorization: Basic ${btoa(`${username}:${password}`)}`;
}

export function connectHead(target: string, task: TaskEgress): string {
  return `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n${proof(task)}\r\n\r\n`;
}

export function getHead(url: string, host: string, task: TaskEgress, ...fields: string[]): string {
  return [`GET ${url} HTTP/1.1`, `Host: ${host}`, proof(task), ...fields, "", ""].join("\r\n");
}

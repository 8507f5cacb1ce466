/** The model gateway in front of a vendor on loopback that records what reaches it. The key is made up. */

import { randomHex } from "../../lib/clock.ts";
import { type Lane, LANES } from "../../broker/agents.ts";
import type { GatewayLease, LeaseOptions } from "../../broker/gateway/lease.ts";
import { PriceBook } from "../../broker/gateway/prices.ts";
import type { AttackContext, Surfaces } from "./context.ts";
import { RawClient } from "./raw_connections.ts";

export interface Arrived {
  path: string;
  headers: string;
  body: string;
}

/** An answer of the vendor's; the key is there to be repeated. */
export type VendorAnswer = (key: string) => Response | Promise<Response>;

export class GatewayBench implements AsyncDisposable {
  readonly arrived: Arrived[] = [];
  readonly logged: string[] = [];
  /** The operator's key: nothing that a client sees may have it. */
  readonly key: string;
  answer: VendorAnswer = () => Response.json({});
  readonly #context: AttackContext;
  readonly #vendor: Deno.HttpServer<Deno.NetAddr>;
  #gateway!: Awaited<ReturnType<Surfaces["gateway"]>>;
  #tasks = 0;

  private constructor(context: AttackContext) {
    this.#context = context;
    this.key = `sk-redteam-${randomHex(context.random, 16)}`;
    this.#vendor = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      const { pathname, search } = new URL(request.url);
      const headers = JSON.stringify([...request.headers]);
      this.arrived.push({ path: `${pathname}${search}`, headers, body: await request.text() });
      return await this.answer(this.key);
    });
  }

  static async start(context: AttackContext): Promise<GatewayBench> {
    const bench = new GatewayBench(context);
    const upstream = { base_url: `http://127.0.0.1:${bench.#vendor.addr.port}`, api_key: bench.key };
    try {
      bench.#gateway = context.surfaces.gateway({
        hostname: "127.0.0.1",
        port: 0,
        upstreams: Object.fromEntries(LANES.map((lane) => [lane, upstream])),
        prices: new PriceBook({ now: () => context.clock.now() }),
        clock: context.clock,
        random: context.random,
        log: (line) => bench.logged.push(line),
      });
    } catch (error) {
      await bench.#vendor.shutdown();
      throw error;
    }
    return bench;
  }

  lease(lane: Lane, changes: Partial<LeaseOptions> = {}): GatewayLease {
    return this.#gateway.lease({
      task_id: `task-${++this.#tasks}`,
      lane,
      auth: "api_key",
      budget_usd: 2,
      max_inflight: 0,
      max_request_cost_usd: 0,
      max_requests: 0,
      ...changes,
    });
  }

  /** A POST of JSON, or of text as it is; what comes back, whole. */
  async post(
    path: string,
    body: unknown,
    headers: Record<string, string>,
  ): Promise<{ status: number; code: string; text: string; retry_after: string | null }> {
    const { hostname, port } = this.#gateway.address;
    const response = await fetch(`http://${hostname}:${port}${path}`, {
      method: "POST",
      body: typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body),
      headers: { "content-type": "application/json", ...headers },
      redirect: "manual",
    });
    const text = await response.text();
    const code = /"code": ?"([a-z_]+)"/.exec(text)?.[1] ?? "-";
    const seen = `${JSON.stringify([...response.headers])}${text}`;
    return { status: response.status, code, text: seen, retry_after: response.headers.get("retry-after") };
  }

  async status(...request: Parameters<GatewayBench["post"]>): Promise<number> {
    return (await this.post(...request)).status;
  }

  /** The first 12 characters of the answer to a request in raw bytes: its version and status. */
  async rawStatus(request: string): Promise<string> {
    await using client = await RawClient.connect(this.#gateway.address.port, this.#context.timeout);
    await client.send(request);
    return (await client.rest()).slice(0, 12);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#gateway.close();
    await this.#vendor.shutdown();
  }
}

export function bearer({ token }: GatewayLease): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

/**
 * A gateway in front of a vendor's server, and a client that can break every rule.
 */

import { nextTurn } from "../../../lib/clock.ts";
import { type Lane, LANES } from "../../../broker/agents.ts";
import { Gateway, type GatewayOptions } from "../../../broker/gateway/gateway.ts";
import type { GatewayLease, LeaseOptions, Settlement } from "../../../broker/gateway/lease.ts";
import { PriceBook } from "../../../broker/gateway/prices.ts";
export { BODIES } from "../../attacks/inputs/gateway.ts";
import { type Answer, REAL_KEY, type VendorServer, vendorServer } from "./vendor_server.ts";

/** Everything a test works with. */
export interface Harness extends AsyncDisposable {
  vendor: VendorServer;
  gateway: Gateway;
  url: string;
  settled: Settlement[];
  logged: string[];
  lease(lane: Lane, options?: Partial<LeaseOptions>): GatewayLease;
  /** A lease, and a POST to it with its token. */
  post(lease: GatewayLease, path: string, body: unknown, init?: RequestInit): Promise<Response>;
  /** Resolves once `count` requests are settled. */
  settlements(count: number): Promise<Settlement[]>;
}

const BOOK = { now: () => Date.UTC(2026, 10, 20) };

/** Starts a gateway whose lanes all lead to one server. */
export async function harness(answer: Answer, options: Partial<GatewayOptions> = {}): Promise<Harness> {
  const vendor = await vendorServer(answer);
  const settled: Settlement[] = [];
  const logged: string[] = [];
  const waiting: { count: number; resolve: () => void }[] = [];
  const upstream = { base_url: vendor.url, api_key: REAL_KEY };
  const gateway = Gateway.start({
    hostname: "127.0.0.1",
    port: 0,
    upstreams: Object.fromEntries(LANES.map((lane) => [lane, upstream])),
    prices: new PriceBook(BOOK),
    log: (line) => logged.push(line),
    onSettled: (_lease, settlement) => {
      settled.push(settlement);
      for (const { count, resolve } of waiting) if (settled.length >= count) resolve();
    },
    ...options,
  });
  const url = `http://127.0.0.1:${gateway.address.port}`;
  return {
    vendor,
    gateway,
    url,
    settled,
    logged,
    lease: (lane, given = {}) => gateway.lease({ ...LEASE, lane, ...given }),
    post: (lease, path, body, init = {}) =>
      fetch(`${url}${path}`, {
        method: "POST",
        body: typeof body === "string" ? body : JSON.stringify(body),
        ...init,
        headers: {
          "authorization": `Bearer ${lease.token}`,
          "content-type": "application/json",
          ...init.headers as Record<string, string> | undefined,
        },
      }),
    settlements: async (count) => {
      if (settled.length < count) await new Promise<void>((resolve) => waiting.push({ count, resolve }));
      return settled;
    },
    [Symbol.asyncDispose]: async () => {
      await gateway.close();
      await vendor[Symbol.asyncDispose]();
    },
  };
}

/** A book with prices of a self-hosted endpoint. */
export function compatBook(compat: Record<string, { input: number; output: number }>): PriceBook {
  return new PriceBook({ ...BOOK, compat });
}

const LEASE = {
  task_id: "task-1",
  auth: "api_key",
  budget_usd: 2,
  max_inflight: 1,
  max_request_cost_usd: 0,
  max_requests: 0,
} as const;

/** A connection in raw bytes. */
export class RawClient implements Disposable {
  readonly #conn: Deno.Conn;
  readonly #decoder = new TextDecoder();
  #text = "";

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  static async connect(url: string): Promise<RawClient> {
    return new RawClient(await Deno.connect({ hostname: "127.0.0.1", port: Number(new URL(url).port) }));
  }

  async send(text: string | Uint8Array): Promise<void> {
    const bytes = typeof text === "string" ? new TextEncoder().encode(text) : text;
    for (let sent = 0; sent < bytes.length;) sent += await this.#conn.write(bytes.subarray(sent));
  }

  /** Reads until `needle` has come, or the connection ends. */
  async until(needle: string | undefined): Promise<string> {
    const buffer = new Uint8Array(65536);
    while (needle === undefined || !this.#text.includes(needle)) {
      const count = await this.#conn.read(buffer).catch(() => null);
      if (count === null) break;
      this.#text += this.#decoder.decode(buffer.subarray(0, count), { stream: true });
    }
    return this.#text;
  }

  /** Sends until the other side has closed both halves, which alone makes it fail; calls `turn` in between. */
  async isReset(turn: () => void): Promise<void> {
    const until_ms = performance.now() + 10_000;
    for (;;) {
      turn();
      if (await this.#conn.write(Uint8Array.of(0x20)).then(() => false, () => true)) return;
      if (performance.now() > until_ms) throw new Error("The other side never closed the connection");
      await nextTurn();
    }
  }

  [Symbol.dispose](): void {
    try {
      this.#conn.close();
    } catch {
      // The test has closed it.
    }
  }
}

/** A request as text. */
export function rawPost(path: string, token: string, body: string, headers = ""): string {
  return `POST ${path} HTTP/1.1\r\nhost: gateway\r\nx-api-key: ${token}\r\ncontent-type: application/json\r\n` +
    `content-length: ${new TextEncoder().encode(body).length}\r\n${headers}\r\n${body}`;
}

/** Waits until `holds`; what other sockets do is seen some turns later. */
export async function eventually(what: string, holds: () => boolean): Promise<void> {
  const until_ms = performance.now() + 10_000;
  while (!holds()) {
    if (performance.now() > until_ms) throw new Error(`It never came about: ${what}`);
    await nextTurn();
  }
}

/**
 * What the model gateway adds to a request that it checks and meters, beside the same
 * request sent to the vendor directly.
 */

import type { Bench, BenchCase } from "../bench.ts";
import { GATEWAY_SERVER, type Listening, VENDOR_SERVER } from "../broker_gateway_server.ts";
import { helperProcess } from "../helper.ts";
import type { Place } from "../file_systems.ts";
import { residentBytes } from "../process.ts";
import { nearestRank } from "../stats.ts";

const CONNECTIONS = 16;
const MIB = 2 ** 20;

/** The case. */
export const gateway: BenchCase = {
  name: "gateway",
  title: "Go through the model gateway",
  method:
    "Client, gateway and vendor are processes of their own on one machine; a request is 2 KB of JSON, its answer 1 KB. Direct and through the gateway " +
    "are measured in alternating batches; `added` is the difference of the p50 or p99 of two neighbouring batches. The gateway runs with the flags of `taskd start`.",
  places: "plain",
  async run(bench, place) {
    await using vendor = await helperProcess(VENDOR_SERVER);
    await using through = await helperProcess(GATEWAY_SERVER, [`http://127.0.0.1:${vendor.reported.port}`]);
    const ways = { direct: vendor.reported, "through the gateway": through.reported };
    const plain = Object.values(ways).map((way) => requestText(way, false));
    await latency(bench, place, ways, plain);
    await throughput(bench, place, ways, plain);
    await firstByte(bench, place, ways);
    bench.add(place, "gateway's memory after it", "MB", [await residentBytes(through.pid) / MIB], {
      target: { value: 150, is: "at_most" },
    });
  },
};

type Ways = Record<string, Listening>;

async function latency(bench: Bench, place: Place, ways: Ways, requests: Uint8Array[]): Promise<void> {
  const size = bench.pick(1_000, 200);
  const taken: number[][] = [[], []];
  const added: Record<"p50" | "p99", number[]> = { p50: [], p99: [] };
  const connections = await Promise.all(Object.values(ways).map((way) => Connection.open(way.port)));
  for (let round = -1; round < bench.pick(12, 3); round++) {
    const batches: number[][] = [];
    for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) {
      batches[index] = await connections[index]!.times(requests[index]!, size);
    }
    if (round < 0) continue;
    batches.forEach((batch, index) => taken[index]!.push(...batch));
    added.p50.push(nearestRank(batches[1]!, 0.5) - nearestRank(batches[0]!, 0.5));
    added.p99.push(nearestRank(batches[1]!, 0.99) - nearestRank(batches[0]!, 0.99));
  }
  for (const connection of connections) connection.close();
  Object.keys(ways).forEach((way, index) => bench.add(place, `a request, ${way}`, "ms", taken[index]!));
  bench.add(place, "added to the p50", "ms", added.p50, { target: { value: 0.5, is: "at_most" } });
  bench.add(place, "added to the p99", "ms", added.p99, { target: { value: 2.5, is: "at_most" } });
}

async function throughput(bench: Bench, place: Place, ways: Ways, requests: Uint8Array[]): Promise<void> {
  const each = bench.pick(1_000, 100);
  const rates: number[][] = [[], []];
  for (let round = -1; round < bench.pick(6, 2); round++) {
    for (const [index, way] of Object.values(ways).entries()) {
      const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => Connection.open(way.port)));
      const start = performance.now();
      await Promise.all(connections.map((connection) => connection.times(requests[index]!, each)));
      const rate = CONNECTIONS * each / (performance.now() - start) * 1_000;
      for (const connection of connections) connection.close();
      if (round >= 0) rates[index]!.push(rate);
    }
  }
  Object.keys(ways).forEach((way, index) =>
    bench.add(place, `${CONNECTIONS} connections, ${way}`, "requests/s", rates[index]!, {
      ...(index === 1 ? { target: { value: 5_000, is: "at_least" } as const } : {}),
    })
  );
}

async function firstByte(bench: Bench, place: Place, ways: Ways): Promise<void> {
  const taken: number[][] = [[], []];
  const connections = await Promise.all(Object.values(ways).map((way) => Connection.open(way.port)));
  const requests = Object.values(ways).map((way) => requestText(way, true));
  for (let round = -2; round < bench.pick(60, 5); round++) {
    for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) {
      const time = await connections[index]!.firstToken(requests[index]!);
      if (round >= 0) taken[index]!.push(time);
    }
  }
  for (const connection of connections) connection.close();
  const [direct = [], through = []] = taken;
  Object.keys(ways).forEach((way, index) => bench.add(place, `first token, ${way}`, "ms", taken[index]!));
  bench.add(place, "added to the first token", "ms", through.map((time, round) => time - direct[round]!), {
    target: { value: 1, is: "at_most" },
  });
}

/** A kept-alive connection that measures. */
class Connection {
  readonly #conn: Deno.Conn;
  readonly #buffer = new Uint8Array(65_536);
  readonly #decoder = new TextDecoder();

  private constructor(conn: Deno.Conn) {
    this.#conn = conn;
  }

  static async open(port: number): Promise<Connection> {
    const conn = await Deno.connect({ hostname: "127.0.0.1", port });
    conn.setNoDelay(true);
    return new Connection(conn);
  }

  /** Milliseconds of each of `count` requests, one after the other. */
  async times(request: Uint8Array, count: number): Promise<number[]> {
    const times: number[] = [];
    for (let done = 0; done < count; done++) {
      const start = performance.now();
      await this.#conn.write(request);
      let head = "";
      let missing = -1;
      while (missing !== 0) {
        const part = await this.#read();
        if (missing > 0) {
          missing -= part.length;
          continue;
        }
        head += this.#decoder.decode(part);
        const end = head.indexOf("\r\n\r\n");
        if (end < 0) continue;
        if (!head.startsWith("HTTP/1.1 200")) throw new Error(head.slice(0, 400));
        missing = end + 4 + Number(/content-length: (\d+)/i.exec(head)![1]) - head.length;
      }
      times.push(performance.now() - start);
    }
    return times;
  }

  /** Milliseconds to the first event of a streamed answer; reads the rest of it. */
  async firstToken(request: Uint8Array): Promise<number> {
    const start = performance.now();
    await this.#conn.write(request);
    let text = "";
    let first: number | undefined;
    while (!text.endsWith("0\r\n\r\n")) {
      text += this.#decoder.decode(await this.#read());
      if (first === undefined && text.includes("message_start")) first = performance.now() - start;
    }
    if (first === undefined) throw new Error(text.slice(0, 400));
    return first;
  }

  close(): void {
    this.#conn.close();
  }

  async #read(): Promise<Uint8Array> {
    const count = await this.#conn.read(this.#buffer);
    if (count === null) throw new Error("The server closed the connection");
    return this.#buffer.subarray(0, count);
  }
}

function requestText({ token }: Listening, stream: boolean): Uint8Array {
  const body = JSON.stringify({
    model: "claude-sonnet-4-5",
    max_tokens: 1000,
    stream,
    tools: [{ name: "read", description: "Reads a file", input_schema: { type: "object", properties: {} } }],
    messages: [{ role: "user", content: "A question of some length. ".repeat(66) }],
  });
  return new TextEncoder().encode(
    `POST /v1/messages HTTP/1.1\r\nhost: gateway\r\nx-api-key: ${token}\r\nanthropic-version: 2023-06-01\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
}

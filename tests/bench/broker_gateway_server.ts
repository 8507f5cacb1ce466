/**
 * The servers of the gateway's benchmark: `vendor` answers like a model's API, `gateway URL` stands in front of it.
 */

import { createServer } from "node:http";
import { Gateway } from "../../broker/gateway/gateway.ts";
import { PriceBook } from "../../broker/gateway/prices.ts";
import { type Helper, report } from "./helper.ts";

/** Where a server listens. */
export interface Listening {
  port: number;
  /** Of the gateway: what opens it. */
  token: string;
}

/** The vendor. */
export const VENDOR_SERVER: Helper<Listening> = { module: new URL(import.meta.url), words: ["vendor"] };
/** The gateway; it gets the vendor's URL. */
export const GATEWAY_SERVER: Helper<Listening> = { module: new URL(import.meta.url), words: ["gateway"] };

// Pieces of a streamed answer, and the time between two.
const STREAM_PIECES = 20;
const PIECE_MS = 2;

const usage = { input_tokens: 1200, output_tokens: 350, cache_read_input_tokens: 9000, cache_creation_input_tokens: 0 };
const message = JSON.stringify({
  id: "msg_01",
  type: "message",
  model: "claude-sonnet-4-5",
  content: [{ type: "text", text: "An answer of some length. ".repeat(40) }],
  usage,
});
const events = [
  { type: "message_start", message: { model: "claude-sonnet-4-5", usage: { ...usage, output_tokens: 1 } } },
  ...Array.from({ length: STREAM_PIECES - 3 }, (_, index) => ({
    type: "content_block_delta",
    index: 0,
    delta: { type: "text_delta", text: `piece ${index} of the answer` },
  })),
  { type: "message_delta", usage: { output_tokens: 350 } },
  { type: "message_stop" },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);

async function vendor(): Promise<Listening> {
  const server = createServer((request, response) => {
    const parts: Uint8Array[] = [];
    request.on("data", (part: Uint8Array) => parts.push(part));
    request.on("end", async () => {
      const streamed = parts.some((part) => new TextDecoder().decode(part).includes('"stream":true'));
      if (!streamed) {
        response.writeHead(200, { "content-type": "application/json", "content-length": String(message.length) });
        response.end(message);
        return;
      }
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const event of events) {
        response.write(event);
        await new Promise((resolve) => setTimeout(resolve, PIECE_MS));
      }
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as { port: number }).port, token: "direct" };
}

function gateway(base_url: string): Listening {
  const running = Gateway.start({
    hostname: "127.0.0.1",
    port: 0,
    upstreams: { vendor_a: { base_url, api_key: "sk-bench-key-0123456789" } },
    prices: new PriceBook({ now: () => Date.now() }),
  });
  const lease = running.lease({
    task_id: "bench",
    lane: "vendor_a",
    auth: "api_key",
    budget_usd: 1e9,
    max_inflight: 0,
    max_request_cost_usd: 0.01,
    max_requests: 1e9,
  });
  return { port: running.address.port, token: lease.token };
}

if (import.meta.main) {
  const [role, url] = Deno.args;
  if (role === "vendor") report(VENDOR_SERVER, await vendor());
  else report(GATEWAY_SERVER, gateway(url ?? ""));
}

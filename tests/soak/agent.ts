/**
 * The built-in agent of a soak run: it makes the streamed requests of its instruction, and then does what the product's
 * agent does.
 */

import type { AgentConfig } from "../../broker/agent/config.ts";
import { runBuiltInAgent } from "../../broker/agent/main.ts";
import { streamsIn, type StreamUse } from "./plan.ts";

/** One streamed request; what comes of it does not matter to the work. */
async function stream({ gateway_url, token, model, instruction }: AgentConfig, use: StreamUse): Promise<void> {
  const leaving = new AbortController();
  try {
    const response = await fetch(`${gateway_url}/v1/chat/completions`, {
      method: "POST",
      headers: { "authorization": `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({
        model,
        stream: true,
        messages: [{ role: "user", content: instruction }],
        ...(use === "unasked" ? {} : { stream_options: { include_usage: true } }),
      }),
      signal: leaving.signal,
    });
    for await (const _chunk of response.body ?? []) if (use === "leave") leaving.abort();
  } catch {
    // Cut off, by either side.
  }
}

Deno.exit(
  await runBuiltInAgent(async (config) => {
    for (const use of streamsIn(config.instruction)) await stream(config, use);
  }),
);

/**
 * The built-in agent of a soak run: it makes the streamed requests of its instruction, and then does what the product's
 * agent does, with the product's own loop.
 */

import { parseConfig } from "../../broker/agent/config.ts";
import { runAgent } from "../../broker/agent/conversation.ts";
import { ModelClient } from "../../broker/agent/model.ts";
import { type AgentProgress, encodeProgress, OUTCOMES } from "../../broker/agent/progress.ts";
import { systemClock } from "../../lib/clock.ts";
import { streamsIn, type StreamUse } from "./plan.ts";

const input = Deno.stdin.readable.pipeThrough(new TextDecoderStream()).getReader();
let line = "";
while (!line.includes("\n")) {
  const { value, done } = await input.read();
  if (done) Deno.exit(OUTCOMES.failed);
  line += value;
}
const config = parseConfig(line.slice(0, line.indexOf("\n")));
(async () => {
  while (!(await input.read()).done);
  Deno.exit(OUTCOMES.failed);
})();

function print(row: AgentProgress): void {
  const bytes = new TextEncoder().encode(encodeProgress(row));
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}

/** One streamed request; what comes of it does not matter to the work. */
async function stream(use: StreamUse): Promise<void> {
  const { gateway_url, token, model, instruction } = config;
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

for (const use of streamsIn(config.instruction)) await stream(use);
const { gateway_url, token, model } = config;
const client = new ModelClient({ gateway_url, token, model, clock: systemClock, fetch, onProgress: print });
Deno.exit(OUTCOMES[await runAgent({ config, model: client, clock: systemClock, onProgress: print })]);

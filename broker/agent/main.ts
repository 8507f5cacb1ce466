/**
 * The built-in agent's process. The broker starts it under Deno's permissions (its work folder, the gateway, nothing
 * else), gives it its configuration on the standard input and reads its progress from the standard output. When the
 * input ends, the broker is gone, and so is the agent.
 */

import { systemClock } from "../../lib/clock.ts";
import { MAX_CONFIG_LENGTH, parseConfig } from "./config.ts";
import { runAgent } from "./conversation.ts";
import { ModelClient } from "./model.ts";
import { type AgentProgress, encodeProgress, OUTCOMES } from "./progress.ts";

type Input = ReadableStreamDefaultReader<string>;

async function readFirstLine(input: Input): Promise<string> {
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await input.read();
    if (done) throw new Error("the standard input ended before the configuration");
    text += value;
    if (text.length > MAX_CONFIG_LENGTH) throw new Error("the configuration is too long");
  }
  return text.slice(0, text.indexOf("\n"));
}

async function untilBrokerEnds(input: Input): Promise<number> {
  while (!(await input.read()).done);
  return OUTCOMES.failed;
}

function print(row: AgentProgress): void {
  const bytes = new TextEncoder().encode(encodeProgress(row));
  for (let done = 0; done < bytes.length;) done += Deno.stdout.writeSync(bytes.subarray(done));
}

export async function runBuiltInAgent(): Promise<number> {
  const input = Deno.stdin.readable.pipeThrough(new TextDecoderStream()).getReader();
  const config = parseConfig(await readFirstLine(input));
  const { gateway_url, token, model } = config;
  const client = new ModelClient({ gateway_url, token, model, clock: systemClock, fetch, onProgress: print });
  const outcome = runAgent({ config, model: client, clock: systemClock, onProgress: print });
  return await Promise.race([outcome.then((name) => OUTCOMES[name]), untilBrokerEnds(input)]);
}

if (import.meta.main) Deno.exit(await runBuiltInAgent());

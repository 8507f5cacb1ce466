/**
 * The process of the built-in agent that speaks with the model. The broker starts it with permission for the gateway and
 * nothing else, no file among it, gives it its configuration on the standard input, reads its progress from the standard
 * output, and has its calls done elsewhere. When the input ends, the broker is gone, and so is the agent.
 */

import { systemClock } from "../../lib/clock.ts";
import { type CallAnswer, encodeCall, inputLines, print, type ToolAnswer, type ToolCall } from "./calls.ts";
import { type AgentConfig, readConfig } from "./config.ts";
import { runAgent } from "./conversation.ts";
import { ModelClient } from "./model.ts";
import { type AgentProgress, encodeProgress, OUTCOMES } from "./progress.ts";

/** @param prepare What is done before the first turn, in the process of the agent. */
export async function runBuiltInAgent(prepare?: (config: AgentConfig) => Promise<void>): Promise<number> {
  const lines = inputLines();
  const config = await readConfig<AgentConfig>(lines);
  let waiting: PromiseWithResolvers<string> | undefined;
  const untilBrokerEnds = async () => {
    for await (const line of lines) waiting?.resolve(line);
    return OUTCOMES.failed;
  };
  const callTool = async (call: ToolCall): Promise<ToolAnswer> => {
    waiting = Promise.withResolvers();
    print(encodeCall(call));
    const answer: CallAnswer = JSON.parse(await waiting.promise);
    if ("failed" in answer) throw new Error(answer.failed);
    return answer;
  };
  const onProgress = (row: AgentProgress) => print(new TextEncoder().encode(encodeProgress(row)));
  const { gateway_url, token, model } = config;
  const client = new ModelClient({ gateway_url, token, model, clock: systemClock, fetch, onProgress });
  await prepare?.(config);
  const outcome = runAgent({ config, model: client, callTool, onProgress });
  return await Promise.race([outcome.then((name) => OUTCOMES[name]), untilBrokerEnds()]);
}

if (import.meta.main) Deno.exit(await runBuiltInAgent());

/**
 * The built-in agent's loop: ask the model, run its calls, return their results, until it finishes or a bound is
 * reached. The conversation is bounded too: the oldest answers of tools are left out first.
 */

import { MAX_ARGUMENTS_LENGTH, type ToolAnswer, type ToolCall } from "./calls.ts";
import { assistantMessage, type ChatMessage, type Completion } from "./chat.ts";
import type { AgentConfig } from "./config.ts";
import { type ModelClient, ModelFailure } from "./model.ts";
import type { AgentOutcome, AgentProgress } from "./progress.ts";

/** Sent to a model that answers without calling a tool. */
const NUDGE =
  "You called no tool. Go on with the tools, or call finish with a summary if the work is done or cannot be done.";
/** UTF-16 units of conversation that are sent, about 100,000 tokens. */
const MAX_CONVERSATION = 400 << 10;
const LEFT_OUT = "[left out to save space; call the tool again if you need it]";
/** Answers without a call after which the last one is taken as the end. */
const MAX_SILENT = 2;
/** Times the same calls in a row are done; the next ones are only answered. */
const MAX_REPEATS = 3;

export interface AgentRun {
  config: AgentConfig;
  model: ModelClient;
  /** Does a call of the model; what it throws ends the run. */
  callTool(call: ToolCall): Promise<ToolAnswer>;
  onProgress(row: AgentProgress): void;
}

/** Runs the agent to its end and reports the result as the last row. */
export async function runAgent(run: AgentRun): Promise<AgentOutcome> {
  const { config, model, onProgress } = run;
  const conversation = new Conversation(run);
  let end: { outcome: AgentOutcome; summary: string } | undefined;
  try {
    while (end === undefined && conversation.turn < config.max_turns) end = await conversation.next();
    end ??= { outcome: "turn_limit", summary: `The agent did not finish within ${config.max_turns} turns` };
  } catch (error) {
    const outcome = error instanceof ModelFailure ? error.outcome : "failed";
    end = { outcome, summary: error instanceof Error ? error.message : "unknown error" };
  }
  onProgress({ type: "result", ...end, turns: conversation.turn, requests: model.requests });
  return end.outcome;
}

class Conversation {
  readonly #run: AgentRun;
  readonly #messages: ChatMessage[];
  #silent = 0;
  #last_calls = "";
  #repeats = 0;
  turn = 0;

  constructor(run: AgentRun) {
    this.#run = run;
    const { system_prompt, instruction } = run.config;
    this.#messages = [
      { role: "system", content: system_prompt },
      { role: "user", content: `The task:\n\n${instruction}` },
    ];
  }

  async next(): Promise<{ outcome: AgentOutcome; summary: string } | undefined> {
    const { config, model, onProgress } = this.#run;
    this.turn++;
    onProgress({ type: "turn", turn: this.turn });
    const completion = await model.complete(this.#messages, config.tools);
    this.#messages.push(assistantMessage(completion, MAX_ARGUMENTS_LENGTH));
    if (completion.text !== "") onProgress({ type: "said", turn: this.turn, text: completion.text });
    if (completion.calls.length === 0) return this.#answerSilence(completion);
    this.#silent = 0;
    const summary = await this.#doCalls(completion);
    if (summary !== undefined) return { outcome: "finished", summary };
    this.#shorten();
  }

  #answerSilence({ text, cut }: Completion): { outcome: AgentOutcome; summary: string } | undefined {
    if (++this.#silent >= MAX_SILENT && !cut) return { outcome: "finished", summary: text || "The model said nothing" };
    this.#messages.push({ role: "user", content: NUDGE });
  }

  async #doCalls({ calls, dropped_calls }: Completion): Promise<string | undefined> {
    const same = JSON.stringify(calls.map((call) => [call.name, call.arguments]));
    this.#repeats = same === this.#last_calls ? this.#repeats + 1 : 0;
    this.#last_calls = same;
    let finished: string | undefined;
    for (const call of calls) {
      const answer = this.#repeats >= MAX_REPEATS && call.name !== "finish"
        ? {
          ok: false,
          text: "Error: you did exactly this before; do something else, or finish",
          summary: "repeated call",
        }
        : await this.#run.callTool(call);
      this.#messages.push({ role: "tool", tool_call_id: call.id, content: answer.text });
      const { ok, summary } = answer;
      this.#run.onProgress({ type: "tool", turn: this.turn, tool: call.name.slice(0, 64), ok, summary });
      if ("finished" in answer && answer.finished) finished ??= summary;
    }
    if (dropped_calls > 0) {
      this.#messages.push({
        role: "user",
        content: `${dropped_calls} more calls of that answer were not done; make fewer.`,
      });
    }
    return finished;
  }

  /** Leaves out the oldest answers of tools, and the contents of old writes, until the conversation fits. */
  #shorten(): void {
    let length = this.#messages.reduce((sum, message) => sum + lengthOf(message), 0);
    for (const [index, message] of this.#messages.entries()) {
      if (length <= MAX_CONVERSATION) return;
      const shorter = shortened(message);
      length -= lengthOf(message) - lengthOf(shorter);
      this.#messages[index] = shorter;
    }
    if (length > MAX_CONVERSATION) throw new ModelFailure("failed", "The conversation has grown too long");
  }
}

function shortened(message: ChatMessage): ChatMessage {
  if (message.role === "tool") {
    return message.content.length <= LEFT_OUT.length ? message : { ...message, content: LEFT_OUT };
  }
  if (message.role !== "assistant" || message.tool_calls === undefined) return message;
  return {
    ...message,
    tool_calls: message.tool_calls.map((call) =>
      call.function.arguments.length <= 1_000
        ? call
        : { ...call, function: { ...call.function, arguments: JSON.stringify({ note: LEFT_OUT }) } }
    ),
  };
}

function lengthOf(message: ChatMessage): number {
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  return calls.reduce((sum, call) => sum + call.function.arguments.length + 100, (message.content?.length ?? 0) + 50);
}

/**
 * A model that follows a script: an OpenAI-compatible endpoint on this machine, so that an agent can be shown
 * at work without a network, a key or a bill. It keeps what it was asked, to be compared with what the broker reports.
 */

import { ServerSentEventStream } from "@std/http/server-sent-event-stream";
import type { JsonValue } from "../../lib/sqlite/diff_result.ts";

export interface ScriptedTurn {
  says?: string;
  calls?: readonly { tool: string; args: Readonly<Record<string, JsonValue>> }[];
}

export interface Script {
  instruction: string;
  turns: readonly ScriptedTurn[];
}

interface AskedModel {
  body: string;
  usage: { prompt_tokens: number; completion_tokens: number };
}

interface ChatRequest {
  messages: { role: string }[];
  tools?: unknown[];
  stream?: boolean;
}

/** About so many characters are a token. */
const CHARS_PER_TOKEN = 4;

export class ScriptedModel implements AsyncDisposable {
  readonly asked: AskedModel[] = [];
  readonly #scripts: readonly Script[];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  /** Listens on a free port of this machine. */
  constructor(scripts: readonly Script[]) {
    this.#scripts = scripts;
    const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    this.#server = Deno.serve(options, (request) => this.#answer(request));
  }

  /** Its address, without a path. */
  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** What the requests of a task cost at `prices`, USD per million tokens. */
  cost(prices: { input: number; output: number }, instruction: string): number {
    return this.asked.filter(({ body }) => body.includes(instruction)).reduce((sum, { usage }) => {
      return sum + (usage.prompt_tokens * prices.input + usage.completion_tokens * prices.output) / 1e6;
    }, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  async #answer(request: Request): Promise<Response> {
    if (request.method !== "POST") return Response.json({ object: "list", data: [] });
    const body = await request.text();
    const asked = JSON.parse(body) as ChatRequest;
    const message = this.#message(asked, body);
    const usage = {
      prompt_tokens: Math.ceil(body.length / CHARS_PER_TOKEN),
      completion_tokens: Math.ceil(JSON.stringify(message).length / CHARS_PER_TOKEN),
    };
    this.asked.push({ body, usage });
    const finish_reason = message.tool_calls.length === 0 ? "stop" : "tool_calls";
    return asked.stream === true ? streamed(message, finish_reason, usage) : Response.json({
      id: "scripted",
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
      usage,
    });
  }

  #message({ messages, tools = [] }: ChatRequest, body: string) {
    const script = this.#scripts.find(({ instruction }) => body.includes(JSON.stringify(instruction).slice(1, -1)));
    const turn = messages.filter(({ role }) => role === "assistant").length;
    // Some clients also ask for a title of the conversation, without tools.
    const { says, calls = [] } = (tools.length === 0 ? undefined : script?.turns[turn]) ?? { says: "Done." };
    return {
      content: says ?? null,
      tool_calls: calls.map(({ tool, args }, index) => ({
        id: `call_${turn}_${index}`,
        type: "function",
        function: { name: tool, arguments: JSON.stringify(args) },
      })),
    };
  }
}

function streamed(
  { content, tool_calls }: { content: string | null; tool_calls: object[] },
  finish_reason: string,
  usage: AskedModel["usage"],
): Response {
  const delta = { role: "assistant", content, tool_calls: tool_calls.map((call, index) => ({ index, ...call })) };
  const chunks = [
    { choices: [{ index: 0, delta, finish_reason: null }] },
    { choices: [{ index: 0, delta: {}, finish_reason }] },
    { choices: [], usage },
  ];
  const messages = [
    ...chunks.map((chunk) => JSON.stringify({ id: "scripted", object: "chat.completion.chunk", ...chunk })),
    "[DONE]",
  ];
  const body = ReadableStream.from(messages.map((data) => ({ data }))).pipeThrough(new ServerSentEventStream());
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
}

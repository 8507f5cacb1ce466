/**
 * A chat/completions endpoint that answers from a script and keeps what it was asked.
 */

/** One recorded request. */
export interface Asked {
  path: string;
  authorization: string | null;
  body: {
    model: string;
    messages: { role: string; content: string | null; tool_call_id?: string }[];
    tools: unknown[];
  };
}

/** An answer: calls, text, or a response as it is. */
export type Scripted =
  | { calls: [name: string, args: unknown][]; cost?: number }
  | { text: string; cost?: number }
  | Response
  | "hang";

/** A running endpoint. */
export class ModelServer implements AsyncDisposable {
  readonly asked: Asked[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #waiting = Promise.withResolvers<void>();
  readonly #close = Promise.withResolvers<void>();

  /** Answers with `script` in order, and with its last element again and again. */
  constructor(script: (Scripted | ((asked: Asked) => Scripted | Promise<Scripted>))[]) {
    this.#server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      const asked: Asked = {
        path: new URL(request.url).pathname,
        authorization: request.headers.get("authorization"),
        body: await request.json(),
      };
      const step = script[Math.min(this.asked.length, script.length - 1)]!;
      this.asked.push(asked);
      const scripted = typeof step === "function" ? await step(asked) : step;
      if (scripted === "hang") {
        this.#waiting.resolve();
        await this.#close.promise;
        return new Response(null, { status: 503 });
      }
      return scripted instanceof Response ? scripted.clone() : completion(scripted, this.asked.length);
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Resolves when a request hangs. */
  get hanging(): Promise<void> {
    return this.#waiting.promise;
  }

  /** What the tools answered, in order, as the model's last request had it. */
  answers(): string[] {
    return this.asked.at(-1)!.body.messages.filter(({ role }) => role === "tool").map(({ content }) => content!);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#close.resolve();
    await this.#server.shutdown();
  }
}

/** The shape of a recorded answer. */
function completion(scripted: Exclude<Scripted, Response | string>, turn: number): Response {
  const cost = scripted.cost === undefined ? {} : { cost: scripted.cost };
  const calls = "calls" in scripted ? scripted.calls : [];
  return Response.json({
    id: `chatcmpl-${turn}`,
    object: "chat.completion",
    created: 1_760_000_000,
    model: "test-model",
    choices: [{
      index: 0,
      message: {
        role: "assistant",
        content: "text" in scripted ? scripted.text : null,
        ...(calls.length === 0 ? {} : {
          tool_calls: calls.map(([name, args], index) => ({
            id: `call_${turn}_${index}`,
            type: "function",
            function: { name, arguments: typeof args === "string" ? args : JSON.stringify(args) },
          })),
        }),
        refusal: null,
      },
      logprobs: null,
      finish_reason: calls.length === 0 ? "stop" : "tool_calls",
    }],
    usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120, ...cost },
  });
}

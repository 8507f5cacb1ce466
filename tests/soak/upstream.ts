/**
 * A model's endpoint that keeps a bill of its own. It answers from the plan of the task that asks, and now and then slowly,
 * with an error, with half an answer or not at all; what it began to generate it bills, as vendors do.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { systemClock } from "../../lib/clock.ts";
import type { SeededRandom } from "../support/writers/random.ts";
import { planOf, tagIn } from "./plan.ts";

/** USD for a token, in either direction. */
export const TOKEN_USD = 100 / 1e6;
/** The most tokens of a request, both directions together. */
export const MAX_REQUEST_TOKENS = 700;

/** The most that an answer which broke off is charged beside what it reported: a third of a token for each byte. */
export const MAX_ESTIMATED_USD = 16_384 / 3 * TOKEN_USD;

/** What happens to a request, with how often. */
const FATES = {
  whole: 70,
  slow: 8,
  status_429: 4,
  status_500: 4,
  never_answered: 3,
  cut_before_usage: 4,
  cut_inside_usage: 3,
  cut_after_usage: 4,
} as const;

/** One of them. */
export type Fate = keyof typeof FATES;

/** What may happen to requests, with how often. */
export type Fates = Readonly<Partial<Record<Fate, number>>>;

/** One request on the bill. */
export interface Billed {
  tag: string;
  fate: Fate;
  /** What the vendor charges. */
  usd: number;
  /** What of it the answer has reported, whole and readable. */
  reported_usd: number;
  /** Whether a meter of the answer cannot know that it has everything. */
  unmetered: boolean;
}

interface ChatBody {
  stream?: boolean;
  stream_options?: { include_usage?: boolean };
  messages: { role: string; content: unknown }[];
}

/** The endpoint. */
export class Upstream implements AsyncDisposable {
  /** Every request, in the order of its arrival. */
  readonly bill: Billed[] = [];
  readonly #server: Server;
  readonly #random: SeededRandom;
  readonly #fates: Fates;

  private constructor(random: SeededRandom, fates: Fates) {
    this.#random = random;
    this.#fates = fates;
    this.#server = createServer((request, response) => {
      // The client is gone, and the bill is due.
      this.#answer(request, response).catch(() => response.destroy());
    });
    // No connection ends by itself: a request that was sent has arrived.
    this.#server.keepAliveTimeout = 3_600_000;
    this.#server.requestTimeout = 0;
    this.#server.headersTimeout = 0;
  }

  /** Listens on any port of loopback. */
  static async start(random: SeededRandom, fates: Fates = FATES): Promise<Upstream> {
    const upstream = new Upstream(random, fates);
    await new Promise<void>((resolve) => upstream.#server.listen(0, "127.0.0.1", resolve));
    return upstream;
  }

  /** Its address. */
  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += new TextDecoder().decode(chunk);
    const body = JSON.parse(text) as ChatBody;
    const tag = tagIn(text);
    if (tag === undefined) throw new Error("a request without a tag");
    const fate = this.#fate();
    const prompt_tokens = this.#random.between(50, 500);
    const completion_tokens = this.#random.between(10, 200);
    const usd = (prompt_tokens + completion_tokens) * TOKEN_USD;
    const streams = body.stream === true;
    const says_usage = !streams || body.stream_options?.include_usage === true;
    const refused = fate === "status_429" || fate === "status_500";
    const whole = fate === "whole" || fate === "slow";
    // A stream's usage is an event of its own, which counts although what follows is lost.
    const reported = says_usage && (whole || (streams && fate === "cut_after_usage"));
    this.bill.push({
      tag,
      fate,
      usd: refused ? 0 : usd,
      reported_usd: reported && !refused ? usd : 0,
      unmetered: !refused && !(whole && says_usage),
    });
    if (fate === "slow") await systemClock.sleep(this.#random.between(200, 1_500));
    if (fate === "never_answered") return void response.destroy();
    if (refused) {
      const status = fate === "status_429" ? 429 : 500;
      response.writeHead(status, { "content-type": "application/json", "retry-after": "0.1" });
      return void response.end(JSON.stringify({ error: { message: `${fate}, as planned` } }));
    }
    const usage = { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
    const parts = streams ? streamed(tag, says_usage ? usage : undefined) : plain(tag, body, usage);
    response.writeHead(200, { "content-type": streams ? "text/event-stream" : "application/json" });
    const [content, tokens, end] = parts;
    if (fate === "cut_before_usage") return await cut(response, content);
    if (fate === "cut_inside_usage") return await cut(response, content + tokens.slice(0, tokens.length / 2));
    if (fate === "cut_after_usage") return await cut(response, content + tokens);
    // In pieces, so that the end of one request and the start of the next come close together.
    await write(response, content);
    await write(response, tokens);
    response.end(end);
  }

  #fate(): Fate {
    const entries = Object.entries(this.#fates) as [Fate, number][];
    let at = this.#random.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [fate, weight] of entries) if ((at -= weight) < 0) return fate;
    return "whole";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }
}

function write(response: ServerResponse, text: string): Promise<void> {
  if (text === "") return Promise.resolve();
  return new Promise((resolve, reject) => response.write(text, (error) => error ? reject(error) : resolve()));
}

async function cut(response: ServerResponse, text: string): Promise<void> {
  await write(response, text);
  response.destroy();
}

/** An answer before, in and after its usage. */
type Parts = [content: string, tokens: string, end: string];

/** The next step of the plan: a file, or the end. */
function plain(tag: string, { messages }: ChatBody, usage: object): Parts {
  const done = messages.filter(({ role }) => role === "tool").length;
  const file = [...planOf(tag).files][done];
  const [name, args] = file === undefined
    ? ["finish", { summary: `${tag} is done` }]
    : ["write", { path: file[0], content: file[1] }];
  const call = { id: `call_${done}`, type: "function", function: { name, arguments: JSON.stringify(args) } };
  const answer = {
    id: "chatcmpl-1",
    object: "chat.completion",
    model: "test-model",
    choices: [{
      index: 0,
      message: { role: "assistant", content: null, tool_calls: [call] },
      finish_reason: "tool_calls",
    }],
  };
  return [`${JSON.stringify(answer).slice(0, -1)},`, `"usage": ${JSON.stringify(usage)}`, "}"];
}

function streamed(tag: string, usage: object | undefined): Parts {
  const chunk = (fields: object) =>
    `data: ${
      JSON.stringify({ id: "chatcmpl-1", object: "chat.completion.chunk", model: "test-model", ...fields })
    }\n\n`;
  const words = tag.split("-").map((content) => chunk({ choices: [{ index: 0, delta: { content } }] })).join("");
  return [words, usage === undefined ? "" : chunk({ choices: [], usage }), "data: [DONE]\n\n"];
}

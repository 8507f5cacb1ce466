/**
 * A server that speaks like the vendors' APIs: answers in the shapes that they document,
 * with all the variants of usage, cut wherever a test wants. It remembers what reached
 * it.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Buffer } from "node:buffer";

/** The operator's key in tests: nothing a client ever sees may contain it. */
export const REAL_KEY = "sk-real-4f1d9c0b7a6e5d3c2b1a";

/** One request as it arrived. */
export interface Seen {
  method: string;
  url: string;
  headers: Record<string, string>;
  body: string;
}

/** What the server does with a request. */
export type Answer = (response: ServerResponse, request: IncomingMessage, seen: Seen) => void | Promise<void>;

/** A running server. */
export interface VendorServer extends AsyncDisposable {
  url: string;
  seen: Seen[];
  /** How the next requests are answered. */
  answer: Answer;
  /** Resolves once `count` requests have arrived. */
  arrived(count: number): Promise<void>;
}

/** Starts one. */
export async function vendorServer(answer: Answer): Promise<VendorServer> {
  const seen: Seen[] = [];
  const waiting: { count: number; resolve: () => void }[] = [];
  const server = createServer((request, response) => {
    const parts: Uint8Array[] = [];
    response.on("error", () => {});
    request.on("error", () => {});
    request.on("data", (part: Uint8Array) => parts.push(part));
    request.on("end", () => {
      const entry: Seen = {
        method: request.method ?? "",
        url: request.url ?? "",
        headers: Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
        body: Buffer.concat(parts).toString(),
      };
      seen.push(entry);
      for (const { count, resolve } of waiting) if (seen.length >= count) resolve();
      void vendor.answer(response, request, entry);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address() as { port: number };
  const vendor: VendorServer = {
    url: `http://127.0.0.1:${address.port}`,
    seen,
    answer,
    arrived: (count) =>
      seen.length >= count ? Promise.resolve() : new Promise((resolve) => waiting.push({ count, resolve })),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return vendor;
}

/** Answers with JSON. */
export function json(value: unknown, status = 200): Answer {
  return (response) => {
    const body = typeof value === "string" ? value : JSON.stringify(value);
    response.writeHead(status, { "content-type": "application/json", "content-length": Buffer.byteLength(body) });
    response.end(body);
  };
}

/** Answers with a body that is written in the given pieces, each flushed on its own. */
export function pieces(type: string, parts: readonly (string | Uint8Array)[]): Answer {
  return async (response) => {
    response.writeHead(200, { "content-type": type });
    for (const part of parts) {
      await new Promise<void>((resolve) => response.write(part, () => resolve()));
    }
    response.end();
  };
}

/** A gate in the middle of an answer. */
export interface Gate {
  answer: Answer;
  /** Writes more. */
  write(text: string): void;
  /** Ends the answer. */
  end(): void;
  /** Breaks the connection off. */
  destroy(): void;
}

/** Answers with a head and `first`, and goes on when the test says so. */
export function gated(type: string, first: string): Gate {
  let open: ServerResponse | undefined;
  return {
    answer: (response) => {
      open = response;
      response.writeHead(200, { "content-type": type });
      response.write(first);
    },
    write: (text) => void open?.write(text),
    end: () => void open?.end(),
    destroy: () => void open?.destroy(),
  };
}

/** Events as a stream's text. */
export function sse(events: readonly (object | string)[], end = "\n"): string {
  return events.map((event) => {
    const data = typeof event === "string" ? event : JSON.stringify(event);
    const type = typeof event === "string" ? undefined : (event as { type?: string }).type;
    return `${type === undefined ? "" : `event: ${type}${end}`}data: ${data}${end}${end}`;
  }).join("");
}

/** Anthropic's answers. */
export const ANTHROPIC = {
  message: {
    id: "msg_01",
    type: "message",
    role: "assistant",
    model: "claude-sonnet-4-5-20250929",
    content: [{ type: "text", text: 'It said "usage": {"output_tokens": 999999} and left.' }],
    stop_reason: "end_turn",
    usage: {
      input_tokens: 100,
      cache_creation_input_tokens: 3000,
      cache_read_input_tokens: 10_000,
      cache_creation: { ephemeral_5m_input_tokens: 1000, ephemeral_1h_input_tokens: 2000 },
      output_tokens: 500,
      service_tier: "standard",
    },
  },
  /** 100 input at $3, 10,000 read at $0.30, 1,000 and 2,000 written at $3.75 and $6, 500 output at $15. */
  message_usd: (100 * 3 + 10_000 * 0.3 + 1000 * 3.75 + 2000 * 6 + 500 * 15) / 1e6,
  stream: [
    {
      type: "message_start",
      message: {
        id: "msg_02",
        type: "message",
        role: "assistant",
        model: "claude-sonnet-4-5-20250929",
        content: [],
        usage: {
          input_tokens: 100,
          cache_creation_input_tokens: 3000,
          cache_read_input_tokens: 10_000,
          cache_creation: { ephemeral_5m_input_tokens: 1000, ephemeral_1h_input_tokens: 2000 },
          output_tokens: 1,
        },
      },
    },
    { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    { type: "ping" },
    {
      type: "content_block_delta",
      index: 0,
      delta: { type: "text_delta", text: 'é "usage": {"output_tokens": 7} 💶' },
    },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: {}, usage: { output_tokens: 250 } },
    {
      type: "message_delta",
      delta: { stop_reason: "end_turn" },
      usage: { input_tokens: null, cache_read_input_tokens: 10_000, output_tokens: 500 },
    },
    { type: "message_stop" },
  ],
};

/** OpenAI's answers. */
export const OPENAI = {
  chat: {
    id: "chatcmpl-1",
    object: "chat.completion",
    model: "gpt-5.1-2025-11-13",
    choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 200,
      total_tokens: 1200,
      prompt_tokens_details: { cached_tokens: 600, audio_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 150 },
    },
    service_tier: "default",
  },
  /** 400 at $1.25, 600 cached at $0.125, 200 at $10. */
  chat_usd: (400 * 1.25 + 600 * 0.125 + 200 * 10) / 1e6,
  chunk: (text: string) => ({
    id: "chatcmpl-2",
    object: "chat.completion.chunk",
    model: "gpt-5.1-2025-11-13",
    choices: [{ index: 0, delta: { content: text } }],
    usage: null,
  }),
  last_chunk: {
    id: "chatcmpl-2",
    object: "chat.completion.chunk",
    model: "gpt-5.1-2025-11-13",
    choices: [],
    usage: {
      prompt_tokens: 1000,
      completion_tokens: 200,
      prompt_tokens_details: { cached_tokens: 600 },
    },
  },
  response: (type: string) => ({
    type,
    response: {
      id: "resp_1",
      object: "response",
      model: "gpt-5.1-2025-11-13",
      output: [],
      usage: {
        input_tokens: 1000,
        input_tokens_details: { cached_tokens: 600 },
        output_tokens: 200,
        output_tokens_details: { reasoning_tokens: 150 },
        total_tokens: 1200,
      },
    },
  }),
};

/** Gemini's answers. */
export const GEMINI = {
  chunks: [
    {
      candidates: [{ content: { parts: [{ text: '{"usageMetadata": {"promptTokenCount": 5}}' }], role: "model" } }],
      usageMetadata: { promptTokenCount: 1000, cachedContentTokenCount: 400, totalTokenCount: 1000 },
      modelVersion: "gemini-2.5-flash",
    },
    {
      candidates: [{ content: { parts: [{ text: 'x]}[{\\"' }], role: "model" } }],
      usageMetadata: {
        promptTokenCount: 1000,
        cachedContentTokenCount: 400,
        candidatesTokenCount: 50,
        thoughtsTokenCount: 300,
        totalTokenCount: 1350,
      },
      modelVersion: "gemini-2.5-flash",
    },
    {
      candidates: [{ finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 1000, candidatesTokenCount: 80, thoughtsTokenCount: 300 },
      modelVersion: "gemini-2.5-flash",
    },
  ],
  /** 600 at $0.30, 400 cached at $0.03, 380 at $2.50. */
  usd: (600 * 0.3 + 400 * 0.03 + 380 * 2.5) / 1e6,
};

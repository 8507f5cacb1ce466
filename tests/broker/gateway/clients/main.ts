/**
 * Uses one of the vendors' own clients once: `main.ts CALL URL TOKEN` prints what it understood, or how it failed, as
 * JSON. A program of its own, with dependencies of its own: what runs taskd fetches none of them.
 */

import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

const [call = "", url = "", token = ""] = Deno.args;
const anthropic = new Anthropic({ baseURL: url, apiKey: token, maxRetries: 0, logLevel: "off" });
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
const gemini = new GoogleGenAI({ apiKey: token, httpOptions: { baseUrl: url } });

const parameters = { type: "object" as const, properties: { path: { type: "string" } }, required: ["path"] };
const MESSAGE = {
  model: "claude-sonnet-4-5",
  max_tokens: 1_000,
  system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral" } }],
  messages: [{ role: "user", content: "hello" }],
  tools: [{ name: "read", description: "Reads a file", input_schema: parameters }],
  tool_choice: { type: "auto" },
  stop_sequences: ["END"],
} satisfies Anthropic.MessageCreateParamsNonStreaming;
const CHAT = {
  model: "gpt-5.1",
  max_completion_tokens: 1_000,
  messages: [{ role: "system", content: "Be brief" }, { role: "user", content: "hello" }],
  tools: [{ type: "function", function: { name: "read", parameters } }],
} satisfies OpenAI.ChatCompletionCreateParamsNonStreaming;
const RESPONSE = { model: "gpt-5.1", input: "hello", store: false };
const CONTENT = {
  model: "gemini-2.5-flash",
  contents: "hello",
  config: {
    systemInstruction: "Be brief",
    maxOutputTokens: 1_000,
    tools: [{ functionDeclarations: [{ name: "read", parametersJsonSchema: parameters }] }],
  },
};

const CALLS: Readonly<Record<string, () => Promise<unknown>>> = {
  message: async () => (await anthropic.messages.create(MESSAGE)).content,
  "message as before": async () => {
    const headers = { "anthropic-version": "2023-06-01" };
    return (await anthropic.messages.create({ ...MESSAGE, temperature: 0.5 } as typeof MESSAGE, { headers })).content;
  },
  "message stream": () => anthropic.messages.stream(MESSAGE).finalText(),
  "message with a vendor's tool": () =>
    anthropic.messages.create({ ...MESSAGE, tools: [{ type: "web_search_20250305", name: "web_search" }] }),
  chat: async () => (await openai.chat.completions.create(CHAT)).choices[0]?.message.content,
  "chat stream": async () => {
    const stream = await openai.chat.completions.create({
      ...CHAT,
      stream: true,
      stream_options: { include_usage: true },
    });
    return (await Array.fromAsync(stream)).map(({ choices }) => choices[0]?.delta.content ?? "").join("");
  },
  "response stream": async () => {
    const tools = [{ type: "function" as const, name: "read", parameters, strict: true }];
    const stream = await openai.responses.create({ ...RESPONSE, stream: true, tools });
    return (await Array.fromAsync(stream)).map(({ type }) => type);
  },
  "response with a vendor's tool": () => openai.responses.create({ ...RESPONSE, tools: [{ type: "web_search" }] }),
  content: async () => (await gemini.models.generateContent(CONTENT)).text,
  "content stream": async () => {
    const stream = await gemini.models.generateContentStream(CONTENT);
    return (await Array.fromAsync(stream)).map(({ text }) => text ?? "").join("");
  },
  "content with a vendor's tool": () =>
    gemini.models.generateContent({ ...CONTENT, config: { tools: [{ googleSearch: {} }] } }),
};

const answer = await CALLS[call]!().then((understood) => ({ understood }), (error) => ({ failed: error.message }));
console.log(JSON.stringify(answer));

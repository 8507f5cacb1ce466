/**
 * The vendors' own clients through the gateway: each works as it does without one, with tools and streams, has the task's
 * token for a key, and what it used is charged.
 */

import { assertAlmostEquals, assertEquals, assertRejects } from "@std/assert";
import type { Lane } from "../../../broker/agents.ts";
import { type Harness, harness } from "./harness.ts";
import { type Answer, ANTHROPIC, GEMINI, json, OPENAI, pieces, REAL_KEY, sse } from "./vendor_server.ts";

/** Their types stay away: they bring those of browsers into the check of everything. */
async function client(name: string) {
  return await import(name);
}

const { default: Anthropic } = await client("@anthropic-ai/sdk");
const { default: OpenAI } = await client("openai");
const { GoogleGenAI } = await client("@google/genai");

const EVENTS = "text/event-stream";
// deno-lint-ignore no-explicit-any -- as untyped as the clients
const itemsOf = async (stream: AsyncIterable<any>) => await Array.fromAsync(stream);
const parameters = { type: "object" as const, properties: { path: { type: "string" } }, required: ["path"] };

/** What a client is given, and what it has to get. */
interface Case {
  name: string;
  lane: Lane;
  answer: Answer;
  usd: number;
  /** Uses the client, and returns what it understood. */
  use(url: string, token: string): Promise<unknown>;
  expected: unknown;
}

const anthropic = (url: string, token: string) => new Anthropic({ baseURL: url, apiKey: token, maxRetries: 0 });
const openai = (url: string, token: string) => new OpenAI({ baseURL: `${url}/v1`, apiKey: token, maxRetries: 0 });
const gemini = (url: string, token: string) => new GoogleGenAI({ apiKey: token, httpOptions: { baseUrl: url } });

const MESSAGE = {
  model: "claude-sonnet-4-5",
  max_tokens: 1_000,
  system: [{ type: "text", text: "Be brief", cache_control: { type: "ephemeral" } }],
  messages: [{ role: "user", content: "hello" }],
  tools: [{ name: "read", description: "Reads a file", input_schema: parameters }],
  tool_choice: { type: "auto" },
  stop_sequences: ["END"],
};
const CHAT = {
  model: "gpt-5.1",
  max_completion_tokens: 1_000,
  messages: [{ role: "system", content: "Be brief" }, { role: "user", content: "hello" }],
  tools: [{ type: "function", function: { name: "read", parameters } }],
};
const CONTENT = {
  model: "gemini-2.5-flash",
  contents: "hello",
  config: {
    systemInstruction: "Be brief",
    maxOutputTokens: 1_000,
    tools: [{ functionDeclarations: [{ name: "read", parametersJsonSchema: parameters }] }],
  },
};

const CASES: readonly Case[] = [
  {
    name: "Anthropic's, whole",
    lane: "vendor_a",
    answer: json(ANTHROPIC.message),
    usd: ANTHROPIC.message_usd,
    use: async (url, token) => (await anthropic(url, token).messages.create(MESSAGE)).content,
    expected: ANTHROPIC.message.content,
  },
  {
    name: "Anthropic's, as a stream",
    lane: "vendor_a",
    answer: pieces(EVENTS, [sse(ANTHROPIC.stream)]),
    usd: ANTHROPIC.message_usd,
    use: (url, token) => anthropic(url, token).messages.stream(MESSAGE).finalText(),
    expected: 'é "usage": {"output_tokens": 7} 💶',
  },
  {
    name: "OpenAI's chats, whole",
    lane: "vendor_b",
    answer: json(OPENAI.chat),
    usd: OPENAI.chat_usd,
    use: async (url, token) => (await openai(url, token).chat.completions.create(CHAT)).choices[0]?.message.content,
    expected: "hello",
  },
  {
    name: "OpenAI's chats, as a stream",
    lane: "vendor_b",
    answer: pieces(EVENTS, [sse([OPENAI.chunk("hel"), OPENAI.chunk("lo"), OPENAI.last_chunk, "[DONE]"])]),
    usd: OPENAI.chat_usd,
    use: async (url, token) => {
      const stream = await openai(url, token).chat.completions.create({
        ...CHAT,
        stream: true,
        stream_options: { include_usage: true },
      });
      return (await itemsOf(stream)).map(({ choices }) => choices[0]?.delta.content ?? "").join("");
    },
    expected: "hello",
  },
  {
    name: "OpenAI's responses, as a stream",
    lane: "vendor_b",
    answer: pieces(EVENTS, [sse([OPENAI.response("response.created"), OPENAI.response("response.completed")])]),
    usd: OPENAI.chat_usd,
    use: async (url, token) => {
      const stream = await openai(url, token).responses.create({
        model: "gpt-5.1",
        input: "hello",
        store: false,
        stream: true,
        tools: [{ type: "function", name: "read", parameters, strict: true }],
      });
      return (await itemsOf(stream)).map(({ type }) => type);
    },
    expected: ["response.created", "response.completed"],
  },
  {
    name: "Google's, as a stream",
    lane: "vendor_c",
    answer: pieces(EVENTS, [sse(GEMINI.chunks)]),
    usd: GEMINI.usd,
    use: async (url, token) => {
      const stream = await gemini(url, token).models.generateContentStream(CONTENT);
      return (await itemsOf(stream)).map(({ text }) => text ?? "").join("");
    },
    expected: '{"usageMetadata": {"promptTokenCount": 5}}x]}[{\\"',
  },
  {
    name: "Google's, whole",
    lane: "vendor_c",
    answer: json(GEMINI.chunks[1]),
    usd: (600 * 0.3 + 400 * 0.03 + 350 * 2.5) / 1e6,
    use: async (url, token) => (await gemini(url, token).models.generateContent(CONTENT)).text,
    expected: 'x]}[{\\"',
  },
];

for (const { name, lane, answer, usd, use, expected } of CASES) {
  Deno.test(`an official client works through the gateway: ${name}`, async () => {
    await using gate = await harness(answer);
    const lease = gate.lease(lane);
    assertEquals(await use(gate.url, lease.token), expected);
    const [settlement] = await gate.settlements(1);
    assertEquals([settlement?.ending, settlement?.unmetered, gate.settled.length], ["complete", false, 1]);
    assertAlmostEquals(settlement!.usd, usd, 1e-12);
    const sent = JSON.stringify(gate.vendor.seen);
    assertEquals([sent.includes(lease.token), sent.includes(REAL_KEY)], [false, true]);
  });
}

/** What each client throws of a refusal that it gets from the gateway. */
const REFUSED: readonly [string, Lane, (gate: Harness, token: string) => Promise<unknown>, string][] = [
  ["Anthropic's", "vendor_a", ({ url }, token) =>
    anthropic(url, token).messages.create({
      ...MESSAGE,
      tools: [{ type: "web_search_20250305", name: "web_search" }],
    }), "web_search"],
  [
    "OpenAI's",
    "vendor_b",
    ({ url }, token) =>
      openai(url, token).responses.create({ model: "gpt-5.1", input: "hello", tools: [{ type: "web_search" }] }),
    "web_search",
  ],
  [
    "Google's",
    "vendor_c",
    ({ url }, token) =>
      gemini(url, token).models.generateContent({ ...CONTENT, config: { tools: [{ googleSearch: {} }] } }),
    "googleSearch",
  ],
];

for (const [name, lane, use, names] of REFUSED) {
  Deno.test(`an official client says what the gateway refuses: ${name}`, async () => {
    await using gate = await harness(json({}));
    const error = await assertRejects(() => use(gate, gate.lease(lane).token), Error, names);
    assertEquals([error.message.includes("403") || error.message.includes("400"), gate.vendor.seen.length], [true, 0]);
  });
}

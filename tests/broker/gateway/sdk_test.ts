/**
 * The vendors' own clients through the gateway: each works as it does without one, with tools and streams, has the task's
 * token for a key, and what it used is charged.
 */

import { assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import type { Lane } from "../../../broker/agents.ts";
import { harness } from "./harness.ts";
import { type Answer, ANTHROPIC, GEMINI, json, OPENAI, pieces, REAL_KEY, sse } from "./vendor_server.ts";

const CLIENTS = `${import.meta.dirname}/clients`;
const EVENTS = "text/event-stream";

interface Case {
  /** Of `clients/main.ts`. */
  call: string;
  lane: Lane;
  answer: Answer;
  usd: number;
  /** What the client has to understand. */
  understood: unknown;
}

const CASES: readonly Case[] = [
  {
    call: "message",
    lane: "vendor_a",
    answer: json(ANTHROPIC.message),
    usd: ANTHROPIC.message_usd,
    understood: ANTHROPIC.message.content,
  },
  {
    call: "message as before",
    lane: "vendor_a",
    answer: json(ANTHROPIC.message),
    usd: ANTHROPIC.message_usd,
    understood: ANTHROPIC.message.content,
  },
  {
    call: "message stream",
    lane: "vendor_a",
    answer: pieces(EVENTS, [sse(ANTHROPIC.stream)]),
    usd: ANTHROPIC.message_usd,
    understood: 'é "usage": {"output_tokens": 7} 💶',
  },
  { call: "chat", lane: "vendor_b", answer: json(OPENAI.chat), usd: OPENAI.chat_usd, understood: "hello" },
  {
    call: "chat stream",
    lane: "vendor_b",
    answer: pieces(EVENTS, [sse([OPENAI.chunk("hel"), OPENAI.chunk("lo"), OPENAI.last_chunk, "[DONE]"])]),
    usd: OPENAI.chat_usd,
    understood: "hello",
  },
  {
    call: "response stream",
    lane: "vendor_b",
    answer: pieces(EVENTS, [sse([OPENAI.response("response.created"), OPENAI.response("response.completed")])]),
    usd: OPENAI.chat_usd,
    understood: ["response.created", "response.completed"],
  },
  {
    call: "content",
    lane: "vendor_c",
    answer: json(GEMINI.chunks[1]),
    usd: (600 * 0.3 + 400 * 0.03 + 350 * 2.5) / 1e6,
    understood: 'x]}[{\\"',
  },
  {
    call: "content stream",
    lane: "vendor_c",
    answer: pieces(EVENTS, [sse(GEMINI.chunks)]),
    usd: GEMINI.usd,
    understood: '{"usageMetadata": {"promptTokenCount": 5}}x]}[{\\"',
  },
];

async function use(call: string, url: string, token: string): Promise<{ understood?: unknown; failed?: string }> {
  const words = ["run", "-A", "--quiet", "--no-check", "--config", `${CLIENTS}/deno.json`, `${CLIENTS}/main.ts`];
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: [...words, call, url, token] }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

for (const { call, lane, answer, usd, understood } of CASES) {
  Deno.test(`an official client works through the gateway: ${call}`, async () => {
    await using gate = await harness(answer);
    const lease = gate.lease(lane);
    assertEquals(await use(call, gate.url, lease.token), { understood });
    const [settlement] = await gate.settlements(1);
    assertEquals([settlement?.ending, settlement?.unmetered, gate.settled.length], ["complete", false, 1]);
    assertAlmostEquals(settlement!.usd, usd, 1e-12);
    const sent = JSON.stringify(gate.vendor.seen);
    assertEquals([sent.includes(lease.token), sent.includes(REAL_KEY)], [false, true]);
  });
}

/** What each client says of a vendor's tool that the gateway refuses. */
const REFUSED: readonly [call: string, lane: Lane, names: string][] = [
  ["message with a vendor's tool", "vendor_a", "web_search"],
  ["response with a vendor's tool", "vendor_b", "web_search"],
  ["content with a vendor's tool", "vendor_c", "googleSearch"],
];

for (const [call, lane, names] of REFUSED) {
  Deno.test(`an official client says what the gateway refuses: ${call}`, async () => {
    await using gate = await harness(json({}));
    const { failed = "" } = await use(call, gate.url, gate.lease(lane).token);
    assertStringIncludes(failed, names);
    assertEquals([failed.includes("403") || failed.includes("400"), gate.vendor.seen.length], [true, 0]);
  });
}

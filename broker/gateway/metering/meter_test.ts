import { assertEquals } from "@std/assert";
import fc from "../../../tests/packages/fast_check.ts";
import { Meter, type UsageForm } from "./meter.ts";
import type { Metered } from "./usage.ts";
import { JsonStreamParser } from "./json_stream.ts";
import { ANTHROPIC, GEMINI, OPENAI, sse } from "../../../tests/broker/gateway/vendor_server.ts";

const SSE = "text/event-stream";
const JSON_TYPE = "application/json";
const RUNS = { numRuns: 60 };

/** Meters `text`, cut at the given fractions of its bytes. */
function meter(form: UsageForm, type: string, text: string, cuts: readonly number[] = []): Metered {
  const bytes = new TextEncoder().encode(text);
  const ends = [...cuts.map((cut) => Math.floor(cut * bytes.length)).sort((a, b) => a - b), bytes.length];
  const metering = new Meter(form, type);
  let from = 0;
  for (const end of ends) {
    metering.push(bytes.subarray(from, end));
    from = end;
  }
  metering.end();
  return metering.metered();
}

const stream_openai = sse([OPENAI.chunk('é "usage": {"prompt_tokens": 9} 💶'), OPENAI.last_chunk, "[DONE]"]);
const ANSWERS: [string, UsageForm, string, string][] = [
  ["Anthropic's stream", "anthropic", SSE, sse(ANTHROPIC.stream)],
  ["Anthropic's stream with CR LF", "anthropic", SSE, sse(ANTHROPIC.stream, "\r\n")],
  ["Anthropic's stream with CR", "anthropic", SSE, sse(ANTHROPIC.stream, "\r")],
  ["Anthropic's answer", "anthropic", JSON_TYPE, JSON.stringify(ANTHROPIC.message, null, "\t")],
  ["OpenAI's stream", "openai", SSE, stream_openai],
  ["OpenAI's stream without its final newlines", "openai", SSE, stream_openai.trimEnd()],
  ["OpenAI's stream under another type", "openai", "text/plain", `\n\n${stream_openai}`],
  ["OpenAI's closing event", "openai", SSE, sse([OPENAI.response("response.completed")]).trimEnd()],
  ["Gemini's stream", "gemini", SSE, sse(GEMINI.chunks, "\r\n")],
  ["Gemini's array", "gemini", JSON_TYPE, JSON.stringify(GEMINI.chunks, null, 2)],
  ["Gemini's array with CR LF", "gemini", JSON_TYPE, JSON.stringify(GEMINI.chunks, null, 2).replaceAll("\n", "\r\n")],
  ["Gemini's array on one line", "gemini", JSON_TYPE, JSON.stringify(GEMINI.chunks)],
];

const EXPECTED: Record<UsageForm, Record<string, number>> = {
  anthropic: {
    input_tokens: 100,
    input_audio_tokens: 0,
    cache_read_tokens: 10_000,
    cache_write_5m_tokens: 1000,
    cache_write_1h_tokens: 2000,
    output_tokens: 500,
  },
  openai: {
    input_tokens: 400,
    input_audio_tokens: 0,
    cache_read_tokens: 600,
    cache_write_5m_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 200,
  },
  gemini: {
    input_tokens: 600,
    input_audio_tokens: 0,
    cache_read_tokens: 400,
    cache_write_5m_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 380,
  },
};

for (const [name, form, type, text] of ANSWERS) {
  Deno.test(`${name}: any chunking gives the same usage`, () => {
    const whole = meter(form, type, text);
    assertEquals([whole.used[0]?.usage, whole.complete], [EXPECTED[form] as never, true]);
    const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 40 });
    fc.assert(fc.property(fractions, (cuts) => assertEquals(meter(form, type, text, cuts), whole)), RUNS);
    const bytes = new TextEncoder().encode(text).length;
    assertEquals(meter(form, type, text, Array.from({ length: bytes }, (_, at) => at / bytes)), whole, "byte by byte");
  });
}

Deno.test("any beginning of a stream is metered without harm, and never as more than the whole", () => {
  for (const [, form, type, text] of ANSWERS) {
    const whole = meter(form, type, text).used[0]!.usage;
    const bytes = new TextEncoder().encode(text);
    for (let end = 0; end < bytes.length; end += 13) {
      const metering = new Meter(form, type);
      metering.push(bytes.subarray(0, end));
      metering.end();
      const { output_tokens = 0 } = metering.metered().used[0]?.usage ?? {};
      assertEquals(output_tokens <= whole.output_tokens, true);
    }
  }
});

Deno.test("any text at all is metered without an exception", () => {
  const junk = fc.oneof(fc.string({ unit: "binary" }), fc.json(), fc.json().map((json) => `data: ${json}\n\n`));
  fc.assert(
    fc.property(
      junk,
      fc.constantFrom("anthropic", "openai", "gemini"),
      fc.constantFrom(SSE, JSON_TYPE, ""),
      (...args) => {
        const [text, form, type] = args;
        meter(form as UsageForm, type, text);
      },
    ),
    { numRuns: 500 },
  );
});

Deno.test("usage that occurs in content counts for nothing", () => {
  const content = { choices: [{ delta: { content: '"usage": {"prompt_tokens": 5}', usage: { prompt_tokens: 7 } } }] };
  assertEquals(meter("openai", SSE, sse([content, "[DONE]"])).used, []);
  const quoted = `data: {"choices":[{"delta":{"content":"data: {\\"usage\\":{\\"prompt_tokens\\":5}}\\n\\n"}}]}\n\n`;
  assertEquals(meter("openai", SSE, quoted).used, []);
});

Deno.test("an event larger than a buffer is metered; one that is too large is dropped", () => {
  const big = { ...OPENAI.response("response.completed"), filler: "x".repeat(3 << 20) };
  const cuts = Array.from({ length: 100 }, (_, at) => at / 100);
  assertEquals(meter("openai", SSE, sse([big]), cuts).used[0]?.usage, EXPECTED.openai as never);

  const values: unknown[] = [];
  const json = new JsonStreamParser((value) => values.push(value), 1000);
  json.push(new TextEncoder().encode(`[{"a":1},{"b":"${"x".repeat(5000)}"},{"c":3}]`));
  json.end();
  assertEquals([values, json.dropped], [[{ a: 1 }, { c: 3 }], 1]);
});

Deno.test("Anthropic: the larger figure counts, absent ones stay, iterations are billed apart", () => {
  const [start, ...rest] = ANTHROPIC.stream;
  const twice = sse([start!, ...rest.slice(0, 5), rest[5]!, rest[5]!, rest[6]!]);
  assertEquals(meter("anthropic", SSE, twice).used[0]?.usage.output_tokens, 500);
  const iterations = [
    { type: "message", input_tokens: 100, output_tokens: 500 },
    { type: "compaction", input_tokens: 7000, output_tokens: 900 },
    { type: "advisor_message", model: "claude-opus-4-5", input_tokens: 10, output_tokens: 20 },
  ];
  const message = { ...ANTHROPIC.message, usage: { ...ANTHROPIC.message.usage, iterations } };
  const { used } = meter("anthropic", JSON_TYPE, JSON.stringify(message));
  assertEquals(used.map(({ model, usage }) => [model, usage.input_tokens, usage.output_tokens]), [
    [undefined, 100, 500],
    [undefined, 7000, 900],
    ["claude-opus-4-5", 10, 20],
  ]);
  const unsplit = {
    ...ANTHROPIC.message,
    usage: { input_tokens: 1, cache_creation_input_tokens: 9, output_tokens: 1 },
  };
  assertEquals(meter("anthropic", JSON_TYPE, JSON.stringify(unsplit)).used[0]?.usage.cache_write_5m_tokens, 9);
});

Deno.test("Anthropic: an error in mid-stream keeps and marks what is known; alone it costs nothing", () => {
  const error = { type: "error", error: { type: "overloaded_error", message: "Overloaded" } };
  const broken = meter("anthropic", SSE, sse([...ANTHROPIC.stream.slice(0, 4), error]));
  assertEquals([broken.used.length, broken.complete], [1, false]);
  assertEquals(meter("anthropic", SSE, sse([error])), { used: [], complete: true });
});

Deno.test("OpenAI: usage in every chunk is cumulative; an empty usage does not count", () => {
  const chunk = (completion_tokens: number) => ({ usage: { prompt_tokens: 10, completion_tokens } });
  assertEquals(meter("openai", SSE, sse([chunk(1), chunk(2), chunk(3), "[DONE]"])).used[0]?.usage.output_tokens, 3);
  assertEquals(meter("openai", SSE, sse([{ usage: {} }, "[DONE]"])).used, []);
});

Deno.test("Gemini: audio is a part of the input, what tools fed back is input, thoughts are output", () => {
  const usageMetadata = {
    promptTokenCount: 100,
    promptTokensDetails: [{ modality: "TEXT", tokenCount: 60 }, { modality: "AUDIO", tokenCount: 40 }],
    toolUsePromptTokenCount: 30,
    thoughtsTokenCount: 9,
  };
  const { usage } = meter("gemini", JSON_TYPE, JSON.stringify({ usageMetadata })).used[0]!;
  assertEquals([usage.input_tokens, usage.input_audio_tokens, usage.output_tokens], [130, 40, 9]);
});

Deno.test("what an answer says that it cost is read from its usage, as a number and nothing else", () => {
  const answer = (cost: unknown) => JSON.stringify({ usage: { prompt_tokens: 1, completion_tokens: 1, cost } });
  const read = (cost: unknown) => meter("openai", JSON_TYPE, answer(cost)).reported_usd;
  assertEquals([0.0125, 0, 9_999].map(read), [0.0125, 0, 9_999]);
  assertEquals([undefined, null, "0.01", -0.01, 1e300, [1]].map(read), Array(6).fill(undefined));
  const last = sse(['{"choices":[{"finish_reason":"stop"}]}', answer(0.5), "[DONE]"]);
  assertEquals(meter("openai", SSE, last).reported_usd, 0.5);
});

import { assertEquals, assertRejects } from "@std/assert";
import { nextTurn } from "../../lib/clock.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { ModelClient, ModelFailure } from "./model.ts";
import type { AgentProgress } from "./progress.ts";

const ANSWER = { choices: [{ message: { role: "assistant", content: "hello" }, finish_reason: "stop" }] };

/** A client whose requests are answered by `answers` in order; what is left of them, and the waits it announced. */
function client(answers: (Response | Error)[]) {
  const clock = new VirtualClock();
  const waits: number[] = [];
  const model = new ModelClient({
    gateway_url: "http://gateway.example",
    token: "t",
    model: "m",
    clock,
    fetch: () => {
      const answer = answers.shift()!;
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
    onProgress: (row: AgentProgress) => {
      if (row.type === "waiting") waits.push(row.wait_ms);
    },
  });
  return { model, clock, waits };
}

/** Lets virtual time pass until `work` has ended. */
async function passing<T>(clock: VirtualClock, work: Promise<T>): Promise<T> {
  let over = false;
  const settled = work.finally(() => over = true);
  settled.catch(() => {});
  while (!over) {
    await nextTurn();
    if (clock.sleepers > 0) clock.advance(60_000);
  }
  return await settled;
}

Deno.test("a failing endpoint is retried six times at most, with growing delays", async () => {
  const { model, clock, waits } = client(Array.from({ length: 6 }, () => new Response("down", { status: 500 })));
  const error = await assertRejects(() => passing(clock, model.complete([], [])), ModelFailure, "the answer was 500");
  assertEquals(error.outcome, "model_unavailable");
  assertEquals(waits, [1_000, 2_000, 4_000, 8_000, 16_000]);
  assertEquals(model.requests, 6);
});

Deno.test("a broken connection is tried again, and Retry-After is obeyed as seconds and as a date", async () => {
  const at = new Date(Date.UTC(2026, 0, 1, 0, 0, 30)).toUTCString();
  const { model, clock, waits } = client([
    new TypeError("connection refused"),
    new Response(null, { status: 429, headers: { "retry-after": "7" } }),
    new Response(null, { status: 429 }),
    new Response(null, { status: 503, headers: { "retry-after": "0.5" } }),
    Response.json(ANSWER),
  ]);
  assertEquals((await passing(clock, model.complete([], []))).text, "hello");
  assertEquals(waits, [1_000, 7_000, 4_000, 500]);
  const dated = client([new Response(null, { status: 429, headers: { "retry-after": at } }), Response.json(ANSWER)]);
  await passing(dated.clock, dated.model.complete([], []));
  assertEquals(dated.waits, [30_000]);
});

Deno.test("an answer with bent fields is read as far as it goes", async () => {
  const calls = [
    { function: { name: "read", arguments: { path: "a" } } },
    { id: "", type: "function", function: { name: 7, arguments: null } },
    "nonsense",
    { id: "x".repeat(1_000), function: { name: "n".repeat(1_000), arguments: "{" } },
    ...Array.from({ length: 100 }, () => ({})),
  ];
  const message = { content: [{ type: "text", text: "in " }, { text: "parts" }, null], tool_calls: calls };
  const { model } = client([Response.json({ choices: [{ message, finish_reason: "length" }] })]);
  const completion = await model.complete([], []);
  assertEquals(completion.text, "in parts");
  assertEquals(completion.calls.slice(0, 3), [
    { id: "call_0", name: "read", arguments: '{"path":"a"}' },
    { id: "call_1", name: "", arguments: "" },
    { id: "call_2", name: "", arguments: "" },
  ]);
  assertEquals([completion.calls[3]!.id, completion.calls[3]!.name.length], ["call_3", 256]);
  assertEquals([completion.calls.length, completion.dropped_calls, completion.cut], [32, 72, true]);
});

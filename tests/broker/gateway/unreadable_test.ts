/** Answers that are made to break what reads them: each ends alone, and costs what it could cost at most. */

import { assert, assertAlmostEquals, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { MAX_HELD_ANSWER_BYTES } from "../../../broker/gateway/exchange.ts";
import { BODIES, harness } from "./harness.ts";
import { type Answer, ANTHROPIC, json, pieces, sse } from "./vendor_server.ts";

const EVENTS = "text/event-stream";

Deno.test("an answer that is nested deep ends no more than itself", async () => {
  const [open, close] = ["[".repeat(20_000), "]".repeat(20_000)];
  const delta = `data: {"type":"content_block_delta","delta":{"text":${open}${close}}}\n\n`;
  await using gate = await harness(pieces(EVENTS, [delta]));
  const lease = gate.lease("vendor_a");
  await gate.post(lease, "/v1/messages", { ...BODIES.messages, stream: true })
    .then((response) => response.text()).catch(() => {});
  const [settlement] = await gate.settlements(1);
  assertEquals([settlement?.unmetered, gate.logged], [true, []]);
  gate.vendor.answer = json(ANTHROPIC.message);
  assertEquals((await gate.post(lease, "/v1/messages", BODIES.messages)).status, 200);
});

Deno.test("a defect in the reading of an answer ends that answer and is logged", async () => {
  await using gate = await harness(json(ANTHROPIC.message), {
    onSettled: () => {
      throw new RangeError("not to be logged");
    },
  });
  const lease = gate.lease("vendor_a");
  await assertRejects(async () => await (await gate.post(lease, "/v1/messages", BODIES.messages)).text());
  await lease.end();
  assertEquals(gate.logged.length, 1);
  assertStringIncludes(gate.logged[0]!, "defect: gateway RangeError");
});

Deno.test("an answer that would take long to read is not read, and costs what it could cost at most", async () => {
  await using gate = await harness(json({}));
  const { message } = ANTHROPIC;
  const iterations = (count: number) => ({
    ...message,
    usage: { ...message.usage, iterations: Array(count).fill({}) },
  });
  const answers: [string, Answer][] = [
    ["an event of objects", pieces(EVENTS, [`data: {"a":[${"{},".repeat(600_000)}0]}\n\n`])],
    ["one piece of objects", json(`{"a":[${"{},".repeat(600_000)}0]}`)],
    ["iterations", json(iterations(1_001))],
    ["a long figure", json({ ...message, usage: { ...message.usage, cost: "x".repeat(300_000) } })],
  ];
  for (const [name, answer] of answers) {
    gate.vendor.answer = answer;
    const lease = gate.lease("vendor_a");
    await gate.post(lease, "/v1/messages", BODIES.messages).then((response) => response.text()).catch(() => {});
    const { usd, unmetered_requests } = await lease.end();
    // The dearest input costs $6, output $15, and all of it a tenth more in the dearest place.
    const most_usd = 1.1 * (JSON.stringify(BODIES.messages).length * 6 + BODIES.messages.max_tokens * 15) / 1e6;
    assertEquals([name, unmetered_requests], [name, 1]);
    assertAlmostEquals(usd, most_usd, 1e-9);
  }
  gate.vendor.answer = json(iterations(1_000));
  const lease = gate.lease("vendor_a");
  await (await gate.post(lease, "/v1/messages", BODIES.messages)).text();
  assertAlmostEquals((await lease.end()).usd, ANTHROPIC.message_usd, 1e-9);
  assertEquals(gate.logged, []);
});

Deno.test("endless answers of a task hold its part of the memory at most, and one is ended", async () => {
  const whole = Promise.withResolvers<void>();
  const half = "x".repeat(MAX_HELD_ANSWER_BYTES / 4 / 2 / 2 + 1);
  await using gate = await harness(async (response) => {
    response.writeHead(200, { "content-type": EVENTS });
    response.write(`: ${half}`);
    await whole.promise;
    response.end(`\n\n${sse(ANTHROPIC.stream)}`);
  });
  const lease = gate.lease("vendor_a", { max_inflight: 2 });
  const post = async () => await (await gate.post(lease, "/v1/messages", { ...BODIES.messages, stream: true })).text();
  const both = [post(), post()].map((text) => text.then((text) => text.length > half.length, () => false));
  const [cut] = await gate.settlements(1);
  assertEquals([cut?.ending, cut?.unmetered, cut?.metered], ["cut_off", true, undefined]);
  assert(cut!.usd > 0);
  whole.resolve();
  assertEquals((await Promise.all(both)).sort(), [false, true]);
  assertEquals((await lease.end()).unmetered_requests, 1);
  // What was held is free again.
  const last = gate.lease("vendor_a");
  await (await gate.post(last, "/v1/messages", { ...BODIES.messages, stream: true })).text();
  assertAlmostEquals((await last.end()).usd, ANTHROPIC.message_usd, 1e-9);
});

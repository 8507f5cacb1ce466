/** Answers that are made to break what reads them: each ends alone, and costs what it could cost at most. */

import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BODIES, harness } from "./harness.ts";
import { ANTHROPIC, json, pieces } from "./vendor_server.ts";

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

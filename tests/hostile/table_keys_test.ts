/**
 * Text from outside that is the name of something every object has: no table may take it for one of its rows.
 */

import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import * as v from "valibot";
import { parseLedgerLine } from "../../broker/admission/ledger_line.ts";
import { ModelClient, ModelFailure } from "../../broker/agent/model.ts";
import { callTool } from "../../broker/agent/tools.ts";
import { WorkTree } from "../../broker/agent/work_tree.ts";
import { LANES } from "../../broker/agents.ts";
import { readEvents } from "../../broker/client/events.ts";
import { errorOf } from "../../broker/client/problems.ts";
import { readJsonBody } from "../../broker/gateway/body.ts";
import { noUsage } from "../../broker/gateway/metering/usage.ts";
import { PriceBook } from "../../broker/gateway/prices.ts";
import { Refusal } from "../../broker/gateway/refusal.ts";
import { matchRoute } from "../../broker/gateway/routes.ts";
import { SharedMemory } from "../../broker/gateway/shared_memory.ts";
import { checkBody } from "../../broker/gateway/fields/mod.ts";
import { decodeRollup, RollupSchema } from "../../broker/git/pull_request_checks.ts";
import { parseLine } from "../../broker/task/rows.ts";
import { STAGE } from "../../broker/task/stages.ts";
import { GOOD_BODIES, LANE_PATHS } from "../attacks/inputs/gateway.ts";
import { fileErrorCode } from "../../lib/fs.ts";
import { isOpName, parseArgs } from "../../lib/protocol/parse_args.ts";
import { TaskdError } from "../../lib/errors.ts";
import { VirtualClock } from "../support/clock.ts";

const KEYS = ["constructor", "toString", "valueOf", "hasOwnProperty", "__proto__", "__defineGetter__"];
const bytes = (text: string) => new TextEncoder().encode(text);

/** `key` at every depth of a body, and as the name of a tool's argument. */
function bodiesWith(key: string): string[] {
  const schema = `{"type": "object", "properties": {"${key}": {"type": "object", "parameters": {"${key}": {}}}}}`;
  return [
    `"${key}": {"args": {"${key}": {"x": {}}}}`,
    `"${key}": [{"${key}": {"response": {"type": "${key}"}}}]`,
    `"tools": [{"type": "function", "name": "f", "input_schema": ${schema}, "parameters": ${schema}}]`,
    `"tools": [{"functionDeclarations": [{"name": "f", "parameters": ${schema}}]}]`,
    `"tools": [{"${key}": {}}, {"type": "${key}"}]`,
    `"input": [{"type": "${key}"}], "messages": [{"role": "${key}", "content": [{"type": "${key}"}]}]`,
    `"contents": [{"role": "user", "parts": [{"functionCall": {"name": "f", "args": {"${key}": {"${key}": {}}}}}]}]`,
  ];
}

Deno.test("the gateway checks a body with the name of an object's own method anywhere", () => {
  for (const key of KEYS) {
    for (const lane of LANES) {
      const route = matchRoute(lane, "POST", LANE_PATHS[lane]);
      const good = JSON.stringify(GOOD_BODIES[lane]);
      for (const more of bodiesWith(key)) {
        const body = { ...JSON.parse(good), ...JSON.parse(`{${more}}`) };
        try {
          checkBody(lane, route, body, { allowed: new Set(), version: undefined });
        } catch (error) {
          assert(error instanceof Refusal, `${lane} ${more}: ${error}`);
        }
      }
    }
  }
});

Deno.test("an answer's tier and model with the name of an object's own method have a finite cost", () => {
  const book = new PriceBook({ now: () => 0, compat: { default: { input: 1, output: 1 } } });
  const used = [{ usage: { ...noUsage(), output_tokens: 1_000_000 } }];
  for (const key of KEYS) {
    for (const lane of LANES) {
      const usd = book.costOf(lane, key, { used, complete: true, service_tier: key, served_model: key, region: key });
      assert(usd !== undefined && usd > 0 && usd < 1_000, `${lane} ${key}: ${usd}`);
    }
  }
});

Deno.test("no table of words from outside takes the name of an object's own method for a row", async () => {
  const clock = new VirtualClock();
  const work = Deno.realPathSync(Deno.makeTempDirSync());
  const tree = new WorkTree(work);
  for (const key of KEYS) {
    // The built-in agent: what the gateway and the model answer.
    const fetch = () => Promise.resolve(Response.json({ type: key }, { status: 400 }));
    const model = new ModelClient({ gateway_url: "http://g", token: "t", model: "m", clock, fetch, onProgress() {} });
    assertEquals((await assertRejects(() => model.complete([], []), ModelFailure)).outcome, "request_refused");
    assert((await callTool(key, "{}", { tree, clock })).text.includes("There is no tool"));
    assert((await callTool("read", `{"${key}": 1}`, { tree, clock })).text.includes(key));
    // A code host's checks.
    const [check] = decodeRollup(v.parse(RollupSchema, [{ __typename: "StatusContext", context: "ci", state: key }]));
    assertEquals(check?.outcome, "pending");
    // The gateway's requests, files and streams.
    const headers = { "content-type": "application/json", "content-encoding": key };
    const request = Object.assign(Readable.from([bytes("{}")]), { headers }) as unknown as IncomingMessage;
    await assertRejects(
      () => readJsonBody(request, new SharedMemory(1 << 20, "requests").share()),
      Refusal,
      "encoding",
    );
    assertEquals(parseLedgerLine(JSON.stringify({ kind: key }), false), undefined);
    assertEquals(parseLine(bytes(JSON.stringify({ type: key }))), "it has no known type");
    assertEquals(await Array.fromAsync(readEvents(streamOf(`event: ${key}\ndata: {}\n\n`))), []);
    const problem = { type: "t", title: "t", status: 500, detail: "d", code: key, hint: "h" };
    assertEquals(errorOf(problem, 500).code, "internal");
    assertEquals(fileErrorCode(Object.assign(new Error(), { code: key })), "unavailable");
    // The names of both daemons.
    assertEquals([v.is(STAGE, key), isOpName(key)], [false, false]);
    assertThrows(() => parseArgs("status", JSON.parse(`{"${key}": 1}`)), TaskdError);
  }
  Deno.removeSync(work);
});

async function* streamOf(text: string): AsyncGenerator<Uint8Array, void> {
  yield bytes(text);
}

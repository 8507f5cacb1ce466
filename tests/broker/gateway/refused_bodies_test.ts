import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { Lane } from "../../../broker/agents.ts";
import {
  disguisedBodies,
  GOOD_BODIES as GOOD,
  LANE_PATHS as PATHS,
  turn,
  VENDOR_TOOL_ATTACKS as ATTACKS,
} from "../../attacks/inputs/gateway.ts";
import { MAX_BODY_MARKS } from "../../../broker/gateway/gateway.ts";
import { MAX_BODY_BYTES, MAX_HELD_BYTES } from "../../../broker/gateway/body.ts";
import { BODIES, type Harness, harness, RawClient, rawPost } from "./harness.ts";
import { json } from "./vendor_server.ts";

async function refused(gate: Harness, response: Response, field: string): Promise<void> {
  const problem = await response.json();
  assert([400, 403].includes(response.status), `${field}: ${response.status}`);
  assertEquals(response.headers.get("content-type"), "application/problem+json");
  assertStringIncludes(problem.field, field);
  assertStringIncludes(problem.detail, field);
  assertEquals(problem.error.message, problem.detail);
  assertEquals(gate.vendor.seen.length, 0, `${field}: no byte goes out`);
}

Deno.test("whatever the vendor would do for the agent is refused, and the field named", async () => {
  await using gate = await harness(json({}));
  for (const { lane, path = PATHS[lane], add, field } of ATTACKS) {
    const lease = gate.lease(lane);
    await refused(gate, await gate.post(lease, path, { ...GOOD[lane], ...add }), field);
    assertEquals((await lease.end()).requests, 0, "a refused request does not count");
  }
});

Deno.test("a setting lifts each refusal by the name that the refusal gives, and no other", async () => {
  await using gate = await harness(json({}));
  for (const { lane, path = PATHS[lane], add, field, allow } of ATTACKS) {
    if (allow === undefined) continue;
    const other = gate.lease(lane, { allow_tools: ["something_else"] });
    const problem = await (await gate.post(other, path, { ...GOOD[lane], ...add })).json();
    if (!/_\d{8}$/.test(allow)) assertStringIncludes(problem.detail, `"${allow}"`);
    const lease = gate.lease(lane, { allow_tools: [allow] });
    const response = await gate.post(lease, path, { ...GOOD[lane], ...add });
    await response.text();
    assertEquals([field, response.status], [field, 200]);
  }
});

Deno.test("what clients do by themselves passes: own tools, images in the request, results with URLs", async () => {
  await using gate = await harness(json({}));
  const data = "data:image/png;base64,AAAA";
  const schema = { type: "object", properties: { tools: { type: "array" }, image_url: { type: "string" } } };
  const good: [Lane, string, Record<string, unknown>][] = [
    ["vendor_a", PATHS.vendor_a, {
      system: [{ type: "text", text: "x", cache_control: { type: "ephemeral" } }],
      context_management: { edits: [{ type: "clear_tool_uses_20250919" }] },
      metadata: { user_id: "tools" },
      tools: [
        { name: "a", input_schema: schema, input_examples: [{ source: { type: "url" } }] },
        { type: "custom", name: "b", input_schema: schema },
        { type: "bash_20250124", name: "bash" },
        { type: "text_editor_20250728", name: "e" },
        { type: "memory_20250818", name: "m" },
        { type: "tool_search_tool_bm25_20251119", name: "s" },
      ],
      messages: [
        { role: "assistant", content: [{ type: "tool_use", id: "1", name: "a", input: { tools: [{ type: "mcp" }] } }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "1", content: "https://x.example" }] },
        {
          role: "user",
          content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } }],
        },
      ],
    }],
    ["vendor_b", PATHS.vendor_b, {
      store: false,
      include: ["reasoning.encrypted_content"],
      service_tier: "auto",
      background: false,
      previous_response_id: null,
      text: { format: { type: "json_schema", name: "n", schema } },
      tools: [
        { type: "function", name: "a", parameters: schema },
        { type: "custom", name: "apply" },
        { type: "local_shell" },
        { type: "apply_patch" },
        { type: "shell", environment: { type: "local" } },
        { type: "namespace", name: "n", tools: [{ type: "function", name: "f", parameters: schema }] },
      ],
      input: [
        { role: "user", content: [{ type: "input_image", image_url: data }, { type: "input_text", text: "x" }] },
        { type: "function_call", name: "a", arguments: '{"image_url":"https://x"}', call_id: "1" },
        { type: "function_call_output", call_id: "1", output: "https://x" },
        { type: "local_shell_call", action: { type: "exec", command: ["x"], env: { BASE_URL: "https://x" } } },
        { type: "reasoning", summary: [], encrypted_content: "x" },
        { type: "reasoning", id: "rs_1", summary: [{ type: "summary_text", text: "x" }] },
        { type: "message", role: "user", content: "" },
        { id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "x" }] },
      ],
    }],
    ["compat", PATHS.compat, {
      stream_options: { include_usage: true },
      tools: [{ type: "function", function: { name: "a", parameters: schema } }],
      response_format: { type: "json_schema", json_schema: { name: "n", schema } },
      messages: turn([{ type: "image_url", image_url: { url: data } }]),
    }],
    ["vendor_c", PATHS.vendor_c, {
      tools: [{ functionDeclarations: [{ name: "a", parameters: { properties: { fileData: { type: "OBJECT" } } } }] }],
      generationConfig: { responseSchema: { properties: { tools: {} } }, thinkingConfig: {} },
      contents: [
        { role: "model", parts: [{ functionCall: { name: "a", args: { tools: [{ googleSearch: {} }] } } }] },
        { role: "user", parts: [{ functionResponse: { name: "a", response: { fileData: "x" } } }] },
        { role: "user", parts: [{ inlineData: { mimeType: "image/png", data: "AA==" } }] },
        { role: "user", parts: [{ inlineData: { mimeType: "image/png", data: "_-A" } }] },
      ],
    }],
  ];
  for (const [lane, path, add] of good) {
    const response = await gate.post(gate.lease(lane), path, { ...GOOD[lane], ...add });
    assertEquals([lane, response.status, await response.text()], [lane, 200, "{}"]);
  }
});

Deno.test("a tool behind a duplicate or an escaped key is found, at any depth", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a", { max_inflight: 0 });
  for (const [body, field] of disguisedBodies()) {
    await refused(gate, await gate.post(lease, PATHS.vendor_a, body), field);
  }
});

Deno.test("a compressed body is unpacked, checked and sent unpacked; other encodings are refused", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a", { max_inflight: 0 });
  const bad = JSON.stringify({ ...BODIES.messages, tools: [{ type: "web_fetch_20250910", name: "f" }] });
  const good = JSON.stringify(BODIES.messages);
  const send = (body: string | Uint8Array, encoding: string) =>
    gate.post(lease, PATHS.vendor_a, "", {
      body: new Blob([body as Uint8Array<ArrayBuffer>]),
      headers: { "content-encoding": encoding },
    });
  await refused(gate, await send(gzipSync(bad), "gzip"), "tools[0].type");
  await refused(gate, await send(zstdCompressSync(Buffer.from(bad)), "zstd"), "tools[0].type");
  for (const encoding of ["deflate", "br", "gzip, gzip", "x", "__proto__"]) {
    const response = await send(deflateSync(good), encoding);
    assertEquals([encoding, response.status, (await response.json()).code], [encoding, 415, "unsupported_media"]);
  }
  const lying = await send(good, "gzip");
  assertEquals([lying.status, (await lying.json()).detail], [400, "The body is not gzip"]);
  // 16 MiB of one letter is 16 KiB when packed.
  const bomb = await send(gzipSync(`{"model":"m","x":"${"a".repeat(16 << 20)}"}`), "gzip");
  assertEquals([bomb.status, (await bomb.json()).code], [413, "too_large"]);
  assertEquals(gate.vendor.seen.length, 0);
  const passed = await send(gzipSync(good), "gzip");
  await passed.text();
  assertEquals([passed.status, gate.vendor.seen[0]?.body], [200, good]);
  assertEquals(gate.vendor.seen[0]?.headers["content-encoding"], undefined);
});

Deno.test("a body that is not a JSON object in UTF-8, said to be so, is refused", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a", { max_inflight: 0 });
  for (
    const type of ["text/plain", "", "application/jsonp", "application/json; charset=utf-16", "multipart/form-data"]
  ) {
    const response = await gate.post(lease, PATHS.vendor_a, BODIES.messages, { headers: { "content-type": type } });
    assertEquals([type, response.status, (await response.json()).code], [type, 415, "unsupported_media"]);
  }
  const bodies: BodyInit[] = [
    "",
    "[]",
    "null",
    '"x"',
    "{",
    '{"model":"m"}{"model":"m"}',
    '{"model":"m",}',
    "\ufeff{}",
    new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]),
    new Uint8Array(Buffer.from('{"model":"m"}', "utf16le")),
    `{"model":"m","x":${"[".repeat(200)}${"]".repeat(200)}}`,
    '{"model":7}',
    '{"model":"a b\\n"}',
    '{"messages":[]}',
  ];
  for (const body of bodies) {
    const response = await gate.post(lease, PATHS.vendor_a, "", { body });
    assertEquals([response.status, (await response.json()).code], [400, "bad_request"], String(body).slice(0, 40));
  }
  assertEquals(gate.vendor.seen.length, 0);
  assertEquals(lease.spend().requests, 0);
});

Deno.test("a body is refused for what it would cost to parse or to compare, before it does", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a", { max_inflight: 0 });
  const many = await gate.post(
    lease,
    PATHS.vendor_a,
    `{"model":"m","messages":[${"{},".repeat(MAX_BODY_MARKS / 2)}{}]}`,
  );
  assertStringIncludes((await many.json()).detail, "brackets");
  assertEquals(many.status, 400);
  // One character that folds to 18.
  const long = "\ufdfa".repeat(200);
  for (const [lane, key] of [["vendor_a", long], ["vendor_c", long], ["vendor_c", "_a".repeat(200)]] as const) {
    const response = await gate.post(gate.lease(lane), PATHS[lane], { ...GOOD[lane], [key]: 1 });
    const { code, field } = await response.json();
    assertEquals([response.status, code, field.length], [403, "field_refused", 64]);
  }
  assertEquals(gate.vendor.seen.length, 0);
});

Deno.test("16 MiB pass, and one byte more is 413, announced or not", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a", { budget_usd: 1000 });
  const body = JSON.stringify({ ...BODIES.messages, metadata: { user_id: "" } });
  const filled = (size: number) => body.replace('"user_id":""', `"user_id":"${"a".repeat(size - body.length)}"`);
  const whole = await gate.post(lease, PATHS.vendor_a, filled(16 << 20));
  await whole.text();
  assertEquals([whole.status, gate.vendor.seen[0]?.body.length], [200, 16 << 20]);
  const announced = await gate.post(lease, PATHS.vendor_a, filled((16 << 20) + 1));
  assertEquals([announced.status, (await announced.json()).code], [413, "too_large"]);
  const chunked = await gate.post(lease, PATHS.vendor_a, "", {
    body: new Blob([filled((16 << 20) + 1)]).stream(),
  });
  assertEquals([chunked.status, (await chunked.json()).code], [413, "too_large"]);
  assertEquals([gate.vendor.seen.length, lease.spend().requests], [1, 1]);
});

Deno.test("a task that fills its part of the memory with halves of bodies is refused alone", async () => {
  await using gate = await harness(json({}));
  const greedy = gate.lease("vendor_a", { max_inflight: 0 });
  const half = rawPost(PATHS.vendor_a, greedy.token, "x".repeat(MAX_BODY_BYTES)).slice(0, -1);
  using clients = new DisposableStack();
  for (let at = 0; at < MAX_HELD_BYTES / 4 / MAX_BODY_BYTES; at++) {
    const client = clients.use(await RawClient.connect(gate.url));
    await client.send(half);
  }
  // One that is packed needs room for all it can unpack to; what was sent may still be on its way.
  const packed = () => gate.post(greedy, PATHS.vendor_a, "{}", { headers: { "content-encoding": "gzip" } });
  let refused = await packed();
  for (let tries = 0; refused.status !== 503 && tries < 1_000; tries++) {
    await refused.text();
    refused = await packed();
  }
  assertStringIncludes((await refused.json()).detail, "The task has too many large requests");
  const other = await gate.post(gate.lease("vendor_a"), PATHS.vendor_a, BODIES.messages);
  assertEquals([other.status, await other.text()], [200, "{}"]);
});

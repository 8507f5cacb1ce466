import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Buffer } from "node:buffer";
import { deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { Lane } from "../../../broker/agents.ts";
import { BODIES, type Harness, harness } from "./harness.ts";
import { json } from "./vendor_server.ts";

/** A body that must be refused: the field that is named, and the name that lifts the refusal. */
interface Attack {
  lane: Lane;
  path?: string;
  /** Added to a good body. */
  add: Record<string, unknown>;
  field: string;
  allow?: string;
}

const PATHS: Record<Lane, string> = {
  vendor_a: "/v1/messages",
  vendor_b: "/v1/responses",
  vendor_c: "/v1beta/models/gemini-2.5-flash:generateContent",
  compat: "/v1/chat/completions",
};
const GOOD: Record<Lane, Record<string, unknown>> = {
  vendor_a: BODIES.messages,
  vendor_b: BODIES.responses,
  vendor_c: BODIES.gemini,
  compat: BODIES.chat,
};
const URL_TEXT = "https://evil.example/x";

const anthropicTool = (type: string, allow: string): Attack => ({
  lane: "vendor_a",
  add: { tools: [{ name: "own", input_schema: {} }, { type, name: "x" }] },
  field: "tools[1].type",
  allow,
});
const openAiTool = (tool: Record<string, unknown>, allow: string): Attack => ({
  lane: "vendor_b",
  add: { tools: [{ type: "function", name: "own", parameters: {} }, tool] },
  field: "tools[1].type",
  allow,
});
const geminiTool = (name: string, allow = name): Attack => ({
  lane: "vendor_c",
  add: { tools: [{ functionDeclarations: [] }, { [name]: {} }] },
  field: `tools[1].${name}`,
  allow,
});
const turn = (content: unknown) => [
  { role: "user", content: "first" },
  { role: "assistant", content: "second" },
  { role: "user", content },
];
const url_image = { type: "image", source: { type: "url", url: URL_TEXT } };
const chatPart = (part: unknown) => ({ messages: turn([{ type: "text", text: "x" }, part]), input: undefined });

const ATTACKS: Attack[] = [
  anthropicTool("web_search_20250305", "web_search"),
  anthropicTool("web_search_20260318", "web_search_20260318"),
  anthropicTool("web_fetch_20250910", "web_fetch"),
  anthropicTool("code_execution_20250825", "code_execution"),
  anthropicTool("mcp_toolset", "mcp_toolset"),
  anthropicTool("advisor_20260301", "advisor"),
  anthropicTool("something_new_20270101", "something_new"),
  { lane: "vendor_a", add: { mcp_servers: [{ type: "url", url: URL_TEXT }] }, field: "mcp_servers" },
  { lane: "vendor_a", add: { container: { skills: [] } }, field: "container", allow: "container" },
  { lane: "vendor_a", add: { messages: turn([url_image]) }, field: "messages[2].content[0].source.url" },
  {
    lane: "vendor_a",
    add: { messages: turn([{ type: "tool_result", tool_use_id: "t", content: [url_image] }]) },
    field: "messages[2].content[0].content[0].source.url",
    allow: "url_source",
  },
  {
    lane: "vendor_a",
    add: { messages: turn([{ type: "document", source: { type: "content", content: [url_image] } }]) },
    field: "messages[2].content[0].source.content[0].source.url",
  },
  {
    lane: "vendor_a",
    add: { messages: turn([{ type: "document", source: { type: "file", file_id: "f" } }]) },
    field: "messages[2].content[0].source.file_id",
    allow: "file_source",
  },
  {
    lane: "vendor_a",
    add: { messages: turn([{ type: "document", source: { url: URL_TEXT } }]) },
    field: "messages[2].content[0].source.type",
  },
  {
    lane: "vendor_a",
    add: { messages: turn([{ type: "tool_addition", tool: { type: "web_fetch_20250910", name: "f" } }]) },
    field: "messages[2].content[0].tool.type",
    allow: "web_fetch",
  },
  {
    lane: "vendor_a",
    add: { messages: turn([{ type: "container_upload", file_id: "f" }]) },
    field: "messages[2].content[0].type",
    allow: "container_upload",
  },
  { lane: "vendor_a", path: "/v1/messages/count_tokens", add: { messages: turn([url_image]) }, field: "messages[2]" },
  { lane: "vendor_a", add: { service_tier: "priority" }, field: "service_tier" },
  { lane: "vendor_a", add: { speed: "fast" }, field: "speed" },
  { lane: "vendor_a", add: { inference_geo: "us" }, field: "inference_geo" },
  { lane: "vendor_a", add: { fallbacks: [{ model: "claude-opus-4-1" }] }, field: "fallbacks", allow: "fallbacks" },

  openAiTool({ type: "web_search" }, "web_search"),
  openAiTool({ type: "web_search_preview_2025_03_11" }, "web_search_preview"),
  openAiTool({ type: "web_search_2025_08_26" }, "web_search"),
  openAiTool({ type: "file_search", vector_store_ids: ["v"] }, "file_search"),
  openAiTool({ type: "code_interpreter", container: { type: "auto" } }, "code_interpreter"),
  openAiTool({ type: "image_generation" }, "image_generation"),
  openAiTool({ type: "mcp", server_url: "data:x", server_label: "l" }, "mcp"),
  openAiTool({ type: "mcp", connector_id: "connector_dropbox", server_label: "l" }, "mcp"),
  openAiTool({ type: "shell", environment: { type: "container_auto" } }, "shell"),
  openAiTool({ type: "shell" }, "shell"),
  openAiTool({ type: "programmatic_tool_calling" }, "programmatic_tool_calling"),
  openAiTool({ type: "$web_search" }, "$web_search"),
  {
    lane: "vendor_b",
    add: { tools: [{ type: "namespace", name: "n", tools: [{ type: "mcp" }] }] },
    field: "tools[0].tools[0].type",
    allow: "mcp",
  },
  { lane: "vendor_b", add: { background: true }, field: "background" },
  { lane: "vendor_b", add: { service_tier: "flex" }, field: "service_tier" },
  { lane: "vendor_b", add: { service_tier: "priority" }, field: "service_tier" },
  { lane: "vendor_b", add: { prompt: { id: "pmpt_1" } }, field: "prompt", allow: "prompt" },
  { lane: "vendor_b", add: { model: "o3-deep-research" }, field: "model", allow: "search_model" },
  {
    lane: "vendor_b",
    add: { input: [{ type: "additional_tools", role: "developer", tools: [{ type: "web_search" }] }] },
    field: "input[0].tools[0].type",
    allow: "web_search",
  },
  {
    lane: "vendor_b",
    add: { input: [{ type: "tool_search_output", tools: [{ type: "mcp" }] }] },
    field: "input[0].tools[0].type",
  },
  { lane: "vendor_b", add: { input: [{ type: "mcp_approval_response" }] }, field: "input[0].type" },
  {
    lane: "vendor_b",
    add: { input: [{ role: "user", content: [{ type: "input_image", image_url: URL_TEXT }] }] },
    field: "input[0].content[0].image_url",
    allow: "url_source",
  },
  {
    lane: "vendor_b",
    add: { input: [{ role: "user", content: [{ type: "input_file", file_url: URL_TEXT }] }] },
    field: "input[0].content[0].file_url",
  },
  {
    lane: "vendor_b",
    add: { input: [{ role: "user", content: [{ type: "input_file", file_id: "file-1" }] }] },
    field: "input[0].content[0].file_id",
    allow: "file_id",
  },
  {
    lane: "vendor_b",
    add: { input: [{ type: "function_call_output", output: [{ type: "input_image", image_url: URL_TEXT }] }] },
    field: "input[0].output[0].image_url",
  },
  {
    lane: "vendor_b",
    add: { input: [{ type: "computer_call_output", output: { image_url: URL_TEXT } }] },
    field: "input[0].output.image_url",
  },

  { lane: "compat", add: { web_search_options: {} }, field: "web_search_options", allow: "web_search_options" },
  { lane: "compat", add: { plugins: [{ id: "web" }] }, field: "plugins", allow: "plugins" },
  { lane: "compat", add: { search_parameters: { mode: "on" } }, field: "search_parameters" },
  { lane: "compat", add: { enable_search: true }, field: "enable_search" },
  { lane: "compat", add: { model: "openai/gpt-5:online" }, field: "model", allow: "search_model" },
  { lane: "compat", add: { model: "perplexity/sonar-pro" }, field: "model" },
  { lane: "compat", add: { tools: [{ function: { name: "x" } }] }, field: "tools[0].type" },
  {
    lane: "compat",
    add: chatPart({ type: "image_url", image_url: { url: URL_TEXT } }),
    field: "messages[2].content[1].image_url",
    allow: "url_source",
  },
  { lane: "compat", add: chatPart({ type: "video_url", video_url: { url: URL_TEXT } }), field: "messages[2]" },
  { lane: "compat", add: chatPart({ type: "file", file: { file_id: "f" } }), field: "messages[2].content[1].file" },
  // What a lenient parser would read as the same keys.
  { lane: "compat", add: { Tools: [{ type: "web_search" }] }, field: "Tools" },
  { lane: "compat", add: { "tool\u017f": [{ type: "web_search" }] }, field: "tool" },
  { lane: "compat", add: { BACKGROUND: true }, field: "BACKGROUND" },
  { lane: "compat", add: { Model: "other" }, field: "Model" },
  { lane: "compat", add: { tools: [{ type: "function", Type: "web_search" }] }, field: "tools[0].Type" },
  { lane: "compat", add: chatPart({ type: "image_url", IMAGE_URL: { url: URL_TEXT } }), field: "messages[2]" },

  geminiTool("googleSearch"),
  geminiTool("google_search", "googleSearch"),
  geminiTool("googleSearchRetrieval"),
  geminiTool("urlContext"),
  geminiTool("url_context", "urlContext"),
  geminiTool("codeExecution"),
  geminiTool("googleMaps"),
  geminiTool("enterpriseWebSearch"),
  geminiTool("retrieval"),
  geminiTool("fileSearch"),
  geminiTool("mcpServers"),
  geminiTool("computer_future", "computerFuture"),
  { lane: "vendor_c", add: { cachedContent: "cachedContents/1" }, field: "cachedContent", allow: "cachedContent" },
  { lane: "vendor_c", add: { cached_content: "cachedContents/1" }, field: "cached_content" },
  { lane: "vendor_c", add: { serviceTier: "flex" }, field: "serviceTier" },
  ...["fileData", "file_data"].map((key): Attack => ({
    lane: "vendor_c",
    add: { contents: [{ parts: [{ text: "x" }, { [key]: { fileUri: URL_TEXT } }] }] },
    field: `contents[0].parts[1].${key}`,
    allow: "fileData",
  })),
  {
    lane: "vendor_c",
    add: { contents: [{ parts: [{ functionResponse: { parts: [{ fileData: { fileUri: URL_TEXT } }] } }] }] },
    field: "contents[0].parts[0].functionResponse.parts[0].fileData",
  },
  {
    lane: "vendor_c",
    path: "/v1beta/models/gemini-2.5-flash:countTokens",
    add: { generateContentRequest: { model: "models/gemini-2.5-flash", tools: [{ googleSearch: {} }] } },
    field: "generateContentRequest.tools[0].googleSearch",
  },
  {
    lane: "vendor_c",
    path: "/v1beta/models/gemini-2.5-flash:countTokens",
    add: { generateContentRequest: { model: "models/gemini-2.5-pro" } },
    field: "generateContentRequest.model",
  },
];

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

Deno.test("what clients do by themselves passes: own tools, images in the request, results that speak of URLs", async () => {
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
        { role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "A" } }] },
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
        { role: "user", parts: [{ inlineData: { mimeType: "image/png", data: "A" } }] },
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
  const search = '[{"type":"web_search_20250305","name":"w"}]';
  const start = '{"model":"claude-sonnet-4-5","messages":[]';
  const bodies: [string, string][] = [
    [`${start},"tools":${search},"tools":[]}`, "tools"],
    [`${start},"tools":[],"tools":${search}}`, "tools"],
    [`${start},"tools":[],"t\\u006fols":${search}}`, "tools"],
    [`${start},"\\u0074ools":${search}}`, "tools[0].type"],
    [`${start},"tools":[{"type":"custom","ty\\u0070e":"web_search_20250305","name":"w"}]}`, "type"],
    [`${start},"tools":[{"ty\\u0070e":"web_search_20250305","name":"w"}]}`, "tools[0].type"],
    [`${start},"tools":[{"type":"web\\u005fsearch_20250305","name":"w"}]}`, "tools[0].type"],
    ['{"model":"a","model":"b","messages":[]}', "model"],
    ['{"a":{"b":[{"c":1,"c":2}]},"model":"m"}', "c"],
  ];
  for (const [body, field] of bodies) await refused(gate, await gate.post(lease, PATHS.vendor_a, body), field);
});

Deno.test("a compressed body is unpacked, checked and sent as it was checked; other encodings are refused", async () => {
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

Deno.test("16 MiB pass, and one byte more is 413, announced or not", async () => {
  await using gate = await harness(json({}));
  const lease = gate.lease("vendor_a");
  const body = JSON.stringify({ ...BODIES.messages, metadata: { x: "" } });
  const filled = (size: number) => body.replace('"x":""', `"x":"${"a".repeat(size - body.length)}"`);
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

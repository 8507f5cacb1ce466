/** What is thrown at the model gateway; `taskd redteam` and the gateway's own tests share it. */

import type { Lane } from "../../../broker/agents.ts";
import { words } from "./_words.ts";

export const BODIES = {
  messages: { model: "claude-sonnet-4-5", max_tokens: 100, messages: [{ role: "user", content: "hi" }] },
  chat: { model: "gpt-5.1", messages: [{ role: "user", content: "hi" }] },
  responses: { model: "gpt-5.1", input: "hi" },
  gemini: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};

/** A body that must be refused: the field that is named, and the name that lifts the refusal. */
export interface VendorToolAttack {
  lane: Lane;
  path?: string;
  add: Record<string, unknown>;
  field: string;
  allow?: string;
}

export const LANE_PATHS: Record<Lane, string> = {
  vendor_a: "/v1/messages",
  vendor_b: "/v1/responses",
  vendor_c: "/v1beta/models/gemini-2.5-flash:generateContent",
  compat: "/v1/chat/completions",
};
export const GOOD_BODIES: Record<Lane, Record<string, unknown>> = {
  vendor_a: BODIES.messages,
  vendor_b: BODIES.responses,
  vendor_c: BODIES.gemini,
  compat: BODIES.chat,
};
const URL_TEXT = "https://evil.example/x";

function attack(lane: Lane, add: Record<string, unknown>, field: string, allow?: string): VendorToolAttack {
  return { lane, add, field, ...(allow === undefined ? {} : { allow }) };
}
const anthropicTool = (type: string, allow: string) =>
  attack("vendor_a", { tools: [{ name: "own", input_schema: {} }, { type, name: "x" }] }, "tools[1].type", allow);
const openAiTool = (tool: Record<string, unknown>, allow: string) =>
  attack("vendor_b", { tools: [{ type: "function", name: "own", parameters: {} }, tool] }, "tools[1].type", allow);
const geminiTool = (name: string, allow = name) =>
  attack("vendor_c", { tools: [{ functionDeclarations: [] }, { [name]: {} }] }, `tools[1].${name}`, allow);
export const turn = (content: unknown): { role: string; content: unknown }[] => [
  { role: "user", content: "first" },
  { role: "assistant", content: "second" },
  { role: "user", content },
];
const anthropicTurn = (content: unknown, field: string, allow?: string) =>
  attack("vendor_a", { messages: turn([content]) }, `messages[2].content[0]${field}`, allow);
const openAiInput = (item: unknown, field: string, allow?: string) =>
  attack("vendor_b", { input: [item] }, `input[0]${field}`, allow);
const url_image = { type: "image", source: { type: "url", url: URL_TEXT } };
const openAiPart = (part: unknown, field: string, allow?: string) =>
  openAiInput({ role: "user", content: [part] }, `.content[0]${field}`, allow);
const chatPart = (part: unknown, field = "", allow?: string) => {
  const messages = turn([{ type: "text", text: "x" }, part]);
  return attack("compat", { messages, input: undefined }, `messages[2]${field}`, allow);
};

/** Every form of a tool that the vendor would run, and every source that it would fetch. */
export const VENDOR_TOOL_ATTACKS: readonly VendorToolAttack[] = [
  anthropicTool("web_search_20250305", "web_search"),
  anthropicTool("web_search_20260318", "web_search_20260318"),
  anthropicTool("web_fetch_20250910", "web_fetch"),
  anthropicTool("code_execution_20250825", "code_execution"),
  anthropicTool("mcp_toolset", "mcp_toolset"),
  anthropicTool("advisor_20260301", "advisor"),
  anthropicTool("something_new_20270101", "something_new"),
  attack("vendor_a", { mcp_servers: [{ type: "url", url: URL_TEXT }] }, "mcp_servers"),
  attack("vendor_a", { container: { skills: [] } }, "container", "container"),
  anthropicTurn(url_image, ".source.url"),
  anthropicTurn(
    { type: "tool_result", tool_use_id: "t", content: [url_image] },
    ".content[0].source.url",
    "url_source",
  ),
  anthropicTurn(
    { type: "document", source: { type: "content", content: [url_image] } },
    ".source.content[0].source.url",
  ),
  anthropicTurn({ type: "document", source: { type: "file", file_id: "f" } }, ".source.file_id", "file_source"),
  anthropicTurn({ type: "document", source: { url: URL_TEXT } }, ".source.type"),
  anthropicTurn({ type: "tool_addition", tool: { type: "web_fetch_20250910", name: "f" } }, ".tool.type", "web_fetch"),
  anthropicTurn({ type: "container_upload", file_id: "f" }, ".type", "container_upload"),
  { lane: "vendor_a", path: "/v1/messages/count_tokens", add: { messages: turn([url_image]) }, field: "messages[2]" },
  attack("vendor_a", { service_tier: "priority" }, "service_tier"),
  attack("vendor_a", { speed: "fast" }, "speed"),
  attack("vendor_a", { inference_geo: "us" }, "inference_geo"),
  attack("vendor_a", { fallbacks: [{ model: "claude-opus-4-1" }] }, "fallbacks", "fallbacks"),

  ...words("web_search image_generation shell programmatic_tool_calling $web_search").map((type) =>
    openAiTool({ type }, type)
  ),
  openAiTool({ type: "web_search_preview_2025_03_11" }, "web_search_preview"),
  openAiTool({ type: "web_search_2025_08_26" }, "web_search"),
  openAiTool({ type: "file_search", vector_store_ids: ["v"] }, "file_search"),
  openAiTool({ type: "code_interpreter", container: { type: "auto" } }, "code_interpreter"),
  openAiTool({ type: "mcp", server_url: "data:x", server_label: "l" }, "mcp"),
  openAiTool({ type: "mcp", connector_id: "connector_dropbox", server_label: "l" }, "mcp"),
  openAiTool({ type: "shell", environment: { type: "container_auto" } }, "shell"),
  attack(
    "vendor_b",
    { tools: [{ type: "namespace", name: "n", tools: [{ type: "mcp" }] }] },
    "tools[0].tools[0].type",
    "mcp",
  ),
  attack("vendor_b", { background: true }, "background"),
  attack("vendor_b", { service_tier: "flex" }, "service_tier"),
  attack("vendor_b", { service_tier: "priority" }, "service_tier"),
  attack("vendor_b", { prompt: { id: "pmpt_1" } }, "prompt", "prompt"),
  attack("vendor_b", { model: "o3-deep-research" }, "model", "search_model"),
  openAiInput(
    { type: "additional_tools", tools: [{ type: "web_search" }], role: "developer" },
    ".tools[0].type",
    "web_search",
  ),
  openAiInput({ type: "tool_search_output", tools: [{ type: "mcp" }] }, ".tools[0].type"),
  openAiInput({ type: "mcp_approval_response" }, ".type"),
  openAiPart({ type: "input_image", image_url: URL_TEXT }, ".image_url", "url_source"),
  openAiPart({ type: "input_file", file_url: URL_TEXT }, ".file_url"),
  openAiPart({ type: "input_file", file_id: "file-1" }, ".file_id", "file_id"),
  attack("vendor_b", {
    input: [{ type: "function_call_output", output: [{ type: "input_image", image_url: URL_TEXT }] }],
  }, "input[0].output[0].image_url"),
  openAiInput({ type: "computer_call_output", output: { image_url: URL_TEXT } }, ".output.image_url"),

  attack("compat", { web_search_options: {} }, "web_search_options", "web_search_options"),
  attack("compat", { plugins: [{ id: "web" }] }, "plugins", "plugins"),
  attack("compat", { search_parameters: { mode: "on" } }, "search_parameters"),
  attack("compat", { enable_search: true }, "enable_search"),
  attack("compat", { model: "openai/gpt-5:online" }, "model", "search_model"),
  attack("compat", { model: "perplexity/sonar-pro" }, "model"),
  attack("compat", { tools: [{ function: { name: "x" } }] }, "tools[0].type"),
  chatPart({ type: "image_url", image_url: { url: URL_TEXT } }, ".content[1].image_url", "url_source"),
  chatPart({ type: "video_url", video_url: { url: URL_TEXT } }),
  chatPart({ type: "file", file: { file_id: "f" } }, ".content[1].file"),
  // What a lenient parser would read as the same keys.
  attack("compat", { Tools: [{ type: "web_search" }] }, "Tools"),
  attack("compat", { "tool\u017f": [{ type: "web_search" }] }, "tool"),
  attack("compat", { BACKGROUND: true }, "BACKGROUND"),
  attack("compat", { Model: "other" }, "Model"),
  attack("compat", { tools: [{ type: "function", Type: "web_search" }] }, "tools[0].Type"),
  chatPart({ type: "image_url", IMAGE_URL: { url: URL_TEXT } }),

  ...words(
    "googleSearch googleSearchRetrieval urlContext codeExecution googleMaps enterpriseWebSearch retrieval fileSearch mcpServers",
  )
    .map((name) => geminiTool(name)),
  geminiTool("google_search", "googleSearch"),
  geminiTool("url_context", "urlContext"),
  geminiTool("computer_future", "computerFuture"),
  attack("vendor_c", { cachedContent: "cachedContents/1" }, "cachedContent", "cachedContent"),
  attack("vendor_c", { cached_content: "cachedContents/1" }, "cached_content"),
  attack("vendor_c", { serviceTier: "flex" }, "serviceTier"),
  ...["fileData", "file_data"].map((key) => {
    const contents = [{ parts: [{ text: "x" }, { [key]: { fileUri: URL_TEXT } }] }];
    return attack("vendor_c", { contents }, `contents[0].parts[1].${key}`, "fileData");
  }),
  attack("vendor_c", {
    contents: [{ parts: [{ functionResponse: { parts: [{ fileData: { fileUri: URL_TEXT } }] } }] }],
  }, "contents[0].parts[0].functionResponse.parts[0].fileData"),
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

const GEMINI = "/v1beta/models/gemini-2.5-flash";

const REFUSED_PATHS: Readonly<Record<string, string>> = {
  "vendor_a POST": `
    /v1/messages/batches /v1/files /v1/complete /v1/messages/ //v1/messages /v1//messages /v1/messages/../files
    /v1/./messages /v1/files/../messages /v1%2fmessages /v1/%6dessages /v1/messages%00 /v1/messages;x /v1\\messages
    /V1/Messages http://evil.example/v1/messages /v1/messages?key=abc /v1/messages?beta=true&beta=false
    /v1/messages?beta=true&x=1 /v1/messages?b%65ta=true /v1/messages?beta=a%26key=1 /v1/messages?beta=true?key=1
    /v1/messages?beta=true=;key=abc /v1/messages?beta=true=%26key%3Dabc /v1/messages?beta=true=#x /v1/messages?beta==
    /v1/messages?beta=true;key=abc /v1/chat/completions
  `,
  "vendor_a GET":
    "/v1/models?limit=1=&key=abc /v1/models?limit=1=;key=abc /v1/messages /v1/models/..%2f..%2ffiles /v1/organizations/usage_report/messages",
  "vendor_a PUT": "/v1/messages",
  "vendor_a HEAD": "/",
  "vendor_a OPTIONS": "/v1/messages",
  "vendor_b POST": "/v1/messages /v1/fine_tuning/jobs /v1/batches /v1/embeddings /v1/responses/resp_1/cancel",
  "vendor_b GET": "/v1/models?client_version=1=;key=abc /v1/files /v1/responses/resp_1 /v1/responses/../files",
  "vendor_c POST": `
    ${GEMINI}:batchGenerateContent ${GEMINI}:embedContent /upload/v1beta/files /v1beta/cachedContents
    ${GEMINI}:generateContent?key=abc ${GEMINI}:streamGenerateContent?alt=sse&key=abc
    ${GEMINI}:streamGenerateContent?alt=sse=;key=abc ${GEMINI}:streamGenerateContent?alt=sse=%26key%3Dabc
    /v1beta/models/../files:generateContent /v1beta/models/a..b:generateContent /v1beta/models/a/b:generateContent
    /v1beta/models/a%2fb:generateContent /v1beta/models/:generateContent /v1beta/tunedModels/x:generateContent
  `,
  "compat POST": "/v1/completions /chat/completions",
};

/** Lane, method and path of what is on no list. */
export const REFUSED_ROUTES: readonly (readonly [Lane, string, string])[] = Object.entries(REFUSED_PATHS)
  .flatMap(([on, paths]) => words(paths).map((path) => [...on.split(" "), path] as [Lane, string, string]));

/** Header fields in the place of the one token that a task has. */
export function wrongTokens(
  token: string,
  { other, ended }: { other: string; ended: string },
): Record<string, string>[] {
  return [
    {},
    { "x-api-key": "" },
    { "x-api-key": "wrong" },
    { "x-api-key": token.slice(0, -1) },
    { "x-api-key": `${token}x` },
    { "x-api-key": token.toUpperCase() },
    { "x-api-key": ended },
    { "x-api-key": token, "authorization": `Bearer ${other}` },
    { "x-api-key": token, "x-goog-api-key": "other" },
    { "authorization": `Basic ${btoa(`x:${token}`)}` },
    { "authorization": token },
    { "cookie": `token=${token}` },
  ];
}

/** Bodies of `vendor_a` that hide a tool behind a duplicate or an escaped key, and the field that has to be named. */
export function disguisedBodies(): [body: string, field: string][] {
  const search = '[{"type":"web_search_20250305","name":"w"}]';
  const start = '{"model":"claude-sonnet-4-5","messages":[]';
  return [
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
}

/** Requests with a second one where a length, or a chunk, may or may not end the first. */
export function smuggledRequests(token: string): string[] {
  const json = `host: g\r\nx-api-key: ${token}\r\ncontent-type: application/json\r\n`;
  const inner = `POST /v1/files HTTP/1.1\r\n${json}content-length: 2\r\n\r\n{}`;
  const head = `POST /v1/messages HTTP/1.1\r\n${json}`;
  return [
    `${head}content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n${inner}`,
    `${head}content-length: 2\r\ncontent-length: 100\r\n\r\n{}${inner}`,
    `${head}transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n${inner}`,
  ];
}

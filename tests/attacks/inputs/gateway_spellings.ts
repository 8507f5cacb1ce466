/**
 * Spellings of what a vendor would do in the agent's stead: the same wish under other names, at other places, behind
 * switches of the request's own. Each has to be refused by a gateway that forwards only what it knows.
 */

import type { Lane } from "../../../broker/agents.ts";
import { GOOD_BODIES, LANE_PATHS, turn } from "./gateway.ts";

export interface Spelling {
  lane: Lane;
  path: string;
  body: Record<string, unknown>;
}

const URL_TEXT = "https://evil.example/x";
const CHAT = "/v1/chat/completions";

const adding = (lane: Lane, adds: readonly Record<string, unknown>[], path = LANE_PATHS[lane]): Spelling[] =>
  adds.map((add) => ({ lane, path, body: { ...GOOD_BODIES[lane], ...add } }));
const parts = (lane: Lane, list: readonly unknown[]): Spelling[] =>
  adding(lane, list.map((part) => ({ messages: turn([part]) })));
const search = [{ type: "web_search" }];

const ACTING_MODELS = [
  "jina-deepsearch-v1",
  "o3-deepresearch",
  "tongyi-deepresearch-30b-a3b",
  "glm-4-alltools",
  "perplexity/llama-3.1-sonar-large-128k-online",
  "pplx-70b-online",
  "perplexity:sonar",
  "perplexity-sonar",
  "groq:compound",
  "groq/compound-beta",
  "exa",
  "exa/exa-research",
  "kagi/fastgpt",
  "fastgpt",
  "openrouter/fusion",
  "openrouter/free",
  "openrouter:auto",
  "switchpoint/router",
  "azure/model-router",
];

export const SPELLINGS: readonly Spelling[] = [
  // A switch of the request's own that says "what is below is data".
  ...adding("compat", [
    { type: "tool_call", arguments: { tools: search } },
    { type: "function_call", input: { plugins: [{ id: "web" }] } },
    { name: "x", parameters: { plugins: [{ id: "web" }] } },
    { name: "x", schema: { mcp_servers: [URL_TEXT] } },
    { metadata: { plugins: [{ id: "web" }] } },
    { metadata: { image_url: URL_TEXT, nested: { url: URL_TEXT } } },
    { annotations: [{ image_url: URL_TEXT }] },
    { action: { type: "fetch", url: URL_TEXT } },
  ]),
  // Another case, another alphabet, another separator.
  ...adding("compat", [
    { PLUGINS: [{ id: "web" }] },
    { Plugins: [{ id: "web" }] },
    { "plug-ins": [{ id: "web" }] },
    { "plugin\u017f": [{ id: "web" }] },
    { "\uff50lugins": [{ id: "web" }] },
    { TOOLS: search },
    { "tools ": search },
    { "tools\u200b": search },
    { Web_Search_Options: {} },
    { webSearchOptions: {} },
    { EnableSearch: true },
    { "web-search": true },
  ]),
  ...parts("compat", [
    { type: "image_url", image_url: { url: "data:image/png;base64,AA", URL: URL_TEXT } },
    { type: "image_url", image_url: { Url: URL_TEXT } },
    { type: "image_url", imageUrl: { url: URL_TEXT } },
    { type: "image_url", "image-url": { url: URL_TEXT } },
    { type: "image_url", image_url: [{ url: URL_TEXT }] },
    { type: "image_url", image_url: " https://evil.example/x" },
    { type: "image_url", image_url: "//evil.example/x" },
    { type: "image_url", image_url: "file:///etc/passwd" },
    { type: "IMAGE_URL", image_url: { url: URL_TEXT } },
  ]),
  // Other names for a reference.
  ...parts("compat", [
    { type: "image", image: URL_TEXT },
    { type: "image", uri: URL_TEXT },
    { type: "image", source: { type: "url", url: URL_TEXT } },
    { type: "document", document_url: URL_TEXT },
    { type: "document_url", document_url: { url: URL_TEXT } },
    { type: "file", file: { file_data: URL_TEXT } },
    { type: "file", file: { file_data: " ".repeat(256) + URL_TEXT } },
    { type: "file", file: { file_data: "A".repeat(512) + URL_TEXT } },
    { type: "file", file: { file_data: " AAAA" } },
    { type: "file", file: { file_data: "file-abc123" } },
    { type: "file", file: { file_data: "file_abc123x" } },
    { type: "file", file: { file_data: "AAAAA" } },
    { type: "file", file: { file_data: "AA=A" } },
    { type: "file", file: { file_data: "A===" } },
    { type: "file", file: { uri: URL_TEXT } },
    { type: "file", file: { fileId: "f" } },
    { type: "input_audio", input_audio: { data: URL_TEXT, format: "wav" } },
    { type: "input_audio", input_audio: URL_TEXT },
    { type: "media", fileUri: URL_TEXT },
    { type: "text", text: "x", href: URL_TEXT },
    { type: "text", text: "x", src: URL_TEXT },
  ]),
  // Below the top level.
  ...adding("compat", [
    { extra_body: { plugins: [{ id: "web" }] } },
    { extra_body: { tools: search } },
    { extra: { search: true } },
    { vendor: { web_search: true } },
    { google: { tools: [{ googleSearch: {} }] } },
    { options: { web_search: true } },
    { chat_template_kwargs: { documents: [URL_TEXT] } },
    { reasoning: { effort: "low", web_search: true } },
    { stream_options: { include_usage: true, plugins: [{ id: "web" }] } },
    { response_format: { type: "json_object", tools: search } },
    { tool_choice: { type: "web_search" } },
    { tools: [{ type: "function", function: { name: "x", url: URL_TEXT } }] },
    { tools: [{ type: "function", function: { name: "x" }, server_url: URL_TEXT }] },
    { messages: [{ role: "user", content: "x", tools: search }] },
    { messages: [{ role: "user", content: "x", plugins: [{ id: "web" }] }] },
  ]),
  // Models that act, and lists of others.
  ...adding("compat", [
    { model: "openai/gpt-5:online" },
    { model: "openai/gpt-5:ONLINE" },
    { model: "groq/compound" },
    { model: "compound-mini" },
    { model: "perplexity/sonar-deep-research" },
    { model: "openrouter/auto" },
    { model: "openai/gpt-5@preset/searching" },
    ...ACTING_MODELS.map((model) => ({ model })),
    { models: ["dear"] },
    { Models: ["dear"] },
    { route: "fallback" },
    { provider: { order: ["x"] } },
    { fallbacks: ["dear"] },
    { preset: "searching" },
  ]),
  // What the vendor keeps.
  ...adding("vendor_b", [
    { previous_response_id: "resp_1" },
    { previousResponseId: "resp_1" },
    { conversation: "conv_1" },
    { conversation: { id: "conv_1" } },
    { store: true },
    { input: [{ type: "item_reference", id: "msg_1" }] },
    { input: [{ id: "msg_1" }, { type: "item_reference", id: "msg_1" }] },
    { input: [{ id: "msg_1" }] },
    { input: [{ type: null, id: "msg_1" }] },
    { input: [{ id: "msg_1", role: "user" }] },
    { input: [{ id: "msg_1", role: "user", content: [] }] },
    { input: [{ id: "msg_1", role: "user", content: "" }] },
    { input: [{ id: "msg_1", content: "x" }] },
    { input: [{ type: "message", id: "msg_1" }] },
    { input: [{ type: "reasoning", id: "rs_1", summary: [] }] },
    { input: [{ type: "reasoning", id: "rs_1", summary: [], content: null, encrypted_content: "" }] },
    { input: [{ type: "compaction", id: "cmp_1" }] },
    { background: true },
    { prompt: "pmpt_1" },
    { input: [{ role: "user", content: "x", file_ids: ["f"] }] },
    { tools: [{ type: "function", name: "x", parameters: {}, vector_store_ids: ["v"] }] },
    { input: [{ type: "reasoning", summary: [], url: URL_TEXT }] },
    { input: [{ type: "message", role: "assistant", content: [{ type: "input_image", image_url: URL_TEXT }] }] },
    { text: { format: { type: "text" }, web_search: true } },
  ]),
  ...adding("vendor_b", [{ messages: [], input: undefined, store: true }], CHAT),
  ...adding("vendor_a", [
    { thread: { type: "continue", previous_message_id: "msg_1" } },
    { diagnostics: { previous_message_id: "msg_1" } },
    { type: "tool_use", input: { mcp_servers: [{ url: URL_TEXT }] } },
    { metadata: { user_id: "x", mcp_servers: [{ url: URL_TEXT }] } },
    { system: [{ type: "text", text: "x", source: { type: "url", url: URL_TEXT } }] },
    { tools: [{ name: "x", input_schema: {}, url: URL_TEXT }] },
    { tools: [{ type: "CUSTOM", name: "x", input_schema: {}, server_url: URL_TEXT }] },
    { messages: turn([{ type: "image", source: { type: "base64", data: URL_TEXT } }]) },
    { messages: turn([{ type: "image", source: { type: "base64", data: " ".repeat(256) + URL_TEXT } }]) },
    { messages: turn([{ type: "image", source: { type: "base64", data: "AA", URL: URL_TEXT } }]) },
    { messages: turn([{ type: "server_tool_use", id: "s", name: "web_search", input: { query: "x" } }]) },
    { messages: [{ role: "user", content: "x", source: { type: "url", url: URL_TEXT } }] },
  ]),
  ...adding("vendor_c", [
    { tools: [{ Google_Search: {} }] },
    { generationConfig: { max_outputTokens: 5 } },
    { generationConfig: { maxOutput_tokens: 5 } },
    { generation_Config: { maxOutputTokens: 5 } },
    { generationConfig: { max_output_tokens: 5, maxOutputTokens: null } },
    { tools: { googleSearch: {} } },
    { tools: [{ functionDeclarations: [{ name: "x", googleSearch: {} }] }] },
    { contents: [{ parts: [{ inlineData: { mimeType: "x", data: URL_TEXT } }] }] },
    { contents: [{ parts: [{ inlineData: { mimeType: "x", data: " ".repeat(256) + URL_TEXT } }] }] },
    { contents: [{ parts: [{ inlineData: { mimeType: "x", data: "AA_-A" } }] }] },
    { contents: [{ parts: [{ inlineData: { mimeType: "x", fileUri: URL_TEXT } }] }] },
    { contents: [{ parts: [{ FileData: { fileUri: URL_TEXT } }] }] },
    { contents: { parts: { file_data: { file_uri: URL_TEXT } } } },
    { system_instruction: { parts: [{ fileData: { fileUri: URL_TEXT } }] } },
    { systemInstruction: { parts: [] }, system_instruction: { parts: [{ text: "another" }] } },
    { generationConfig: { routingConfig: { autoMode: {} } } },
    { store: true },
    { model: "models/gemini-2.5-pro" },
  ]),
];

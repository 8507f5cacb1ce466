/**
 * What requests to OpenAI's chat completions and responses APIs, and to endpoints that are compatible with them, may
 * ask for. Endpoints read keys more or less leniently, so the keys that matter are found however they are spelled.
 */

import { words } from "../../../lib/text/words.ts";
import { asObject, type JsonObject } from "../metering/usage.ts";
import {
  type Allowed,
  checkModel,
  fieldName,
  fold,
  isAsked,
  type JsonPlace,
  malformed,
  modelOf,
  refuseFeature,
  refuseTier,
  walk,
} from "./_request_fields.ts";

/** Tools that the client runs. `tool_search` runs at the vendor, over the request's own tools only. */
const CLIENT_TOOLS: ReadonlySet<string> = new Set([
  "function",
  "custom",
  "local_shell",
  "apply_patch",
  "computer",
  "computer_use_preview",
  "tool_search",
]);

/** Top-level fields that have the vendor do more than answer, by folded name. */
const TOP_LEVEL: Readonly<Record<string, string>> = {
  websearchoptions: "the vendor would search the web",
  prompt: "it names a prompt that the vendor holds, with tools of its own",
  plugins: "the endpoint would run plugins",
  mcpservers: "the endpoint would call servers of the request's choice",
};
/** Fields of endpoints that run searches under other names. */
const SEARCHING_FIELD = /search|browse|crawl|plugin|mcp/;

/** Top-level fields that are read here; another spelling of one could be read elsewhere. */
const READ = new Map(
  ["model", "stream", "tools", "functions", "messages", "input", "background", "service_tier", "type"]
    .map((name) => [fold(name), name]),
);

/** Input items of the responses API that hold nothing to run. */
const ITEMS: ReadonlySet<string> = new Set([
  ...words(`
    message reasoning item_reference compaction compaction_trigger function_call function_call_output custom_tool_call
    custom_tool_call_output local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call
    apply_patch_call_output computer_call computer_call_output tool_search_call tool_search_output additional_tools
  `),
  // What an allowed vendor-run tool did in an earlier turn.
  ...words(`
    web_search_call file_search_call code_interpreter_call image_generation_call mcp_list_tools mcp_call
  `),
]);

export function checkOpenAi(body: JsonObject, allowed: Allowed): string {
  for (const [key, value] of Object.entries(body)) checkTopLevel(key, value, allowed);
  const model = modelOf(body);
  checkModel(model, "model", allowed);
  if (Array.isArray(body.input)) {
    body.input.forEach((item, index) => checkItem(item, index, allowed));
  }
  walk(body, (object, place) => visit(object, place, allowed), skip);
  return model;
}

function checkTopLevel(key: string, value: unknown, allowed: Allowed): void {
  const folded = fold(key);
  const name = READ.get(folded);
  if (name !== undefined && name !== key) malformed(key.slice(0, 64), `write it "${name}"`);
  if (!isAsked(value)) return;
  if (folded === "background") refuseTier("background", "an answer in the background cannot be metered");
  if (folded === "servicetier" && value !== "auto" && value !== "default") {
    refuseTier("service_tier", "only auto and default are priced");
  }
  const what = Object.hasOwn(TOP_LEVEL, folded)
    ? TOP_LEVEL[folded]!
    : SEARCHING_FIELD.test(folded)
    ? "the endpoint would search or call out"
    : undefined;
  if (what !== undefined) refuseFeature(allowed, key.slice(0, 64), key.slice(0, 64), what);
}

function checkItem(item: unknown, index: number, allowed: Allowed): void {
  const type = asObject(item)?.type ?? "message";
  if (typeof type === "string" && ITEMS.has(type)) return;
  const place: JsonPlace = { parent: { parent: undefined, key: "input" }, key: index };
  if (typeof type !== "string") malformed(fieldName(place, "type"), "it must be a string");
  refuseFeature(allowed, type.slice(0, 64), fieldName(place, "type"), "an item of this type is not known");
}

function visit(object: JsonObject, place: JsonPlace | undefined, allowed: Allowed): void {
  for (const [key, value] of Object.entries(object)) {
    const folded = fold(key);
    if (folded === "tools") checkTools(value, { parent: place, key }, allowed);
    else if (folded === "type" && key !== "type") malformed(fieldName(place, key), 'write it "type"');
    else if (folded.length > 3 && folded.endsWith("url")) checkUrl(value, { parent: place, key }, allowed);
    else if (folded === "fileid" && isAsked(value)) {
      refuseFeature(allowed, "file_id", fieldName(place, key), "it names a file that the vendor holds");
    }
  }
}

/** `image_url`, `file_url`, `video_url`, ...: a string, or an object with one; only what is in the request itself. */
function checkUrl(value: unknown, place: JsonPlace, allowed: Allowed): void {
  const inner = asObject(value);
  const url = inner ? inner.url : value;
  if (!isAsked(url) || (typeof url === "string" && /^data:/i.test(url))) return;
  refuseFeature(allowed, "url_source", fieldName(place), "the vendor would fetch a URL");
}

function checkTools(tools: unknown, place: JsonPlace, allowed: Allowed): void {
  if (tools === null) return;
  if (!Array.isArray(tools)) malformed(fieldName(place), "it must be a list");
  tools.forEach((tool, index) => checkTool(tool, { parent: place, key: index }, allowed));
}

function checkTool(tool: unknown, place: JsonPlace, allowed: Allowed): void {
  const object = asObject(tool);
  const type = object?.type;
  if (!object || typeof type !== "string") malformed(fieldName(place, "type"), "a tool needs a type");
  if (CLIENT_TOOLS.has(type)) return;
  // Its own list of tools is checked where the walk comes to it.
  if (type === "namespace") return;
  if (type === "shell" && asObject(object.environment)?.type === "local") return;
  const feature = type.replace(/[_-]\d{4}[_-]?\d{2}[_-]?\d{2}$/, "").slice(0, 64);
  if (allowed(type)) return;
  refuseFeature(allowed, feature, fieldName(place, "type"), "the vendor would run this tool");
}

/** What a model wrote and what a tool is described by is data. */
function skip(object: JsonObject, key: string): boolean {
  switch (key) {
    case "parameters":
      return typeof object.name === "string" || object.type === "tool_search";
    case "schema":
      return typeof object.name === "string";
    case "input":
    case "arguments":
      return typeof object.type === "string" && object.type.endsWith("_call");
    case "annotations":
    case "action":
    case "metadata":
      return true;
    default:
      return false;
  }
}

/**
 * What requests to Anthropic's messages API may ask for.
 */

import { words } from "../../../lib/text/words.ts";
import { asString, type JsonObject } from "../metering/usage.ts";
import {
  type Allowed,
  checkModel,
  fieldName,
  isAsked,
  type JsonPlace,
  malformed,
  modelOf,
  refuseFeature,
  refuseTier,
  walk,
} from "./_request_fields.ts";

/** Tools that the client runs. `tool_search_tool` runs at the vendor, over the request's own tools only. */
const CLIENT_TOOLS =
  /^(?:custom|(?:bash|text_editor|computer|memory)_\d{8}|tool_search_tool_(?:bm25|regex)(?:_\d{8})?)$/;

/** Content that holds no tool and is fetched from nowhere. */
const BLOCKS: ReadonlySet<string> = new Set([
  ...words(`
    text image document search_result thinking redacted_thinking tool_use tool_result tool_reference tool_addition
    tool_removal compaction fallback
  `),
  // What an allowed vendor-run tool did in an earlier turn.
  ...words(`
    server_tool_use web_search_tool_result web_search_result web_fetch_tool_result web_fetch_result
    code_execution_tool_result code_execution_output bash_code_execution_tool_result bash_code_execution_output
    text_editor_code_execution_tool_result tool_search_tool_result mcp_tool_use mcp_tool_result
  `),
]);

/** Where content comes from, when it is in the request itself. */
const SOURCES: ReadonlySet<string> = new Set(["base64", "text", "content"]);

const TOP_LEVEL: readonly [string, string][] = [
  ["mcp_servers", "the vendor would call servers of the request's choice"],
  ["container", "the vendor would run code"],
];

export function checkAnthropic(body: JsonObject, allowed: Allowed): string {
  const model = modelOf(body);
  checkModel(model, "model", allowed);
  for (const [field, what] of TOP_LEVEL) {
    if (isAsked(body[field])) refuseFeature(allowed, field, field, what);
  }
  checkTier(body, allowed);
  walk(body, (object, place) => visit(object, place, allowed), skip);
  return model;
}

function checkTier(body: JsonObject, allowed: Allowed): void {
  const { service_tier, speed, inference_geo } = body;
  if (isAsked(service_tier) && service_tier !== "auto" && service_tier !== "standard_only") {
    refuseTier("service_tier", "only auto and standard_only are priced");
  }
  if (isAsked(speed) && speed !== "standard") refuseTier("speed", "only standard is priced");
  if (isAsked(inference_geo) && inference_geo !== "global") refuseTier("inference_geo", "only global is priced");
  if (isAsked(body.fallbacks) && !allowed("fallbacks")) {
    refuseTier("fallbacks", 'another model would answer; to allow it, add "fallbacks" to allow_vendor_tools');
  }
}

function visit(object: JsonObject, place: JsonPlace | undefined, allowed: Allowed): void {
  if (object.tools !== undefined) checkTools(object.tools, place, allowed);
  if (object.type === "tool_addition") checkTool(object.tool, { parent: place, key: "tool" }, allowed);
  if (place?.key === "source") checkSource(object, place, allowed);
  const block = asString(object.type);
  const in_content = typeof place?.key === "number" && place.parent?.key === "content";
  if (block !== undefined && in_content && !BLOCKS.has(block)) {
    refuseFeature(allowed, block, fieldName(place, "type"), `content of type "${printable(block)}" is not known`);
  }
}

function checkSource(source: JsonObject, place: JsonPlace, allowed: Allowed): void {
  const type = asString(source.type);
  if (type === "url") {
    refuseFeature(allowed, "url_source", fieldName(place, "url"), "the vendor would fetch a URL");
  } else if (type === "file") {
    refuseFeature(allowed, "file_source", fieldName(place, "file_id"), "it names a file that the vendor holds");
  } else if (type === undefined ? "url" in source : !SOURCES.has(type)) {
    refuseFeature(allowed, "unknown_source", fieldName(place, "type"), "the kind of source is not known");
  }
}

function checkTools(tools: unknown, place: JsonPlace | undefined, allowed: Allowed): void {
  if (tools === null) return;
  if (!Array.isArray(tools)) malformed(fieldName(place, "tools"), "it must be a list");
  tools.forEach((tool, index) => {
    checkTool(tool, { parent: { parent: place, key: "tools" }, key: index }, allowed);
  });
}

function checkTool(tool: unknown, place: JsonPlace, allowed: Allowed): void {
  if (typeof tool !== "object" || tool === null) malformed(fieldName(place), "a tool must be an object");
  const type = (tool as JsonObject).type;
  // A tool without a type is the client's own; a reference names a tool that is checked where it is defined.
  if (type === undefined || type === null || type === "tool_reference") return;
  if (typeof type !== "string") malformed(fieldName(place, "type"), "it must be a string");
  if (CLIENT_TOOLS.test(type)) return;
  const feature = type.replace(/_\d{8}$/, "");
  if (!allowed(type)) {
    refuseFeature(allowed, feature, fieldName(place, "type"), `the vendor would run the tool "${printable(type)}"`);
  }
}

/** What a model wrote and what a tool is described by is data. */
function skip(object: JsonObject, key: string): boolean {
  switch (key) {
    case "input":
      return typeof object.type === "string" && object.type.endsWith("tool_use");
    case "input_schema":
    case "input_examples":
      return typeof object.name === "string";
    case "schema":
      return object.type === "json_schema";
    case "metadata":
      return true;
    default:
      return false;
  }
}

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, "?").slice(0, 64);
}

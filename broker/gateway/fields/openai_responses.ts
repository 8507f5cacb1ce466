/**
 * What OpenAI's responses API may be asked, and endpoints that have it too.
 */

import { asObject, type JsonObject } from "../metering/usage.ts";
import { cache, file_id, isDefaultTier, SDK, service_tier, store, vendorTool } from "./openai_chat.ts";
import {
  count,
  data,
  data_url,
  each,
  either,
  flag,
  from,
  gated,
  id,
  inline,
  label,
  list,
  map,
  model,
  never,
  number,
  object,
  outputBound,
  type Shape,
  type Table,
  tagged,
  text,
  unknownContent,
} from "./shapes.ts";

const CLIENT = "Codex 0.169, recorded";

const ran = (features: string) => gated(features, "only a tool that the vendor ran leads to it", { at: "type" });
const web_search = ran("web_search web_search_preview");
const file_search = ran("file_search");
const code_interpreter = ran("code_interpreter");
const mcp = ran("mcp");

const annotation = tagged({
  url_citation: web_search,
  file_citation: file_search,
  ...each(code_interpreter, "file_path container_file_citation"),
}, { what: unknownContent });

const file_url = gated("url_source", "the vendor would fetch a URL");
const part = tagged({
  text: object({ type: label, text }),
  input_text: object({ type: label, text, prompt_cache_breakpoint: cache }),
  output_text: object({ type: label, text, annotations: list(annotation), logprobs: data }),
  summary_text: object({ type: label, text }),
  reasoning_text: object({ type: label, text }),
  refusal: object({ type: label, refusal: text }),
  encrypted_content: object({ type: label, encrypted_content: text }),
  input_image: object({ type: label, detail: label, image_url: data_url, file_id, prompt_cache_breakpoint: cache }),
  input_file: object({
    ...each(label, "type detail"),
    filename: text,
    file_data: inline,
    file_url,
    file_id,
    prompt_cache_breakpoint: cache,
  }),
  input_audio: object({ type: label, input_audio: object({ data: inline, format: label }) }),
}, { what: unknownContent });

const parts = either({ text, list: list(part) });
const caller = object({ type: label, caller_id: id });
const common = { type: label, id, call_id: id, status: label, caller, created_by: id, execution: label };

/** What tools of the client's have alike. */
const declared = { type: label, name: id, description: text, defer_loading: flag, allowed_callers: list(label) };
const local = object({ type: label, skills: list(object({ name: id, description: text, path: text })) });
/** Tools that the client runs. `tool_search` runs at the vendor, over the request's own tools only. */
const own_tools = {
  function: object({ ...declared, ...each(data, "parameters output_schema"), strict: flag }),
  custom: object({ ...declared, format: object({ type: label, syntax: label, definition: text }) }),
};
const tool: Shape = tagged({
  ...own_tools,
  local_shell: object({ type: label }),
  apply_patch: object({ type: label, allowed_callers: list(label) }),
  computer: object({ type: label, environment: label, display_width: count, display_height: count }),
  computer_use_preview: object({ type: label, environment: label, display_width: count, display_height: count }),
  tool_search: object({ type: label, execution: label, description: text, parameters: data }),
  namespace: object({
    type: label,
    name: id,
    description: text,
    tools: list(tagged(own_tools, { what: vendorTool, dated: true })),
  }),
  shell: gated("shell", "the vendor would run commands", {
    at: "type",
    unless: ({ environment }) => asObject(environment)?.type === "local",
    inner: object({ type: label, environment: local, allowed_callers: list(label) }),
  }),
}, { what: vendorTool, dated: true });

const compaction = brought(
  ({ encrypted_content }) => isFilled(encrypted_content),
  object({ ...common, encrypted_content: text }),
);
const item = tagged({
  function_call: object({ ...common, ...each(id, "name namespace"), arguments: either({ text, object: data }) }),
  custom_tool_call: object({ ...common, name: id, namespace: id, input: text }),
  ...each(object({ ...common, name: id, output: parts }), "function_call_output custom_tool_call_output"),
  local_shell_call: object({ ...common, action: data }),
  local_shell_call_output: object({ ...common, output: text }),
  shell_call: object({ ...common, action: data, environment: local }),
  shell_call_output: object({ ...common, output: either({ text, list: data }), max_output_length: count }),
  apply_patch_call: object({ ...common, operation: data }),
  apply_patch_call_output: object({ ...common, output: text }),
  computer_call: object({ ...common, action: data, actions: data, pending_safety_checks: data }),
  computer_call_output: object({
    ...common,
    output: object({ type: label, image_url: data_url, file_id }),
    acknowledged_safety_checks: data,
  }),
  reasoning: brought(
    ({ encrypted_content, summary, content }) => [encrypted_content, summary, content].some(isFilled),
    object({ ...common, summary: list(part), content: list(part), encrypted_content: text }),
  ),
  ...each(compaction, "compaction compaction_summary context_compaction"),
  compaction_trigger: object({ type: label }),
  tool_search_call: object({ ...common, arguments: data }),
  tool_search_output: object({ ...common, tools: list(tool) }),
  additional_tools: object({ ...common, role: label, tools: list(tool) }),
  message: message(),
  item_reference: gated("item_reference", "it names what the vendor holds", { at: "type" }),
  web_search_call: web_search,
  file_search_call: file_search,
  code_interpreter_call: code_interpreter,
  image_generation_call: ran("image_generation"),
  ...each(mcp, "mcp_list_tools mcp_call mcp_approval_request mcp_approval_response"),
}, { untagged: message(), what: (tag) => `an item of type "${tag}" is not known` });

/** An item with an id and nothing else that it says is another way to name what the vendor holds. */
function brought(has_content: (item: JsonObject) => boolean, inner: Shape): Shape {
  return gated("item_reference", "without its content it names what the vendor holds", { unless: has_content, inner });
}

function message(): Shape {
  const has_content = ({ role, content, id }: JsonObject) =>
    isFilled(role) && (isFilled(content) || (!isFilled(id) && (content ?? undefined) !== undefined));
  return brought(has_content, object({ ...common, role: label, phase: label, content: parts }));
}

function isFilled(value: unknown): boolean {
  return (typeof value === "string" || Array.isArray(value)) && value.length > 0;
}

const named = { type: label, name: id, namespace: id };
const chosen = {
  ...each(object(named), "function custom namespace"),
  ...each(object({ type: label }), "local_shell shell apply_patch computer computer_use_preview"),
};
const choice = tagged({
  ...chosen,
  allowed_tools: object({ type: label, mode: label, tools: list(tagged(chosen, { what: vendorTool })) }),
}, { what: vendorTool });

export const RESPONSES: Table = {
  versions: ["v1"],
  source: SDK,
  set_by_default: "store",
  body: object(
    from(SDK, {
      model,
      input: either({ text, list: list(item) }),
      instructions: text,
      ...each(flag, "stream parallel_tool_calls"),
      ...each(count, "max_output_tokens max_tool_calls top_logprobs"),
      ...each(number, "temperature top_p"),
      ...each(label, "truncation prompt_cache_retention"),
      ...each(id, "safety_identifier prompt_cache_key"),
      stream_options: object({ include_obfuscation: flag }),
      include: list(label),
      text: object({
        verbosity: label,
        format: tagged({
          text: object({ type: label }),
          json_object: object({ type: label }),
          json_schema: object({ type: label, name: id, description: text, schema: data, strict: flag }),
        }, { what: unknownContent }),
      }),
      reasoning: object(each(label, "effort summary generate_summary context")),
      tools: list(tool),
      tool_choice: either({ text: label, object: choice }),
      context_management: list(tagged({ compaction: object({ type: label, compact_threshold: count }) }, {
        what: unknownContent,
      })),
      metadata: map(text),
      user: text,
      prompt_cache_options: cache,
      service_tier,
      store,
      background: never("an answer in the background cannot be metered"),
      previous_response_id: gated("previous_response_id", "it names an answer that the vendor holds"),
      conversation: gated("conversation", "it names a conversation that the vendor holds"),
      prompt: gated("prompt", "it names a prompt that the vendor holds, with tools of its own"),
    }),
    from(CLIENT, { client_metadata: map(text) }),
  ),
  max_output: ({ max_output_tokens }) => outputBound([max_output_tokens]),
  at_list_price: isDefaultTier,
};

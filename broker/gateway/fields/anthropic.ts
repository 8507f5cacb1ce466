/**
 * What Anthropic's messages API may be asked, `/v1/messages` and its `count_tokens`.
 */

import {
  count,
  data,
  each,
  either,
  type FieldShapes,
  flag,
  from,
  gated,
  id,
  inline,
  label,
  list,
  model,
  number,
  object,
  outputBound,
  priced,
  type Shape,
  type Table,
  tagged,
  text,
  unknownContent,
} from "./shapes.ts";

const SDK = "@anthropic-ai/sdk 1.14, beta messages";
const CLIENT = "Claude Code 2.1.197, recorded";

const cache_control = object({ type: label, ttl: label, scope: label });
const caller = object({ type: label, tool_id: id });
const web_search = gated("web_search", "only a search of the vendor's leads to it");
const code = gated("code_execution", "only code that the vendor ran leads to it", { at: "type" });
const mcp = gated("mcp_servers", "only a server that the vendor called leads to it", { at: "type" });
const held_file = gated("file_source", "it names a file that the vendor holds");

const citation = tagged({
  char_location: location("start_char_index", "end_char_index"),
  page_location: location("start_page_number", "end_page_number"),
  ...each(location("start_block_index", "end_block_index"), "content_block_location search_result_location"),
  web_search_result_location: { ...web_search, at: "type" },
}, { what: unknownContent });

function location(start: string, end: string): Shape {
  const indices = each(count, `document_index search_result_index ${start} ${end}`);
  return object({
    type: label,
    ...each(text, "cited_text document_title title source"),
    file_id: held_file,
    ...indices,
  });
}

const text_block = object({ type: label, text, citations: list(citation), cache_control });
const texts = list(tagged({ text: text_block }, { what: unknownContent }));
const image = object({
  type: label,
  source: tagged({
    base64: object({ type: label, media_type: label, data: inline }),
    url: gated("url_source", "the vendor would fetch a URL", { at: "url" }),
    file: { ...held_file, features: ["file_source"], at: "file_id" },
  }, { what: () => "the kind of source is not known" }),
  cache_control,
  transformations: object({ oversized_image: label }),
});
const document = object({
  type: label,
  source: tagged({
    base64: object({ type: label, media_type: label, data: inline }),
    text: object({ type: label, media_type: label, data: text }),
    content: object({
      type: label,
      content: either({ text, list: list(tagged({ text: text_block, image }, { what: unknownContent })) }),
    }),
    url: gated("url_source", "the vendor would fetch a URL", { at: "url" }),
    file: { ...held_file, at: "file_id" },
  }, { what: () => "the kind of source is not known" }),
  title: text,
  context: text,
  citations: object({ enabled: flag }),
  cache_control,
});
const search_result = object({
  type: label,
  ...each(text, "source title"),
  content: texts,
  citations: object({ enabled: flag }),
  cache_control,
});
const tool_reference = object({ type: label, tool_name: id, name: id, cache_control });

/** Tools that the client runs. `tool_search_tool` runs at the vendor, over the request's own tools only. */
const own_tool: FieldShapes = {
  type: label,
  name: id,
  cache_control,
  ...each(flag, "defer_loading strict eager_input_streaming"),
  allowed_callers: list(label),
  input_examples: list(data),
};
const custom = object({ ...own_tool, description: text, input_schema: data });
const display = { display_width_px: count, display_height_px: count, display_number: count, enable_zoom: flag };
const tool = tagged({
  custom,
  ...each(object(own_tool), "bash memory tool_search_tool_bm25 tool_search_tool_regex"),
  text_editor: object({ ...own_tool, max_characters: count }),
  computer: object({ ...own_tool, ...display }),
}, { untagged: custom, dated: true, what: (tag) => `the vendor would run the tool "${tag}"` });

const changed_tool = tagged({
  tool_reference,
  tool_definition: object({ type: label, definition: tool }),
  ...each(mcp, "mcp_tool_reference mcp_toolset_reference"),
}, { dated: true, untagged: custom, what: (tag) => `the vendor would run the tool "${tag}"` });

const change = object({ type: label, tool: changed_tool, cache_control });

const own_server_tool = object({ type: label, id, name: id, input: data, caller, cache_control });

const result_content = tagged({ text: text_block, image, document, search_result, tool_reference }, {
  what: unknownContent,
});

const block = tagged({
  text: text_block,
  image,
  document,
  search_result,
  tool_reference,
  thinking: object({ type: label, thinking: text, signature: text, cache_control }),
  redacted_thinking: object({ type: label, data: text, cache_control }),
  tool_use: object({ type: label, id, name: id, input: data, caller, toolset_name: id, cache_control }),
  tool_result: object({
    type: label,
    tool_use_id: id,
    content: either({ text, list: list(result_content) }),
    is_error: flag,
    toolset_name: id,
    cache_control,
  }),
  ...each(change, "tool_addition tool_removal"),
  compaction: object({
    type: label,
    ...each(text, "content encrypted_content signature"),
    tool_changes: list(tagged({ tool_addition: change, tool_removal: change }, { what: unknownContent })),
    cache_control,
  }),
  server_tool_use: tagged(each(own_server_tool, "tool_search_tool_bm25 tool_search_tool_regex"), {
    tag: "name",
    what: (tag) => `only the vendor's tool "${tag}" leads to it`,
  }),
  tool_search_tool_result: object({
    type: label,
    tool_use_id: id,
    content: object({
      type: label,
      tool_references: list(tagged({ tool_reference }, { what: unknownContent })),
      error_code: label,
      error_message: text,
    }),
    cache_control,
  }),
  fallback: gated("fallbacks", "only another model leads to it", { at: "type" }),
  web_search_tool_result: { ...web_search, at: "type" },
  web_fetch_tool_result: gated("web_fetch", "only a fetch of the vendor's leads to it", { at: "type" }),
  ...each(
    code,
    "code_execution_tool_result bash_code_execution_tool_result text_editor_code_execution_tool_result",
  ),
  ...each(mcp, "mcp_tool_use mcp_tool_result"),
}, { what: unknownContent });

const json_schema = object({ type: label, name: id, schema: data });
const trigger = object({ type: label, value: count });
const keep = either({ text: label, object: trigger });
const edit = tagged({
  clear_tool_uses: object({
    type: label,
    keep,
    trigger,
    clear_at_least: trigger,
    clear_tool_inputs: { kind: "either", list: list(id), object: flag },
    exclude_tools: list(id),
  }),
  clear_thinking: object({ type: label, keep }),
  compact: object({ type: label, trigger, instructions: text, pause_after_compaction: flag }),
}, { dated: true, what: (tag) => `an edit of type "${tag}" is not known` });

const message = object({
  role: label,
  content: either({ text, list: list(block) }),
  // Of Claude Code 2.1.329 for its own choice of a model: the effort from that message on.
  output_config: object({ effort: label }),
});

const choice = object({ type: label, disable_parallel_tool_use: flag });
const tool_choice = tagged({
  ...each(choice, "auto any none"),
  tool: object({ type: label, name: id, disable_parallel_tool_use: flag }),
}, { what: (tag) => `a choice of type "${tag}" is not known` });

export const MESSAGES: Table = {
  // The newer one has no `temperature`, `top_k` and `top_p`, and the same answers and usage,
  // https://platform.claude.com/docs/en/api/versioning.
  versions: ["2023-06-01", "2026-10-21"],
  source: SDK,
  body: object(
    from(SDK, {
      model,
      ...each(count, "max_tokens top_k"),
      messages: list(message),
      system: either({ text, list: texts }),
      stop_sequences: list(text),
      stream: flag,
      ...each(number, "temperature top_p"),
      thinking: object({
        type: label,
        budget_tokens: count,
        display: label,
        block_binding: object({ prefix_mismatch_behavior: label }),
      }),
      tools: list(tool),
      tool_choice,
      metadata: object({ user_id: text }),
      cache_control,
      compaction: object({ type: label, instructions: text }),
      output_config: object({
        effort: label,
        format: json_schema,
        task_budget: object({ type: label, total: count, remaining: count }),
      }),
      output_format: json_schema,
      diagnostics: object({
        previous_message_id: gated("previous_message_id", "it names an answer that the vendor holds"),
      }),
      service_tier: priced("auto standard_only"),
      speed: priced("standard"),
      inference_geo: priced("global"),
      fallbacks: gated("fallbacks", "another model would answer"),
      mcp_servers: gated("mcp_servers", "the vendor would call servers of the request's choice"),
      container: gated("container", "the vendor would run code"),
      thread: gated("thread", "the vendor would hold the conversation"),
    }),
    from(CLIENT, { context_management: object({ edits: list(edit) }) }),
  ),
  max_output: ({ max_tokens }) => outputBound([max_tokens]),
  at_list_price: ({ inference_geo }) => String(inference_geo).toLowerCase() === "global",
};

/**
 * What chat completions may be asked, of OpenAI and of endpoints that are compatible with it, and what the responses API
 * has of it. An endpoint's own fields are in the table where many have them and they do nothing but shape the answer;
 * others are the operator's to allow.
 */

import { asObject, type JsonObject } from "../metering/usage.ts";
import {
  count,
  data,
  data_url,
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
  map,
  model,
  never,
  number,
  object,
  type OutputBound,
  outputBound,
  priced,
  type Shape,
  type Sourced,
  type Table,
  tagged,
  text,
  unknownContent,
} from "./shapes.ts";

export const SDK = "openai 6.49";

export const file_id = gated("file_id", "it names a file that the vendor holds");
export const service_tier = priced("auto default");
/** Left out, or "auto", it is the project's. */
export const isDefaultTier = ({ service_tier }: JsonObject): boolean =>
  String(service_tier).toLowerCase() === "default";
export const store = gated("store", "the vendor would keep the answer, and later requests could call on it");
export const cache = object({ mode: label, ttl: label });

export function vendorTool(tag: string): string {
  return `the vendor would run the tool "${tag}"`;
}

const ENDPOINTS = "endpoints of one's own: sampling and templates";
const REASONING = "endpoints of one's own: reasoning, asked for and handed back";
const ROUTERS = "endpoints that search or choose: known by name";
const CACHING = "endpoints that pass marks of what to cache on";

function part(extra: FieldShapes): Shape {
  const common = { type: label, prompt_cache_breakpoint: cache, ...extra };
  const url = object({ url: data_url, detail: label, format: label });
  return tagged({
    text: object({ ...common, text }),
    refusal: object({ ...common, refusal: text }),
    image_url: object({ ...common, image_url: either({ text: data_url, object: url }) }),
    video_url: object({ ...common, video_url: either({ text: data_url, object: url }) }),
    audio_url: object({ ...common, audio_url: either({ text: data_url, object: url }) }),
    input_audio: object({ ...common, input_audio: object({ data: inline, format: label }) }),
    file: object({ ...common, file: object({ file_id, file_data: inline, filename: text }) }),
  }, { what: unknownContent });
}

const called = object({ name: id, arguments: either({ text, object: data }) });

function message(part_extra: FieldShapes, call_extra: FieldShapes, ...own: Sourced[]): Shape {
  const call = { id, index: count, ...call_extra };
  return object(
    from(SDK, {
      role: label,
      name: id,
      content: either({ text, list: list(part(part_extra)) }),
      refusal: text,
      tool_call_id: id,
      tool_calls: list(tagged({
        function: object({ ...call, type: label, function: called }),
        custom: object({ ...call, type: label, custom: object({ name: id, input: text }) }),
      }, { untagged: object({ ...call, function: called }), what: vendorTool })),
      function_call: called,
      audio: gated("audio", "it names an answer that the vendor holds"),
    }),
    ...own,
  );
}

const declared = object({ name: id, description: text, parameters: data, strict: flag });
const grammar = object({ syntax: label, definition: text });
const tools = (extra: FieldShapes) =>
  list(tagged({
    function: object({ type: label, function: declared, ...extra }),
    custom: object({
      type: label,
      custom: object({ name: id, description: text, format: object({ type: label, grammar }) }),
    }),
  }, { what: vendorTool, dated: true }));

const named = object({ name: id });
const choice = tagged({
  function: object({ type: label, function: named }),
  custom: object({ type: label, custom: named }),
  allowed_tools: object({
    type: label,
    allowed_tools: object({
      mode: label,
      tools: list(tagged({ function: object({ type: label, function: named }) }, { what: vendorTool })),
    }),
  }),
}, { what: vendorTool });

const format = tagged({
  text: object({ type: label }),
  json_object: object({ type: label, schema: data }),
  json_schema: object({
    type: label,
    json_schema: object({ name: id, description: text, schema: data, strict: flag }),
  }),
}, { what: unknownContent });

const fields = (chat_message: Shape, tool_extra: FieldShapes = {}): FieldShapes => ({
  model,
  messages: list(chat_message),
  ...each(count, "max_tokens max_completion_tokens n top_logprobs"),
  ...each(flag, "stream logprobs parallel_tool_calls"),
  ...each(number, "temperature top_p frequency_penalty presence_penalty seed"),
  ...each(label, "reasoning_effort verbosity prompt_cache_retention"),
  ...each(id, "safety_identifier prompt_cache_key"),
  stream_options: object({ include_usage: flag, include_obfuscation: flag }),
  logit_bias: map(number),
  stop: either({ text, list: list(text) }),
  response_format: format,
  tools: tools(tool_extra),
  tool_choice: either({ text: label, object: choice }),
  functions: list(object({ name: id, description: text, parameters: data })),
  function_call: either({ text: label, object: named }),
  modalities: list(label),
  audio: object({ format: label, voice: label }),
  prediction: object({ type: label, content: either({ text, list: list(part({})) }) }),
  metadata: map(text),
  user: text,
  prompt_cache_options: cache,
  service_tier,
  store,
  web_search_options: gated("web_search_options", "the vendor would search the web"),
  background: never("an answer in the background cannot be metered"),
});

function maxOutput({ max_tokens, max_completion_tokens, n }: JsonObject): OutputBound {
  return outputBound([max_tokens, max_completion_tokens], n);
}

export const CHAT: Table = {
  versions: ["v1"],
  source: SDK,
  body: object(from(SDK, fields(message({}, {})))),
  max_output: maxOutput,
  at_list_price: isDefaultTier,
};

const cached = { cache_control: object({ type: label, ttl: label }) };
const compat_message = message(
  cached,
  { extra_content: object({ google: object({ thought_signature: text }) }) },
  from(REASONING, {
    ...each(text, "reasoning reasoning_content reasoning_text"),
    reasoning_details: list(
      object({ ...each(label, "type format"), id, index: count, ...each(text, "text summary data signature") }),
    ),
    prefix: flag,
  }),
  from(CACHING, cached),
);

/** Some endpoints count thoughts towards the limit, others beside it. */
function compatMaxOutput(body: JsonObject): OutputBound {
  const { thinking_budget, thinking, reasoning, chat_template_kwargs } = body;
  const budgets = [
    thinking_budget,
    asObject(thinking)?.budget_tokens,
    asObject(reasoning)?.max_tokens,
    asObject(chat_template_kwargs)?.thinking_budget,
  ].map((budget) => typeof budget === "number" ? budget : 0);
  const { max_output, answers } = maxOutput(body);
  return { max_output: max_output && max_output + Math.max(0, ...budgets), answers };
}

export const COMPAT_CHAT: Table = {
  versions: ["v1"],
  source: SDK,
  body: object(
    from(SDK, fields(compat_message, cached)),
    from(ENDPOINTS, {
      ...each(
        number,
        "top_k min_p top_a typical_p tfs_z repetition_penalty repeat_penalty repeat_last_n length_penalty",
      ),
      ...each(number, "mirostat mirostat_eta mirostat_tau dry_multiplier dry_base dry_allowed_length"),
      ...each(flag, "ignore_eos skip_special_tokens cache_prompt enable_thinking"),
      ...each(count, "min_tokens thinking_budget"),
      stop_token_ids: list(count),
      keep_alive: { kind: "either", text: label, object: number },
      chat_template_kwargs: object({
        ...each(flag, "enable_thinking thinking"),
        thinking_budget: count,
        reasoning_effort: label,
      }),
      usage: object({ include: flag }),
    }),
    from(REASONING, {
      thinking: object({ type: label, budget_tokens: count, clear_thinking: flag }),
      reasoning: object({ effort: label, max_tokens: count, exclude: flag, enabled: flag }),
      include_reasoning: flag,
    }),
    from(ROUTERS, {
      models: gated("models", "another model could answer"),
      fallbacks: gated("fallbacks", "another model could answer"),
      route: gated("route", "another model could answer"),
      provider: gated("provider", "the endpoint would send it elsewhere"),
      preset: gated("preset", "it names settings that the endpoint holds"),
      plugins: gated("plugins", "the endpoint would run plugins"),
      transforms: list(label),
      search_parameters: gated("search_parameters", "the endpoint would search"),
      mcp_servers: gated("mcp_servers", "the endpoint would call servers of the request's choice"),
      previous_response_id: gated("previous_response_id", "it names an answer that the endpoint holds"),
      conversation: gated("conversation", "it names a conversation that the endpoint holds"),
    }),
  ),
  max_output: compatMaxOutput,
  at_list_price: isDefaultTier,
};

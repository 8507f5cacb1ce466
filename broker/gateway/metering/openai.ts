/**
 * Usage in answers of OpenAI's APIs and of endpoints that are compatible with them.
 * Input counts include what caches served and stored; output counts include reasoning.
 *
 * Chat completions stream usage only when the client asked for it, in a last chunk, or cumulatively in every chunk at
 * some endpoints; the responses API sends it with the closing event. The largest figure counts.
 */

import { asName, boundedUsage } from "./answer_json.ts";
import {
  asObject,
  asString,
  type JsonObject,
  type ModelUsage,
  noUsage,
  readCost,
  TokenReader,
  type Usage,
} from "./usage.ts";
import { largest } from "./figures.ts";
import { type Reading, writtenBytes } from "./usage_reading.ts";

const CLOSING = new Set(["response.completed", "response.incomplete", "response.failed"]);

export class OpenAiReading implements Reading {
  #usage: JsonObject | undefined;
  served_model: string | undefined;
  service_tier: string | undefined;
  readonly region: string | undefined = undefined;
  done = false;
  failed = false;
  answer_bytes = 0;
  #finished = false;

  /** The marker at the end of a chat is the meter's to see; some endpoints send none after the figures. */
  get whole(): boolean {
    return this.done || (this.#finished && this.#usage !== undefined);
  }

  take(value: JsonObject): void {
    const type = asString(value.type);
    if (type?.endsWith(".delta")) this.answer_bytes += writtenBytes(value.delta);
    const response = asObject(value.response);
    if (type?.startsWith("response.") && response) {
      this.#answer(response);
      if (CLOSING.has(type)) this.done = true;
      if (type === "response.failed") this.failed = true;
    } else if (type === "error" || asObject(value.error)) {
      this.failed = true;
      this.#answer(value);
    } else {
      this.#answer(value);
    }
    if (type === undefined) this.answer_bytes += writtenBytes(value.output);
  }

  get lacks(): boolean {
    const { prompt_tokens, input_tokens, completion_tokens, output_tokens } = this.#usage ?? {};
    return (prompt_tokens ?? input_tokens) === undefined || (completion_tokens ?? output_tokens) === undefined;
  }

  /** OpenRouter's `usage.cost`: credits, of which one is a dollar (https://openrouter.ai/docs/use-cases/usage-accounting). */
  get reported_usd(): number | undefined {
    return readCost(this.#usage?.cost);
  }

  used(): { used: ModelUsage[]; sane: boolean } | undefined {
    if (!this.#usage) return undefined;
    const reader = new TokenReader();
    const usage = readUsage(this.#usage, reader);
    return { used: [{ usage }], sane: reader.sane };
  }

  #answer(answer: JsonObject): void {
    for (const choice of Array.isArray(answer.choices) ? answer.choices.map(asObject) : []) {
      this.answer_bytes += writtenBytes(choice?.delta) + writtenBytes(choice?.message);
      this.#finished ||= asString(choice?.finish_reason) !== undefined;
    }
    this.served_model = asName(answer.model) ?? this.served_model;
    const tier = asName(answer.service_tier);
    if (tier !== undefined) this.service_tier = tier === "default" || tier === "auto" ? undefined : tier;
    const usage = asObject(answer.usage);
    if (usage && isUsage(usage)) this.#usage = boundedUsage(largest(this.#usage, usage));
  }
}

/** Some endpoints send `usage: {}` until they know. */
function isUsage(usage: JsonObject): boolean {
  return ["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens"].some((name) =>
    usage[name] !== undefined && usage[name] !== null
  );
}

function readUsage(reported: JsonObject, reader: TokenReader): Usage {
  const usage = noUsage();
  const details = asObject(reported.prompt_tokens_details) ?? asObject(reported.input_tokens_details);
  const dearer = (...names: string[]) => Math.max(0, ...names.map((name) => reader.read(reported[name]) ?? 0));
  const input = dearer("prompt_tokens", "input_tokens");
  // Some endpoints leave thoughts out of the output, and count them in the sum alone.
  usage.output_tokens = Math.max(dearer("completion_tokens", "output_tokens"), dearer("total_tokens") - input);
  usage.cache_read_tokens = reader.part(details?.cached_tokens, input);
  usage.cache_write_5m_tokens = reader.part(details?.cache_write_tokens, input - usage.cache_read_tokens);
  usage.input_tokens = input - usage.cache_read_tokens - usage.cache_write_5m_tokens;
  usage.input_audio_tokens = reader.part(details?.audio_tokens, usage.input_tokens);
  return usage;
}

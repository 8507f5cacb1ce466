/**
 * Usage in answers of Anthropic's messages API. `input_tokens` excludes what caches served and stored. In a stream,
 * `message_start` carries a first usage and each `message_delta` a cumulative one: the larger figure counts, they do not
 * add.
 *
 * `usage.iterations` lists what one request ran inside the vendor. Compaction, advisors and attempts by another model
 * are billed beside the top-level figures; the entries of type `message` repeat the top level.
 */

import { asName, boundedUsage, UnreadableAnswer } from "./answer_json.ts";
import { asObject, asString, type JsonObject, type ModelUsage, noUsage, TokenReader, type Usage } from "./usage.ts";
import { largest } from "./figures.ts";
import { type Reading, writtenBytes } from "./usage_reading.ts";

/** Each becomes a row of its own in what was metered; one request runs some dozens. */
const MAX_ITERATIONS = 1_000;

const REPORTED = ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"] as const;

export class AnthropicReading implements Reading {
  #usage: JsonObject | undefined;
  #streamed = false;
  served_model: string | undefined;
  service_tier: string | undefined;
  region: string | undefined;
  done = false;
  failed = false;
  answer_bytes = 0;

  get whole(): boolean {
    return this.done;
  }

  take(value: JsonObject): void {
    switch (value.type) {
      case "message_start": {
        this.#streamed = true;
        const message = asObject(value.message);
        if (message) this.#message(message);
        break;
      }
      case "message_delta":
        this.#merge(asObject(value.usage));
        break;
      case "content_block_start":
        this.#streamed = true;
        this.answer_bytes += writtenBytes(value.content_block);
        break;
      case "content_block_delta":
        this.#streamed = true;
        this.answer_bytes += writtenBytes(value.delta);
        break;
      case "message_stop":
        this.done = true;
        break;
      case "error":
        this.failed = true;
        this.answer_bytes += writtenBytes(value.content);
        break;
      case "message":
        this.#message(value);
        break;
      default:
    }
  }

  used(): { used: ModelUsage[]; sane: boolean } | undefined {
    const reported = this.#usage;
    if (!reported || !REPORTED.some((name) => reported[name] !== undefined)) return undefined;
    const reader = new TokenReader();
    const used: ModelUsage[] = [{ usage: readUsage(reported, reader) }];
    for (const entry of Array.isArray(reported.iterations) ? reported.iterations : []) {
      const iteration = asObject(entry);
      if (!iteration || iteration.type === "message" || iteration.type === "fallback_message") continue;
      const model = asName(iteration.model);
      used.push({ usage: readUsage(iteration, reader), ...(model === undefined ? {} : { model }) });
    }
    // A stream that breaks off has not counted the last of its output.
    return { used, sane: reader.sane && !this.failed && (!this.#streamed || this.done) };
  }

  get lacks(): boolean {
    const { input_tokens, output_tokens } = this.#usage ?? {};
    return input_tokens === undefined || output_tokens === undefined;
  }

  #message(message: JsonObject): void {
    this.answer_bytes += writtenBytes(message.content);
    if (asObject(message.error)) this.failed = true;
    this.served_model = asName(message.model) ?? this.served_model;
    this.#merge(asObject(message.usage));
  }

  #merge(usage: JsonObject | undefined): void {
    if (!usage) return;
    this.#usage = boundedUsage(largest(this.#usage, usage));
    const { iterations } = this.#usage;
    if (Array.isArray(iterations) && iterations.length > MAX_ITERATIONS) {
      throw new UnreadableAnswer("The answer names more iterations than are read");
    }
    // Only this one costs more; others are the default or what the operator bought beforehand.
    this.service_tier = asString(usage.speed) === "fast" ? "fast" : this.service_tier;
    this.region = asName(usage.inference_geo) ?? this.region;
  }
}

function readUsage(reported: JsonObject, reader: TokenReader): Usage {
  const usage = noUsage();
  usage.input_tokens = reader.read(reported.input_tokens) ?? 0;
  usage.output_tokens = reader.read(reported.output_tokens) ?? 0;
  usage.cache_read_tokens = reader.read(reported.cache_read_input_tokens) ?? 0;
  const by_term = asObject(reported.cache_creation);
  usage.cache_write_5m_tokens = reader.read(by_term?.ephemeral_5m_input_tokens) ?? 0;
  usage.cache_write_1h_tokens = reader.read(by_term?.ephemeral_1h_input_tokens) ?? 0;
  const written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens;
  // Without the split, or with one that is older than the total, the rest is the default term.
  const total = reader.read(reported.cache_creation_input_tokens) ?? written;
  usage.cache_write_5m_tokens += Math.max(0, total - written);
  return usage;
}

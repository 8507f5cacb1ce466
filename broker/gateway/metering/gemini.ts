/**
 * Usage in answers of the Gemini API. `promptTokenCount` includes what a cache served; thoughts are billed as output
 * and stand outside the candidates; what vendor-run tools fed back is billed as input and stands outside the prompt.
 * Every chunk of a stream carries cumulative figures, not always all of them: of each figure the largest counts.
 */

import { asName, boundedUsage } from "./answer_json.ts";
import { asObject, asString, type JsonObject, type ModelUsage, noUsage, TokenReader, type Usage } from "./usage.ts";
import { largest } from "./figures.ts";
import { type Reading, writtenBytes } from "./usage_reading.ts";

export class GeminiReading implements Reading {
  #usage: JsonObject | undefined;
  served_model: string | undefined;
  service_tier: string | undefined;
  readonly region: string | undefined = undefined;
  /** No chunk is marked as the last one. */
  readonly done = false;
  failed = false;
  /** The last chunk says why it is the last one. */
  whole = false;
  answer_bytes = 0;

  take(value: JsonObject): void {
    for (const candidate of Array.isArray(value.candidates) ? value.candidates.map(asObject) : []) {
      if (candidate?.finishReason) this.whole = true;
      this.answer_bytes += writtenBytes(asObject(candidate?.content)?.parts);
    }
    if (asObject(value.promptFeedback)?.blockReason) this.whole = true;
    this.served_model = asName(value.modelVersion) ?? this.served_model;
    if (asObject(value.error)) this.failed = true;
    const usage = asObject(value.usageMetadata);
    if (!usage) return;
    this.#usage = boundedUsage(largest(this.#usage, usage));
    if (asString(usage.trafficType) === "ON_DEMAND_PRIORITY") this.service_tier = "priority";
  }

  /** A count of zero is left out; the sum says whether more than the prompt was counted. */
  get lacks(): boolean {
    const { promptTokenCount, candidatesTokenCount, thoughtsTokenCount, totalTokenCount } = this.#usage ?? {};
    return promptTokenCount === undefined ||
      (this.answer_bytes > 0 && (candidatesTokenCount ?? thoughtsTokenCount ?? totalTokenCount) === undefined);
  }

  used(): { used: ModelUsage[]; sane: boolean } | undefined {
    const reported = this.#usage;
    if (!reported || (reported.promptTokenCount === undefined && reported.totalTokenCount === undefined)) {
      return undefined;
    }
    const reader = new TokenReader();
    const usage = readUsage(reported, reader);
    return { used: [{ usage }], sane: reader.sane };
  }
}

function readUsage(reported: JsonObject, reader: TokenReader): Usage {
  const usage = noUsage();
  const prompt = reader.read(reported.promptTokenCount) ?? 0;
  usage.cache_read_tokens = reader.part(reported.cachedContentTokenCount, prompt);
  usage.input_tokens = prompt - usage.cache_read_tokens + (reader.read(reported.toolUsePromptTokenCount) ?? 0);
  usage.input_audio_tokens = Math.min(audioTokens(reported.promptTokensDetails, reader), usage.input_tokens);
  const output = (reader.read(reported.candidatesTokenCount) ?? 0) + (reader.read(reported.thoughtsTokenCount) ?? 0);
  const tools = reader.read(reported.toolUsePromptTokenCount) ?? 0;
  usage.output_tokens = Math.max(output, (reader.read(reported.totalTokenCount) ?? 0) - prompt - tools);
  return usage;
}

function audioTokens(details: unknown, reader: TokenReader): number {
  const audio = (Array.isArray(details) ? details : []).map(asObject).find((entry) => entry?.modality === "AUDIO");
  return reader.read(audio?.tokenCount) ?? 0;
}

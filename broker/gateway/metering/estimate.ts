/**
 * What is charged where the figures of an answer are missing: at most what the request could cost, or what the bytes
 * that were seen say.
 */

import { type Metered, noUsage, totalInput } from "./usage.ts";

/** Vendors make at most one token of a byte, whatever the language. */
const FEWEST_BYTES_OF_TOKEN = 1;
/** About what text in most languages and code has; estimates err to the dear side. */
const BYTES_OF_TOKEN = 3;
/** Tokens of an image or a page in a request, whose bytes say little: the most, and what is common. */
const MOST_TOKENS_OF_FILE = 20_000;
const TOKENS_OF_FILE = 1_600;

export interface SentRequest {
  body_bytes: number;
  inline_bytes: number;
  inline_files: number;
  /** Of one answer; undefined where the request sets no limit. */
  max_output: number | undefined;
  answers: number;
  at_list_price: boolean;
}

/** What a request can have at most. */
export interface Bound {
  input_tokens: number;
  max_output: number | undefined;
  answers: number;
  at_list_price: boolean;
}

/** More tokens than a request can have. */
export function bound({ body_bytes, inline_files, max_output, answers, at_list_price }: SentRequest): Bound {
  const input_tokens = body_bytes / FEWEST_BYTES_OF_TOKEN + inline_files * MOST_TOKENS_OF_FILE;
  return { input_tokens, max_output, answers, at_list_price };
}

/**
 * The usage of an answer that broke off: of each figure the larger one of what was reported and what is estimated. An
 * input that was reported is exact. Nothing is estimated of a stream that would not have ended with figures.
 */
export function estimated(
  metered: Metered,
  seen: SentRequest & { answer_bytes: number; wants_usage: boolean },
): Metered {
  const [first, ...rest] = metered.used;
  if (first === undefined && !seen.wants_usage) return metered;
  const usage = { ...noUsage(), ...first?.usage };
  if (totalInput(usage) === 0) {
    const text_bytes = Math.max(0, seen.body_bytes - seen.inline_bytes);
    usage.input_tokens = Math.ceil(text_bytes / BYTES_OF_TOKEN) + seen.inline_files * TOKENS_OF_FILE;
  }
  usage.output_tokens = Math.max(usage.output_tokens, Math.ceil(seen.answer_bytes / BYTES_OF_TOKEN));
  return { ...metered, used: [{ ...first, usage }, ...rest], complete: false };
}

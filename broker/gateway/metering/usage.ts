/**
 * What a request used, in one shape for all vendors: five kinds of tokens that do not overlap. Counts come from other
 * people's servers; nothing in them can make a count negative, fractional, infinite or absurd.
 */

/**
 * Larger than any request can be: the largest context window is about 10 million tokens. A count above it is the
 * endpoint's mistake and no reason to end a task's budget.
 */
const MAX_TOKENS = 100_000_000;

/** More than any request can cost: a figure above it is the endpoint's mistake. */
const MAX_REPORTED_USD = 10_000;

/** A cost as an endpoint reports it; undefined for what is none. */
export function readCost(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= MAX_REPORTED_USD ? value : undefined;
}

/** Tokens of one request; every token is in exactly one field. */
export interface Usage {
  /** Input that no cache served or stored. */
  input_tokens: number;
  /** Of `input_tokens`, audio; priced apart where the vendor does. */
  input_audio_tokens: number;
  cache_read_tokens: number;
  /** Input stored for five minutes, or for the vendor's only term. */
  cache_write_5m_tokens: number;
  cache_write_1h_tokens: number;
  output_tokens: number;
}

/** Usage by the model that it is billed as; `model` undefined stands for the request's own. */
export interface ModelUsage {
  model?: string;
  usage: Usage;
}

export interface Metered {
  /** Empty when the response carried no usage. */
  used: ModelUsage[];
  /** The model that answered, by the vendor's report. */
  served_model?: string;
  /** The service tier by the vendor's report, when it is not the standard one. */
  service_tier?: string;
  /** Where inference ran, when the vendor charges more for it. */
  region?: string;
  /** What the answer says that it cost, at the endpoints that say so. */
  reported_usd?: number;
  complete: boolean;
}

export function noUsage(): Usage {
  return {
    input_tokens: 0,
    input_audio_tokens: 0,
    cache_read_tokens: 0,
    cache_write_5m_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: 0,
  };
}

/** All input tokens, cached or not; what a long-context tier is decided by. */
export function totalInput(usage: Usage): number {
  return usage.input_tokens + usage.cache_read_tokens + usage.cache_write_5m_tokens + usage.cache_write_1h_tokens;
}

export type JsonObject = { readonly [key: string]: unknown };

export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as JsonObject : undefined;
}

export function asString(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** Whether it is a count that can be believed, as a number or in digits. */
export function isCount(value: unknown): value is number | string {
  const number = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && number >= 0 && number <= MAX_TOKENS;
}

/** Reads token counts of one usage object and remembers whether all of them made sense. */
export class TokenReader {
  sane = true;

  /** A count; undefined when there is none. What is not a count makes the reader insane and is left out. */
  read(value: unknown): number | undefined {
    if (value === undefined || value === null) return undefined;
    const number = typeof value === "string" && /^\d{1,15}$/.test(value) ? Number(value) : value;
    if (typeof number === "number" && number >= 0 && number <= MAX_TOKENS) {
      if (!Number.isInteger(number)) this.sane = false;
      return Math.ceil(number);
    }
    this.sane = false;
    return undefined;
  }

  /** The part of `whole` that `part` claims, never more than there is. */
  part(value: unknown, whole: number): number {
    const part = this.read(value) ?? 0;
    if (part > whole) this.sane = false;
    return Math.min(part, whole);
  }
}

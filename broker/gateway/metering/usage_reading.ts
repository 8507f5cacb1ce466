/**
 * What each vendor's reader of usage offers to the meter.
 */

import { Buffer } from "node:buffer";
import type { JsonObject, ModelUsage } from "./usage.ts";

/** Takes the JSON objects of one answer in order and knows the usage at any time. */
export interface Reading {
  /** Takes the next object: an event's data, an element of a streamed array, or the whole answer. */
  take(value: JsonObject): void;
  /** Usage so far; undefined when the answer carried none. */
  used(): { used: ModelUsage[]; sane: boolean } | undefined;
  readonly served_model: string | undefined;
  /** A service tier that is not the standard one. */
  readonly service_tier: string | undefined;
  readonly region: string | undefined;
  /** What the answer says that it cost, in USD. */
  readonly reported_usd?: number | undefined;
  readonly done: boolean;
  readonly failed: boolean;
  /** Whether what ends a stream has come. */
  readonly whole: boolean;
  /** Whether the usage says nothing of the input, or of the output. */
  readonly lacks: boolean;
  /** Bytes of what the model wrote, as far as it is found. */
  readonly answer_bytes: number;
}

/** Keys beside the text that the model wrote. */
const NOT_WRITTEN: ReadonlySet<string> = new Set(["type", "id", "role", "object", "signature", "thoughtSignature"]);

/** Bytes of the texts in a piece of an answer. Its depth is the vendor's to choose: a list of what is left, no calls. */
export function writtenBytes(piece: unknown): number {
  const left = [piece];
  let bytes = 0;
  while (left.length > 0) {
    const next = left.pop();
    if (typeof next === "string") bytes += Buffer.byteLength(next);
    if (typeof next !== "object" || next === null) continue;
    for (const [key, value] of Object.entries(next)) if (!NOT_WRITTEN.has(key)) left.push(value);
  }
  return bytes;
}

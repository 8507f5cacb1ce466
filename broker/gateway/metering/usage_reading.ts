/**
 * What each vendor's reader of usage offers to the meter.
 */

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
  readonly done: boolean;
  readonly failed: boolean;
}

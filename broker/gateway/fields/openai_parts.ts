/**
 * What the tables of OpenAI's two interfaces share.
 */

import type { JsonObject } from "../metering/usage.ts";
import { gated, label, list, object, priced, type Shape, text } from "./shapes.ts";

export const SDK = "openai 6.49";

export const file_id = gated("file_id", "it names a file that the vendor holds");
export const service_tier = priced("auto default");
/** Left out, or "auto", it is the project's. */
export const isDefaultTier = ({ service_tier }: JsonObject): boolean =>
  String(service_tier).toLowerCase() === "default";
export const store = gated("store", "the vendor would keep the answer, and later requests could call on it");
export const cache = object({ mode: label, ttl: label });
export const web_search_options = gated("web_search_options", "the vendor would search the web");

export const stop: Shape = { kind: "either", text, list: list(text) };

export function unknownContent(tag: string): string {
  return `content of type "${tag}" is not known`;
}

export function vendorTool(tag: string): string {
  return `the vendor would run the tool "${tag}"`;
}

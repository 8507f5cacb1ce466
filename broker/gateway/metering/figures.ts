/**
 * The figures of one answer, as they come: a vendor may report them several times, and a server at fault or at will may
 * take some of them back, or write them twice in one object, where parsers choose.
 */

import { parseJson } from "../../../lib/text/json.ts";
import { stringEnd } from "../../../lib/text/json_marks.ts";
import { asObject, isCount, type JsonObject } from "./usage.ts";

/** Names that are read of a usage; no others are kept. */
const NAMES: ReadonlySet<string> = new Set([
  ...["prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "total_tokens", "cost"],
  ...["prompt_tokens_details", "input_tokens_details", "cached_tokens", "cache_write_tokens", "audio_tokens"],
  ...["cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation", "iterations"],
  ...["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"],
  ...["promptTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount"],
  ...["thoughtsTokenCount", "totalTokenCount", "promptTokensDetails"],
]);

/** Of each figure of the two the larger one: what was reported once was used. */
export function largest(before: JsonObject | undefined, after: JsonObject): JsonObject {
  const kept = new Map(Object.entries(before ?? {}));
  for (const [name, value] of Object.entries(after)) {
    if (NAMES.has(name) && value !== null && value !== undefined) kept.set(name, larger(kept.get(name), value));
  }
  return Object.fromEntries(kept);
}

function larger(before: unknown, after: unknown): unknown {
  if (before === undefined) return after;
  const [first, second] = [asObject(before), asObject(after)];
  if (second !== undefined) return largest(first, second);
  if (Array.isArray(before)) return Array.isArray(after) && after.length >= before.length ? after : before;
  // What is no count cannot take one back.
  if (isCount(before) && !(isCount(after) && Number(after) > Number(before))) return before;
  return after;
}

/** Whether a figure, or what holds it, is named twice in one object of a JSON text. Reads the text once. */
export function namedTwice(text: string): boolean {
  if (!/sage|\\u00/.test(text)) return false;
  const seen: (Set<string> | undefined)[] = [];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 123) seen.push(undefined);
    else if (code === 125) seen.pop();
    if (code !== 34) continue;
    const from = at + 1;
    at = stringEnd(text, at);
    if (at < 0) return false;
    const name = keyAt(text, from, at);
    if (name === undefined || seen.length === 0) continue;
    const names = seen[seen.length - 1] ??= new Set();
    if (names.has(name)) return true;
    names.add(name);
  }
  return false;
}

const HOLDERS: ReadonlySet<string> = new Set(["usage", "usageMetadata", "response", "message"]);
/** The longest name, with each character escaped. */
const MAX_NAME = 6 * 32;

function keyAt(text: string, from: number, end: number): string | undefined {
  if (end - from > MAX_NAME) return undefined;
  let after = end + 1;
  while (text.charCodeAt(after) <= 32) after++;
  if (text.charCodeAt(after) !== 58) return undefined;
  const raw = text.slice(from, end);
  const name = raw.includes("\\") ? parseJson(`"${raw}"`) : raw;
  return typeof name === "string" && (NAMES.has(name) || HOLDERS.has(name)) ? name : undefined;
}

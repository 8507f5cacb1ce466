/**
 * The part of the chat/completions format that the built-in agent uses, and a reader that believes nothing: endpoints
 * that call themselves compatible leave out, add and bend fields.
 */

import { parseJson } from "../../lib/text/json.ts";
import { MAX_CALLS, type ToolCall } from "./calls.ts";

export interface ChatCall extends ToolCall {
  id: string;
}

export type ChatMessage =
  | { role: "system" | "user"; content: string }
  | { role: "assistant"; content: string | null; tool_calls?: WireToolCall[] }
  | { role: "tool"; tool_call_id: string; content: string };

export interface WireToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

export interface Completion {
  /** Its text; may be empty. */
  text: string;
  calls: ChatCall[];
  dropped_calls: number;
  /** It was cut off by the endpoint's limit of output. */
  cut: boolean;
}

/** The longest text of an answer that is kept, in UTF-16 units. */
const MAX_TEXT = 64 << 10;

export function parseCompletion(body: unknown): Completion | undefined {
  const choices = field(body, "choices");
  const choice = Array.isArray(choices) ? choices[0] : undefined;
  const message = field(choice, "message");
  if (typeof message !== "object" || message === null) return undefined;
  const raw = field(message, "tool_calls");
  const calls: ChatCall[] = [];
  const listed = Array.isArray(raw) ? raw : [];
  for (const [index, call] of listed.slice(0, MAX_CALLS).entries()) {
    const called = field(call, "function");
    const id = field(call, "id");
    const args = field(called, "arguments");
    calls.push({
      id: typeof id === "string" && id !== "" && id.length <= 256 ? id : `call_${index}`,
      name: textOf(field(called, "name")).slice(0, 256),
      // Some endpoints send the object itself.
      arguments: typeof args === "object" && args !== null ? JSON.stringify(args) : textOf(args),
    });
  }
  return {
    text: readContent(field(message, "content")).slice(0, MAX_TEXT),
    calls,
    dropped_calls: Math.max(0, listed.length - MAX_CALLS),
    cut: field(choice, "finish_reason") === "length",
  };
}

export function assistantMessage({ text, calls }: Completion, max_arguments: number): ChatMessage {
  return {
    role: "assistant",
    content: text === "" ? null : text,
    ...(calls.length === 0 ? {} : {
      tool_calls: calls.map((call) => ({
        id: call.id,
        type: "function" as const,
        // Arguments that are not JSON, or are huge, would make the endpoint refuse the whole conversation.
        function: { name: call.name || "unknown", arguments: returnable(call.arguments, max_arguments) },
      })),
    }),
  };
}

function returnable(json: string, max: number): string {
  return json.length > max || parseJson(json) === undefined ? "{}" : json;
}

function readContent(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((part) => textOf(field(part, "text"))).join("");
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

/** The forms of an answer. Text in JSON cannot act on a terminal. */

import { escapeJson } from "../../lib/text/sanitize.ts";
import { problemOf } from "./statuses.ts";

export function answer(
  body: BodyInit | null,
  { status = 200, ...headers }: { status?: number } & Record<string, string | number>,
): Response {
  const texts = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return new Response(body, { status, headers: Object.fromEntries(texts) });
}

export function json(value: object, more: { status?: number; headers?: Record<string, string> } = {}): Response {
  const { status = 200, headers = {} } = more;
  return answer(jsonText(value), { "content-type": "application/json", ...headers, status });
}

/** A value as one line of JSON that is harmless on a terminal. */
export function jsonText(value: object): string {
  return `${escapeJson(JSON.stringify(value))}\n`;
}

export function nothing(): Response {
  return answer(null, { status: 204 });
}

export function problem(error: unknown): Response {
  const { problem, headers } = problemOf(error);
  return answer(jsonText(problem), { "content-type": "application/problem+json", ...headers, status: problem.status });
}

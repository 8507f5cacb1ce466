/**
 * The forms of an answer. None is kept by a cache, sniffed for another type, framed, or
 * read by a page of another origin; text in JSON cannot act on a terminal.
 */

import { escapeJson } from "../../lib/text/sanitize.ts";
import { problemOf } from "./statuses.ts";

/** What every answer has. Nothing on the way may pack it: a packed stream of events comes late. */
export const COMMON_HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-store, no-transform",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

export function answer(
  body: BodyInit | null,
  { status = 200, ...headers }: { status?: number } & Record<string, string | number>,
): Response {
  const texts = Object.entries(headers).map(([name, value]) => [name, String(value)]);
  return new Response(body, { status, headers: { ...COMMON_HEADERS, ...Object.fromEntries(texts) } });
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

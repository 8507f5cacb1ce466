/**
 * Which headers pass, and where a task's token may stand. Towards the vendor only a list of names passes: a header can
 * choose who is billed, route around the gateway, or carry a credential. Towards the sandbox everything passes but what
 * belongs to one connection, to cookies, or to the operator's account.
 */

import { words } from "../../lib/text/words.ts";
import { Refusal } from "./refusal.ts";

/** Header values as Node gives them, names in lower case. */
export type HeaderMap = Readonly<Record<string, string | string[] | undefined>>;

const REQUEST_HEADERS: ReadonlySet<string> = new Set(words(`
  accept accept-language anthropic-beta anthropic-dangerous-direct-browser-access anthropic-version conversation_id
  idempotency-key openai-beta originator session_id user-agent x-app x-client-request-id x-goog-api-client
  x-request-id
`));
const REQUEST_PREFIXES: readonly string[] = ["x-stainless-", "x-codex-"];

const DROPPED_FROM_ANSWERS: ReadonlySet<string> = new Set(words(`
  alt-svc anthropic-organization-id connection content-length keep-alive openai-organization openai-project
  proxy-authenticate proxy-authorization proxy-connection set-cookie set-cookie2 strict-transport-security te trailer
  transfer-encoding upgrade
`));

export function requestHeaders(headers: HeaderMap): Record<string, string> {
  const named = connectionNames(headers);
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const listed = REQUEST_HEADERS.has(name) || REQUEST_PREFIXES.some((prefix) => name.startsWith(prefix));
    if (!listed || value === undefined || named.has(name)) continue;
    passed[name] = Array.isArray(value) ? value.join(", ") : value;
  }
  return passed;
}

export function answerHeaders(headers: HeaderMap): Record<string, string | string[]> {
  const named = connectionNames(headers);
  const passed: Record<string, string | string[]> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined && !DROPPED_FROM_ANSWERS.has(name) && !named.has(name)) passed[name] = value;
  }
  return passed;
}

/** Headers that `Connection` names belong to that connection alone. */
function connectionNames(headers: HeaderMap): ReadonlySet<string> {
  const value = headers.connection;
  if (value === undefined) return new Set();
  const text = Array.isArray(value) ? value.join(",") : value;
  return new Set(text.split(",").map((name) => name.trim().toLowerCase()));
}

/** Where the command-line programs put a key. */
const TOKEN_HEADERS = ["x-api-key", "x-goog-api-key"] as const;

/** The token a request presents; throws `unauthorized` when there is none, or several. */
export function presentedToken(headers: HeaderMap): string {
  const tokens = new Set<string>();
  for (const name of TOKEN_HEADERS) {
    const value = headers[name];
    if (value !== undefined) tokens.add(Array.isArray(value) ? value.join() : value);
  }
  const { authorization } = headers;
  if (typeof authorization === "string") {
    tokens.add(/^Bearer +(\S+) *$/i.exec(authorization)?.[1] ?? "");
  }
  const [token] = tokens;
  if (tokens.size === 1 && token) return token;
  const problem = tokens.size === 0 ? "carries no token" : "does not carry one token in the form of its header";
  throw new Refusal("unauthorized", `The request ${problem}; use x-api-key, x-goog-api-key or a bearer`);
}

/**
 * The routes of each lane: an exact list, matched on the request line as it came. What is not on it is refused before
 * anything else is checked: batches, files, fine-tuning, escaped slashes, dots, and a key in the query.
 */

import type { Lane } from "../agents.ts";
import type { UsageForm } from "./metering/meter.ts";
import { Refusal } from "./refusal.ts";

export interface RouteRow {
  name: "messages" | "count_tokens" | "models" | "chat" | "responses" | "generate" | "stream" | "model";
  method: "GET" | "POST";
  /** The whole path. A group `model` is the model's name. */
  path: RegExp;
  /** Names that the query may have, each at most once. */
  query: readonly string[];
  /** The form of usage in its answers; undefined for what vendors do not bill. */
  usage?: UsageForm;
}

const MODEL_IN_PATH = "(?<model>[A-Za-z0-9](?:[A-Za-z0-9_-]|\\.(?!\\.)){0,127})";

const OPENAI: readonly RouteRow[] = [
  { name: "chat", method: "POST", path: /^\/v1\/chat\/completions$/, query: [], usage: "openai" },
  { name: "responses", method: "POST", path: /^\/v1\/responses$/, query: [], usage: "openai" },
  { name: "models", method: "GET", path: /^\/v1\/models$/, query: ["client_version"] },
  { name: "model", method: "GET", path: new RegExp(`^/v1/models/${MODEL_IN_PATH}$`), query: [] },
];

const generate = (method: string) => new RegExp(`^/v1(?:beta)?/models/${MODEL_IN_PATH}:${method}$`);

export const ROUTES: Readonly<Record<Lane, readonly RouteRow[]>> = {
  vendor_a: [
    { name: "messages", method: "POST", path: /^\/v1\/messages$/, query: ["beta"], usage: "anthropic" },
    { name: "count_tokens", method: "POST", path: /^\/v1\/messages\/count_tokens$/, query: ["beta"] },
    { name: "models", method: "GET", path: /^\/v1\/models$/, query: ["beta", "limit", "after_id", "before_id"] },
    { name: "model", method: "GET", path: new RegExp(`^/v1/models/${MODEL_IN_PATH}$`), query: ["beta"] },
  ],
  vendor_b: OPENAI,
  vendor_c: [
    { name: "generate", method: "POST", path: generate("generateContent"), query: [], usage: "gemini" },
    { name: "stream", method: "POST", path: generate("streamGenerateContent"), query: ["alt"], usage: "gemini" },
    { name: "count_tokens", method: "POST", path: generate("countTokens"), query: [] },
    { name: "models", method: "GET", path: /^\/v1(?:beta)?\/models$/, query: ["pageSize", "pageToken"] },
    { name: "model", method: "GET", path: new RegExp(`^/v1(?:beta)?/models/${MODEL_IN_PATH}$`), query: [] },
  ],
  compat: OPENAI,
};

export interface MatchedRoute {
  row: RouteRow;
  path: string;
  query: string;
  model: string | undefined;
}

/** Finds the route of a request line; throws a {@linkcode Refusal} without repeating the line. */
export function matchRoute(lane: Lane, method: string, target: string): MatchedRoute {
  const [path, query = "", ...rest] = target.split("?");
  if (rest.length === 0 && target.length <= 1024) {
    for (const row of ROUTES[lane]) {
      if (row.method !== method) continue;
      const match = row.path.exec(path!);
      if (!match) continue;
      checkQuery(query, row);
      return { row, path: path!, query: query === "" ? "" : `?${query}`, model: match.groups?.model };
    }
  }
  const offered = ROUTES[lane].map((row) => row.name).join(", ");
  throw new Refusal("route_refused", `This method and path are not offered to the task; offered are: ${offered}`);
}

function checkQuery(query: string, row: RouteRow): void {
  if (query === "") return;
  const seen = new Set<string>();
  for (const pair of query.split("&")) {
    const [, name] = /^([A-Za-z_]+)(?:=[A-Za-z0-9_.-]{0,256})?$/.exec(pair) ?? [];
    if (name === undefined || !row.query.includes(name) || seen.has(name)) {
      const allowed = row.query.length === 0 ? "no parameters" : `only ${row.query.join(", ")}, each once`;
      throw new Refusal("route_refused", `The query of ${row.name} may have ${allowed}; a token goes into a header`);
    }
    seen.add(name);
  }
}

/** The path at the upstream: the address's own, then the route's, with `base_path`, if there is one, in place of `/v1`. */
export function upstreamPath(route: MatchedRoute, base: { pathname: string; base_path: string }): string {
  const stem = base.pathname.replace(/\/+$/, "");
  if (base.base_path === "") return `${stem}${route.path}${route.query}`;
  const version = base.base_path.replace(/^\/*/, "/").replace(/\/+$/, "");
  return `${stem}${route.path.replace(/^\/v1(?:beta)?/, version)}${route.query}`;
}

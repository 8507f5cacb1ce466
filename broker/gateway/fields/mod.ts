/**
 * What a request may ask for, lane by lane and route by route: what the route's table knows, and nothing else. Refused
 * is what the vendor would do in the agent's stead, since it would go past the egress list, what the vendor would keep
 * or look up, what the gateway cannot price, and every field whose effect is not known.
 */

import type { Lane } from "../../agents.ts";
import { asObject } from "../metering/usage.ts";
import { Refusal } from "../refusal.ts";
import type { MatchedRoute, RouteRow } from "../routes.ts";
import { MESSAGES } from "./anthropic.ts";
import { checkShape } from "./check.ts";
import { COUNT_TOKENS, GENERATE } from "./gemini.ts";
import { CHAT, COMPAT_CHAT } from "./openai_chat.ts";
import { RESPONSES } from "./openai_responses.ts";
import { model as model_shape, object, type Table } from "./shapes.ts";

export const TABLES: Readonly<Record<Lane, Readonly<Partial<Record<RouteRow["name"], Table>>>>> = {
  vendor_a: { messages: MESSAGES, count_tokens: MESSAGES },
  vendor_b: { chat: CHAT, responses: RESPONSES },
  vendor_c: { generate: GENERATE, stream: GENERATE, count_tokens: COUNT_TOKENS },
  compat: { chat: COMPAT_CHAT, responses: RESPONSES },
};

/** What of a request decides what it may cost. */
export interface CheckedBody {
  model: string;
  /** The most tokens of one answer; undefined where it sets no limit. */
  max_output: number | undefined;
  answers: number;
  /** Whether no default of a project's can make it cost more than the list says. */
  at_list_price: boolean;
  inline_bytes: number;
  inline_files: number;
  /** Whether its stream ends with the figures, as far as that is the client's choice. */
  wants_usage: boolean;
  /** A flag that has to be sent as false, which the request does not name. */
  switch_off: string | undefined;
}

/**
 * Checks a parsed body; throws a refusal that names the field.
 *
 * @param version What the client says it was written for, where a vendor takes it from a header.
 */
export function checkBody(
  lane: Lane,
  route: MatchedRoute,
  body: unknown,
  options: { allowed: ReadonlySet<string>; version: string | undefined },
): CheckedBody {
  const table = TABLES[lane][route.row.name];
  const object_body = asObject(body);
  if (!table || !object_body) throw new Refusal("bad_request", "body: it must be an object", "body");
  const { allowed, version } = options;
  if (lane === "vendor_a" && version !== undefined && !table.versions.includes(version)) {
    throw new Refusal(
      "bad_request",
      `anthropic-version: requests are known in version ${table.versions.join(" and ")} only`,
      "anthropic-version",
    );
  }
  const fields_setting = lane === "compat" ? "compat.allow_fields" : "allow_vendor_tools";
  const check = { allowed, fields_setting, path_model: route.model };
  const in_path = route.model === undefined ? undefined : checkShape(MODEL, { model: route.model }, check).model;
  const { inline_bytes, inline_files, ...found } = checkShape(table.body, body, check);
  const model = in_path ?? found.model;
  if (model === undefined) throw new Refusal("bad_request", "model: the name of a model is needed", "model");
  const { set_by_default } = table;
  const switch_off = set_by_default === undefined || allowed.has(set_by_default) ? undefined : set_by_default;
  if (switch_off !== undefined && object_body[switch_off] === null) {
    throw new Refusal(
      "bad_request",
      `${switch_off}: null is as good as true; write false, or leave it out`,
      switch_off,
    );
  }
  const { stream, stream_options } = object_body;
  const wants_usage = route.row.name !== "chat" || stream !== true || asObject(stream_options)?.include_usage === true;
  return {
    model,
    ...table.max_output(object_body),
    at_list_price: table.at_list_price(object_body),
    inline_bytes,
    inline_files,
    wants_usage,
    switch_off: switch_off !== undefined && Object.hasOwn(object_body, switch_off) ? undefined : switch_off,
  };
}

const MODEL = object({ model: model_shape });

/**
 * Walks a parsed request and checks every object in it, so that what is refused is refused wherever it stands: in a
 * later turn, in a tool's result, in a list of additional tools. Only what the vendor takes as the model's or the
 * program's own data is left out: arguments, results and schemas.
 */

import { asObject, type JsonObject } from "../metering/usage.ts";
import { Refusal } from "../refusal.ts";

/** Which refusals the operator has lifted, by the names that the refusals give. */
export type Allowed = (feature: string) => boolean;

export interface JsonPlace {
  parent: JsonPlace | undefined;
  key: string | number;
}

export type Visit = (object: JsonObject, place: JsonPlace | undefined) => void;

/** Calls `visit` for every object under `value`, but not inside what `skip` names. */
export function walk(
  value: unknown,
  visit: Visit,
  skip: (object: JsonObject, key: string) => boolean,
  place?: JsonPlace,
): void {
  if (Array.isArray(value)) {
    value.forEach((item, key) => {
      if (typeof item === "object") walk(item, visit, skip, { parent: place, key });
    });
    return;
  }
  const object = asObject(value);
  if (!object) return;
  visit(object, place);
  for (const [key, member] of Object.entries(object)) {
    if (typeof member === "object" && member !== null && !skip(object, key)) {
      walk(member, visit, skip, { parent: place, key });
    }
  }
}

/** `messages[3].content[0].source`. */
export function fieldName(place: JsonPlace | undefined, ...keys: (string | number)[]): string {
  const path: (string | number)[] = [...keys];
  for (let at = place; at; at = at.parent) path.unshift(at.key);
  return path.map((key, index) => typeof key === "number" ? `[${key}]` : index === 0 ? key : `.${key}`).join("")
    .slice(0, 200);
}

/**
 * A key as the most lenient parser would read it: some endpoints ignore case, and the case folding of some languages
 * takes the long s and the Kelvin sign for letters.
 */
export function fold(key: string): string {
  return key.normalize("NFKC").toLowerCase().replace(/[_-]/g, "");
}

export function refuseFeature(allowed: Allowed, feature: string, field: string, what: string): void {
  if (allowed(feature)) return;
  throw new Refusal(
    "vendor_tool_refused",
    `${field}: ${what}, past the egress list. To allow it, add "${feature}" to allow_vendor_tools in config.yaml`,
    field,
  );
}

export function refuseTier(field: string, what: string): never {
  throw new Refusal("tier_refused", `${field}: ${what}`, field);
}

export function malformed(field: string, what: string): never {
  throw new Refusal("bad_request", `${field}: ${what}`, field);
}

/** Whether a value asks for something: absent, null and false do not. */
export function isAsked(value: unknown): boolean {
  return value !== undefined && value !== null && value !== false;
}

/** Model names as vendors and endpoints write them; no more than this reaches logs and prices. */
const MODEL_NAME = /^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/;

export function modelOf(body: JsonObject): string {
  const { model } = body;
  if (typeof model === "string" && MODEL_NAME.test(model)) return model;
  malformed("model", "the name of a model is needed, at most 200 of A-Z a-z 0-9 . _ : / @ + -");
}

/** Models that search the web by themselves, whatever the request's tools. */
const SEARCHING_MODEL = /deep-research|search-preview|search-api|(?::online$)|(?:^|\/)sonar/;

export function checkModel(model: string, field: string, allowed: Allowed): void {
  if (SEARCHING_MODEL.test(model.toLowerCase())) {
    refuseFeature(allowed, "search_model", field, "the vendor would search the web for this model");
  }
}

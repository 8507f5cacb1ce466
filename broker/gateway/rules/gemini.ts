/**
 * What requests to the Gemini API may ask for. Its parser reads each key in two
 * spellings, with humps and with underscores, so keys are compared without them.
 */

import { asObject, asString, type JsonObject } from "../metering/usage.ts";
import {
  type Allowed,
  checkModel,
  fieldName,
  fold,
  isAsked,
  type JsonPlace,
  malformed,
  refuseFeature,
  refuseTier,
  walk,
} from "./_request_fields.ts";

/** Tools that the client runs, by folded name. */
const CLIENT_TOOLS: ReadonlySet<string> = new Set(["functiondeclarations", "computeruse"]);

/** Data of the model, of the program, or schemas: by the folded name of the object they stand in, and their own. */
const SKIPPED: ReadonlyMap<string, ReadonlySet<string>> = new Map([
  ["functioncall", new Set(["args"])],
  ["functionresponse", new Set(["response"])],
  ["functiondeclarations", new Set(["parameters", "parametersjsonschema", "response", "responsejsonschema"])],
  ["generationconfig", new Set(["responseschema", "responsejsonschema"])],
]);

/** Checks a request for `model`, which stands in the path. */
export function checkGemini(body: JsonObject, model: string, allowed: Allowed): string {
  checkModel(model, "model", allowed);
  walk(body, (object, place) => visit(object, place, model, allowed), () => false);
  return model;
}

function visit(object: JsonObject, place: JsonPlace | undefined, model: string, allowed: Allowed): void {
  if (isSkipped(place)) return;
  for (const [key, value] of Object.entries(object)) {
    if (!isAsked(value)) continue;
    const field = () => fieldName(place, key);
    switch (fold(key)) {
      case "tools":
        checkTools(value, { parent: place, key }, allowed);
        break;
      case "filedata":
        refuseFeature(allowed, "fileData", field(), "the vendor would fetch a URI, or read a file that it holds");
        break;
      case "cachedcontent":
        refuseFeature(allowed, "cachedContent", field(), "it names content that the vendor holds, with its tools");
        break;
      case "servicetier":
        if (!/^(?:standard|service_tier_unspecified|service_tier_standard|unspecified)$/i.test(asString(value) ?? "")) {
          refuseTier(field(), "only standard is priced");
        }
        break;
      case "generatecontentrequest": {
        const named = asObject(value)?.model;
        if (isAsked(named) && named !== model && named !== `models/${model}`) {
          malformed(`${field()}.model`, "it names another model than the path");
        }
        break;
      }
      default:
    }
  }
}

function checkTools(tools: unknown, place: JsonPlace, allowed: Allowed): void {
  const list = Array.isArray(tools) ? tools : [tools];
  list.forEach((tool, index) => {
    const object = asObject(tool);
    if (!object) malformed(fieldName(place, index), "a tool must be an object");
    for (const [key, value] of Object.entries(object)) {
      if (value === null || CLIENT_TOOLS.has(fold(key))) continue;
      // The setting takes the name with humps, however the request spells it.
      const feature = key.slice(0, 64).replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      refuseFeature(allowed, feature, fieldName(place, index, key), "the vendor would run this tool");
    }
  });
}

function isSkipped(place: JsonPlace | undefined): boolean {
  for (let at = place; at; at = at.parent) {
    if (typeof at.key !== "string") continue;
    let owner = at.parent;
    while (owner && typeof owner.key === "number") owner = owner.parent;
    if (owner && SKIPPED.get(fold(String(owner.key)))?.has(fold(at.key))) return true;
  }
  return false;
}

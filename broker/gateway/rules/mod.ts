/**
 * What a request may ask for, lane by lane. Refused is what the vendor would do in the agent's stead, since it would go
 * past the egress list, and what the gateway cannot price.
 */

import type { Lane } from "../../agents.ts";
import { asObject } from "../metering/usage.ts";
import type { MatchedRoute } from "../routes.ts";
import { checkAnthropic } from "./anthropic.ts";
import { checkGemini } from "./gemini.ts";
import { checkOpenAi } from "./openai.ts";
import { malformed } from "./_request_fields.ts";

/** Checks a parsed body and returns its model; throws a refusal that names the field. */
export function checkBody(lane: Lane, route: MatchedRoute, body: unknown, allow_tools: ReadonlySet<string>): string {
  const object = asObject(body);
  if (!object) malformed("body", "it must be an object");
  const allowed = (feature: string) => allow_tools.has(feature);
  switch (lane) {
    case "vendor_a":
      return checkAnthropic(object, allowed);
    case "vendor_b":
    case "compat":
      return checkOpenAi(object, allowed);
    case "vendor_c":
      return checkGemini(object, route.model ?? "", allowed);
  }
}

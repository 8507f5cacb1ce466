/**
 * JSON of a vendor's answer, and what of it is kept. Who answers may be anyone's endpoint: what its answer costs to read
 * is bounded before it is read.
 */

import { parseJson } from "../../../lib/text/json.ts";
import { beyondLimits } from "../../../lib/text/json_marks.ts";

/**
 * Of one event, or one answer in one piece: the most that vendors write are the 20 likeliest tokens beside each token,
 * some 230 brackets, commas and colons; this is an answer of more than 4,000 tokens with them, and in a stream each
 * event has its own.
 */
const LIMITS = { max_marks: 1 << 20, max_depth: 1_000 };
/** Of what an answer says of its usage; vendors write some hundred. */
const MAX_USAGE_CHARS = 256 << 10;
/** The names of models are shorter, by far. */
const MAX_NAME_CHARS = 256;

/** The answer is such that reading it could take all of the broker's time or memory. */
export class UnreadableAnswer extends Error {
  override name = "UnreadableAnswer";
}

/** The value of an event's or an answer's text; undefined where it is no JSON. */
export function parseAnswer(text: string): unknown {
  const beyond = beyondLimits(text, LIMITS);
  if (beyond !== undefined) throw new UnreadableAnswer(`The answer has more ${beyond} than is read`);
  return parseJson(text);
}

/** The figures of an answer, which are kept until its end; their names are those of a list. */
export function boundedUsage<T extends object>(usage: T): T {
  if (JSON.stringify(usage).length > MAX_USAGE_CHARS) {
    throw new UnreadableAnswer("The answer says more of its usage than is read");
  }
  return usage;
}

/** The name of a model, or of a tier. */
export function asName(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= MAX_NAME_CHARS ? value : undefined;
}

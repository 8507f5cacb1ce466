/**
 * Errors of the broker as they were thrown there: the same code, words, hint and list of what is missing.
 */

import * as v from "valibot";
import { ERROR_CODES, type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { NotAcknowledged } from "../task/not_acknowledged.ts";
import { readable } from "../api/readable.ts";
import { PROBLEM } from "../api/wire.ts";

const REPORTED = readable(v.pick(PROBLEM, ["detail", "code", "hint", "missing"]));

export function errorOf(body: unknown, status: number): TaskdError {
  const parsed = v.safeParse(REPORTED, body);
  if (!parsed.success) return notUnderstood(`it answers ${status} without a reason`);
  const { code, detail, hint, missing } = parsed.output;
  if (code === "not_acknowledged" && missing !== undefined) return new NotAcknowledged(missing, detail);
  // A newer broker may have a code that this program does not know.
  const known: ErrorCode = Object.hasOwn(ERROR_CODES, code) ? code as ErrorCode : "internal";
  return new TaskdError(known, detail, { hint });
}

export function notUnderstood(problem: string): TaskdError {
  return new TaskdError("broker_unreachable", `The broker's answer is not understood: ${problem}`, {
    hint: "Another version may be running: `taskd start` replaces it with this one",
  });
}

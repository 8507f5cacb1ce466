/**
 * What errors mean for a session: which of them end it, and how it refuses work afterwards.
 */

import { asKnownError, hasCode, TaskdError } from "../errors.ts";

/** The error that a session ends with, if `error` ends it; undefined if a later try may succeed. */
export function endingError(error: unknown): TaskdError | undefined {
  const known = asKnownError(error);
  if (known === undefined) {
    return new TaskdError("internal", `A defect ended the session: ${(error as Error).message}`, { cause: error });
  }
  return hasCode(known, "fenced", "capture_failed", "not_a_database", "internal") ? known : undefined;
}

export function closedError(name: string): TaskdError {
  return new TaskdError("no_session", `The session of ${name} is closed`, { hint: "Open a new one" });
}

export function brokenError(name: string, error: TaskdError): TaskdError {
  return new TaskdError("session_failed", `The session of ${name} is broken: ${error.message}`, {
    cause: error,
    hint: "Close it and open a new one",
  });
}

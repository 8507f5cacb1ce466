/**
 * Turns a backend's closed set of errors into the product's, with the words of
 * what was attempted.
 */

import { BackendError, type BackendErrorCode } from "../backend/backend.ts";
import { type ErrorCode, TaskdError } from "../errors.ts";

const CODES: Record<BackendErrorCode, ErrorCode> = {
  not_found: "not_found",
  precondition_failed: "conflict",
  ambiguous: "ambiguous",
  denied: "denied",
  no_space: "no_space",
  stalled: "stalled",
  unavailable: "unavailable",
};

const HINTS: Partial<Record<BackendErrorCode, string>> = {
  denied: "Check the owner, the permissions and whether the file system is mounted read-only",
  no_space: "Free some space; nothing was changed",
  unavailable: "Try again; nothing is known to have changed",
  ambiguous: "Inspect the branch before trying again",
  precondition_failed: "Another process changed it at the same moment; try again",
};

/** `error` as a {@linkcode TaskdError}; anything that is not a backend's error is returned as it is. */
export function storeError(error: unknown, attempted: string): unknown {
  if (!(error instanceof BackendError)) return error;
  const hint = error.hint ?? HINTS[error.code];
  return new TaskdError(CODES[error.code], `${attempted}: ${error.message}`, { cause: error, hint });
}

export async function translated<T>(attempted: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw storeError(error, attempted);
  }
}

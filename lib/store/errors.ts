/**
 * Turns a backend's closed set of errors into the product's, with the words of
 * what was attempted.
 */

import { BackendError, type BackendErrorCode, isBackendError, NoObject } from "../backend/backend.ts";
import { type ErrorCode, messageOf, TaskdError } from "../errors.ts";

const HINTS: Partial<Record<BackendErrorCode, string>> = {
  denied: "Check the owner, the permissions and whether the file system is mounted read-only",
  no_space: "Free some space; nothing was changed",
  unavailable: "Try again; nothing is known to have changed",
  ambiguous: "Inspect the branch before trying again",
  precondition_failed: "Another process changed it at the same moment; try again",
};

/** A backend's code as the product's. */
export function codeOf({ code }: BackendError): ErrorCode {
  return code === "precondition_failed" ? "conflict" : code;
}

/** `error` as a {@linkcode TaskdError}; anything that is not a backend's error is returned as it is. */
export function storeError(error: unknown, attempted: string): unknown {
  if (!(error instanceof BackendError)) return error;
  const hint = error.hint ?? HINTS[error.code];
  return new TaskdError(codeOf(error), `${attempted}: ${error.message}`, { cause: error, hint });
}

/**
 * What the disk cannot read (EIO), and what is no object, as `corrupt`, and any other error as it is: for what was read
 * twice, to prove it.
 */
export function unreadable(error: unknown): unknown {
  const failed = error instanceof TaskdError ? error.cause : error;
  if (!(failed instanceof BackendError)) return error;
  const { key, message, hint, cause } = failed;
  if (cause instanceof NoObject) return new TaskdError("corrupt", message, { cause: failed, hint });
  if ((cause as { code?: unknown } | undefined)?.code !== "EIO") return error;
  return new TaskdError("corrupt", `Cannot use ${key}: ${messageOf(cause)}`, { cause: error });
}

/** What to do about what {@linkcode unreadable} found to be no object; undefined for all other errors. */
export function moveAwayHint({ cause, hint }: TaskdError): string | undefined {
  return cause instanceof BackendError && cause.cause instanceof NoObject ? hint : undefined;
}

export async function translated<T>(attempted: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw storeError(error, attempted);
  }
}

/** The same; undefined when what was asked for is not there. */
export async function ifThere<T>(attempted: string, work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isBackendError(error, "not_found")) return undefined;
    throw storeError(error, attempted);
  }
}

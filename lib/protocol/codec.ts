/**
 * Requests and answers as JSON: the one decoder and the one encoder that every
 * transport uses.
 *
 * A failure carries only what a {@linkcode TaskdError} has: any other error becomes
 * `internal` with a general message, and its details belong in the log.
 */

import { asKnownError, TaskdError } from "../errors.ts";
import { InvalidJson, parseStrictJson } from "../text/strict_json.ts";
import type { FailureMessage, RequestId } from "./messages.ts";

/** The longest `id`, in UTF-16 units. */
const MAX_ID_LENGTH = 256;

/** A request whose operation and fields are not checked yet. */
export interface RawRequest {
  op: string;
  fields: Record<string, unknown>;
}

/** A decoded request: its id if it has one, and the request or why it is invalid. */
export interface DecodedRequest {
  id?: RequestId;
  /** Whether the client asks to be shown that the request is worked on, and takes it back by leaving. */
  progress?: boolean;
  request: RawRequest | TaskdError;
}

/** Reads the text of a request. Never throws; `text` is undefined when it was not UTF-8. */
export function decodeRequest(text: string | undefined): DecodedRequest {
  if (text === undefined) return { request: invalid("it is not UTF-8") };
  let value: unknown;
  try {
    value = parseStrictJson(text);
  } catch (error) {
    if (!(error instanceof InvalidJson)) throw error;
    return { request: invalid(`it ${error.message}`, "Send one JSON object per line") };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { request: invalid("it is not a JSON object", "Send one JSON object per line") };
  }
  const { op, id, progress, ...fields } = value as Record<string, unknown>;
  if (id !== undefined && !isRequestId(id)) {
    return { request: invalid(`field "id" must be a number or a string of at most ${MAX_ID_LENGTH} characters`) };
  }
  const known = { ...(id === undefined ? {} : { id }), ...(progress === true ? { progress } : {}) };
  if (progress !== undefined && typeof progress !== "boolean") {
    return { ...known, request: invalid('field "progress" must be true or false') };
  }
  if (op === undefined) return { ...known, request: invalid('missing field "op"') };
  if (typeof op !== "string") return { ...known, request: invalid('field "op" must be a string') };
  return { ...known, request: { op, fields } };
}

function isRequestId(id: unknown): id is RequestId {
  return typeof id === "number" || (typeof id === "string" && id.length <= MAX_ID_LENGTH);
}

function invalid(why: string, hint?: string): TaskdError {
  return new TaskdError("invalid_request", `Cannot read the request: ${why}`, { hint });
}

export function success(id: RequestId | undefined, answer: object): object {
  return { ok: true, ...(id === undefined ? {} : { id }), ...answer };
}

export function failure(id: RequestId | undefined, error: unknown): FailureMessage {
  const known = asKnownError(error) ?? new TaskdError("internal", "The daemon has a defect", {
    hint: "Its log has the details",
  });
  return {
    ok: false,
    ...(id === undefined ? {} : { id }),
    code: known.code,
    error: known.message,
    ...(known.hint === undefined ? {} : { hint: known.hint }),
  };
}

/** What is sent while a request runs that asks for progress; without numbers it says that the daemon is there. */
export interface ProgressMessage {
  progress: { done_bytes?: number; total_bytes?: number };
  id?: RequestId;
}

/** Whether a message is a {@linkcode ProgressMessage} and no answer. */
export function isProgress(message: object): message is ProgressMessage {
  return !("ok" in message) && "progress" in message && typeof message.progress === "object" &&
    message.progress !== null;
}

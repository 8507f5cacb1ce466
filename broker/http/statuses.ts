/**
 * Errors as answers: one table says which status each code has over HTTP, and one
 * function makes the problem of RFC 9457 that travels.
 */

import { isStatus, STATUS_TEXT } from "@std/http/status";
import { asKnownError, type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { RequestRefused } from "../../lib/http/request_refused.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { NotAcknowledged } from "../task/not_acknowledged.ts";
import type { Problem } from "../api/wire.ts";

/** Status of a code, and after how many seconds to try again. */
export const STATUSES: Readonly<Partial<Record<ErrorCode, readonly [status: number, retry_after_s?: number]>>> = {
  usage: [400],
  invalid_name: [400],
  invalid_request: [400],
  ceiling_reached: [402],
  denied: [403],
  not_found: [404],
  unknown_op: [404],
  already_exists: [409],
  altered: [409],
  auth_failed: [409],
  busy: [409],
  conflict: [409],
  expired: [409],
  stale_diff: [409],
  wrong_state: [409],
  too_large: [413],
  not_acknowledged: [422],
  at_capacity: [503, 5],
  daemon_unreachable: [503, 5],
  no_space: [503, 60],
  overloaded: [503, 1],
  stopping: [503, 5],
  timed_out: [503, 5],
  unavailable: [503, 5],
};

/** The most characters of a detail; a path or a list of candidates is far below. */
const MAX_DETAIL_CHARS = 4_096;

export function problemOf(thrown: unknown): { problem: Problem; headers: Record<string, string> } {
  const error = asKnownError(thrown) ??
    new TaskdError("internal", "The broker met a defect of its own; its log has the details");
  const [listed, retry_after_s] = STATUSES[error.code] ?? [500];
  const refused = error instanceof RequestRefused ? error : undefined;
  const status = refused?.status ?? listed;
  return {
    problem: {
      type: "about:blank",
      title: isStatus(status) ? STATUS_TEXT[status] : STATUS_TEXT[500],
      status,
      detail: sanitizeLine(error.message.slice(0, MAX_DETAIL_CHARS)),
      code: error.code,
      ...(error.hint === undefined ? {} : { hint: sanitizeLine(error.hint.slice(0, MAX_DETAIL_CHARS)) }),
      ...(error instanceof NotAcknowledged ? { missing: [...error.missing] } : {}),
    },
    headers: {
      ...(retry_after_s === undefined || status !== listed ? {} : { "retry-after": String(retry_after_s) }),
      ...refused?.headers,
    },
  };
}

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

/** Statuses, the codes that have them, and after how many seconds to try again. */
const ANSWERS: readonly (readonly [status: number, codes: readonly ErrorCode[], retry_after_s?: number])[] = [
  [400, ["usage", "invalid_name", "invalid_request"]],
  [402, ["ceiling_reached"]],
  [403, ["denied"]],
  [404, ["not_found", "unknown_op"]],
  [409, ["already_exists", "altered", "auth_failed", "busy", "conflict", "expired", "stale_diff", "wrong_state"]],
  [413, ["too_large"]],
  [422, ["not_acknowledged"]],
  [503, ["overloaded"], 1],
  [503, ["at_capacity", "daemon_unreachable", "stopping", "timed_out", "unavailable"], 5],
  [503, ["no_space"], 60],
];

export const STATUSES: Readonly<Partial<Record<ErrorCode, readonly [status: number, retry_after_s?: number]>>> = Object
  .fromEntries(ANSWERS.flatMap(([status, codes, retry]) => codes.map((code) => [code, [status, retry]])));

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

/**
 * A failed request to an S3 server, classified once from the many shapes in which the
 * SDK throws. Of the SDK's error objects only name, status and
 * message are kept: they hold requests, and with them signatures and session tokens.
 */

import { BackendError, type BackendErrorCode } from "./backend.ts";

export type FailureKind =
  /** It was never sent: there was no connection. */
  | "unsent"
  /** No readable answer came: the request may have taken effect. */
  | "lost"
  /** A deadline of ours passed: as `lost`, but a retry would only wait as long again. */
  | "late"
  /** A download received no byte for too long. */
  | "stalled"
  /** The server answered with an error. */
  | "answered";

export class S3Failure extends Error {
  override name = "S3Failure";
  readonly kind: FailureKind;
  /** HTTP status; 0 when there was no answer. */
  readonly status: number;
  /** The server's code: `NoSuchKey`. */
  readonly reason: string;

  constructor(kind: FailureKind, message: string, answer: { status?: number; reason?: string } = {}) {
    super(message);
    this.kind = kind;
    this.status = answer.status ?? 0;
    this.reason = answer.reason ?? "";
  }

  /** Whether the request may have taken effect, or may still do so. */
  get unsure(): boolean {
    if (this.kind === "answered") return this.status >= 500 && this.reason !== "SlowDown" && !this.full;
    return this.kind !== "unsent";
  }

  get passing(): boolean {
    if (this.kind === "answered") {
      return this.status >= 500 && !this.full && this.status !== 501 || RETRIED.has(this.reason);
    }
    return this.kind === "unsent" && !this.local || this.kind === "lost";
  }

  /** Whether the cause is in this process: no credentials, or no permission of Deno's. */
  get local(): boolean {
    return this.reason === "CredentialsProviderError" || this.reason === "NotCapable";
  }

  get full(): boolean {
    return this.status === 507 || FULL.has(this.reason);
  }
}

/** Answers below 500 that may differ on a retry. */
const RETRIED = new Set([
  "SlowDown",
  "TooManyRequests",
  "RequestTimeout",
  "RequestTimeTooSkewed",
  "OperationAborted",
  "ConditionalRequestConflict",
]);
const FULL = new Set(["XMinioStorageFull", "QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "InsufficientStorage"]);
/** Answers of status 400 about credentials. */
const DENIED = new Set([
  "AuthorizationHeaderMalformed",
  "ExpiredToken",
  "InvalidToken",
  "InvalidAccessKeyId",
  "SignatureDoesNotMatch",
  "RequestTimeTooSkewed",
]);
/** System errors of a connection that was never made. */
const UNSENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EAI_NODATA",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "EADDRNOTAVAIL",
]);

export function asFailure(error: unknown): S3Failure {
  if (error instanceof S3Failure) return error;
  const { name = "", message = String(error), code, $metadata } = (error ?? {}) as {
    name?: string;
    message?: string;
    code?: unknown;
    $metadata?: { httpStatusCode?: number };
  };
  const status = $metadata?.httpStatusCode;
  if (status !== undefined && status >= 300) {
    return new S3Failure("answered", `${name || "error"}, status ${status}: ${message}`, { status, reason: name });
  }
  if (name === "CredentialsProviderError") {
    return new S3Failure("unsent", `no credentials were found: ${message}`, { reason: name });
  }
  if (error instanceof Deno.errors.NotCapable) return new S3Failure("unsent", message, { reason: name });
  if (typeof code === "string" && UNSENT.has(code) || /connection refused|dns error|certificate/i.test(message)) {
    return new S3Failure("unsent", message);
  }
  return new S3Failure("lost", `${message}${typeof code === "string" && !message.includes(code) ? ` (${code})` : ""}`);
}

/** The backend code of a failure, if nothing more is known. */
export function codeOf(failure: S3Failure): BackendErrorCode {
  const { kind, status, reason } = failure;
  if (kind === "stalled") return "stalled";
  if (kind !== "answered") return failure.local ? "denied" : "unavailable";
  if (failure.full) return "no_space";
  if (status === 401 || status === 403 || DENIED.has(reason)) return "denied";
  // A missing bucket proves nothing about an object.
  if (status === 404 && reason !== "NoSuchBucket" && reason !== "NoSuchUpload") return "not_found";
  return status === 412 ? "precondition_failed" : "unavailable";
}

/** A failure as the error that a caller sees; `attempted` is a verb: `read`. */
export function failureError(failure: S3Failure, key: string, attempted: string, code = codeOf(failure)): BackendError {
  const advice = failure.status === 301 || failure.reason === "AuthorizationHeaderMalformed"
    ? "; the bucket may be in another region"
    : "";
  return new BackendError(code, key, `Cannot ${attempted} ${key}: ${failure.message}${advice}`, failure);
}

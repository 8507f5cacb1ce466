/** What passes between the daemon's main thread and its workers. */

import type { SessionEvent } from "../lib/capture/session.ts";
import { asKnownError, type ErrorCode, stackOf, TaskdError } from "../lib/errors.ts";
import type { Address } from "../lib/store/names.ts";
import type { S3StoreOptions } from "../lib/store/open.ts";
import type { StoreMethod } from "../lib/protocol/store_operations.ts";
import type { SessionMethod } from "./store_engine.ts";
import type { SamplingKind } from "./sampling.ts";

export interface WorkerSetup {
  store: string;
  /** Directory of checkouts, caches and locks. */
  workspace: string;
  s3?: S3StoreOptions;
  host?: string | undefined;
  flush_every_ms: number;
  snapshot_every: number;
}

export type Work =
  | { kind: "setup"; setup: WorkerSetup }
  /** With `long` the last of `args` gets a signal and a callback that reports `progress`; of a session's methods, too. */
  | { kind: "store"; method: StoreMethod; args: unknown[]; long?: boolean }
  | { kind: "open"; session: number; address: Address }
  | { kind: "session"; session: number; method: SessionMethod; args: unknown[]; long?: boolean }
  /** Begins a profile of the worker; `sampled` ends it and answers with it. */
  | { kind: "sample"; profile: SamplingKind }
  | { kind: "sampled" }
  | { kind: "end" };

/** Main to worker: every call is answered once; `abort` is none, and ends the call of that number early. */
export type WorkerCall = { call: number } & (Work | { kind: "abort" });

/** Worker to main. Events and log entries come before the answer of the call that caused them. */
export type WorkerReply =
  | { kind: "done"; call: number; result: unknown }
  | { kind: "failed"; call: number; error: ErrorMessage }
  | { kind: "progress"; call: number; done_bytes: number; total_bytes: number | undefined }
  | { kind: "event"; session: number; event: SessionEvent }
  | { kind: "log"; entry: string };

/** An error as it crosses between threads: one of the product's, or a defect with its stack. */
export type ErrorMessage =
  | { code: ErrorCode; message: string; hint?: string }
  | { defect: string };

export function packError(error: unknown): ErrorMessage {
  const known = asKnownError(error);
  if (known === undefined) return { defect: stackOf(error) + causeOf(error) };
  const { code, message, hint } = known;
  return hint === undefined ? { code, message } : { code, message, hint };
}

function causeOf(error: unknown): string {
  return error instanceof Error && error.cause instanceof Error ? `\ncaused by: ${stackOf(error.cause)}` : "";
}

export function unpackError(error: ErrorMessage): Error {
  if ("defect" in error) return new Error(error.defect);
  return new TaskdError(error.code, error.message, { hint: error.hint });
}

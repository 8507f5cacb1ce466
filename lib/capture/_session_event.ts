/**
 * What a session tells of itself.
 *
 * @module
 */

import type { Txid } from "../store/names.ts";

/** Which flush: of the timer, or asked for. */
export type FlushKind = "auto" | "manual";

/** What a session tells, in order. The daemon publishes them as events. */
export type SessionEvent =
  | { type: "session_opened"; detail: { holder: string; epoch: number } }
  | { type: "flushed"; detail: { kind: FlushKind; txid: Txid; duration_seconds: number } }
  | { type: "flush_failed"; detail: { kind: FlushKind; code: string; error: string; duration_seconds: number } }
  | { type: "fenced"; detail: { cause: string } }
  | { type: "session_closed"; detail: { error?: string } };

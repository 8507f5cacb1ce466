/**
 * Events of a session, in order. The daemon publishes them.
 */

import type { Txid } from "../store/names.ts";

/** Whether the timer or a caller asked for a flush. */
export type FlushKind = "auto" | "manual";

export type SessionEvent = PublishedEvent | CountedEvent;

/** What is counted alone: the session starts over from a full copy, or gets out of the application's way. */
export type CountedEvent = { type: "rebase" | "stepped_aside"; detail: null };

export type PublishedEvent =
  | { type: "session_opened"; detail: { holder: string; epoch: number } }
  | { type: "flushed"; detail: { kind: FlushKind; txid: Txid; duration_seconds: number } }
  | { type: "flush_failed"; detail: { kind: FlushKind; code: string; error: string; duration_seconds: number } }
  | { type: "lease_retaken"; detail: { holder: string; epoch: number; late_seconds: number } }
  | { type: "fenced"; detail: { cause: string } }
  | { type: "session_closed"; detail: { error?: string } };

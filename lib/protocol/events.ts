/**
 * The envelope of an event and its one encoder, shared by every transport so that
 * all subscribers see the same bytes.
 */

import { encodeLine } from "./lines.ts";
import type { AnyDaemonEvent, AnyEventType, EventDetails, EventType, MoreEventDetails } from "./messages.ts";

/** The eight types, as the contract lists them. */
export const EVENT_TYPES = [
  "session_opened",
  "flushed",
  "flush_failed",
  "fenced",
  "session_closed",
  "reaped",
  "evicted",
  "dropped_slow_consumer",
] as const satisfies readonly EventType[];

/** The further types; only a subscriber that asks for `more` gets them. */
export const MORE_EVENT_TYPES = ["lease_retaken", "merged"] as const satisfies readonly (keyof MoreEventDetails)[];

/** One event as a line of JSON, stamped with `now_ms` of wall-clock time. */
export function encodeEvent<T extends AnyEventType>(
  type: T,
  { db, branch }: { db: string; branch: string },
  detail: (EventDetails & MoreEventDetails)[T],
  now_ms: number,
): Uint8Array {
  return encodeLine({ v: 1, ts: new Date(now_ms).toISOString(), type, db, branch, detail } as AnyDaemonEvent);
}

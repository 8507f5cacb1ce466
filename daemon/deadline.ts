/**
 * The bound on waiting for a client, and for anything else that may never come.
 *
 * @module
 */

import type { Clock } from "../lib/clock.ts";

/** Deadline of each write to a client, re-armed for every write; the contract's number. */
export const WRITE_DEADLINE_MS = 45_000;

/** Waits for `work`, but rejects after `deadline_ms`; the caller then ends what `work` is stuck on. */
export async function withDeadline<T>(work: Promise<T>, clock: Clock, deadline_ms: number): Promise<T> {
  const cancel = new AbortController();
  const late = clock.sleep(deadline_ms, cancel.signal).then(() => {
    throw new DOMException(`no progress within ${deadline_ms} ms`, "TimeoutError");
  });
  late.catch(() => {});
  work.catch(() => {});
  try {
    return await Promise.race([work, late]);
  } finally {
    cancel.abort();
  }
}

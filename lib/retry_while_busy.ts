/**
 * Waiting for other processes' locks. SQLite's own wait blocks the event loop, so it is short; writers that
 * follow one another closely, or sync to a slow disk, are waited for here, and other work runs in between.
 */

import type { Clock } from "./clock.ts";
import { hasCode } from "./errors.ts";

/** Total wait, unless said otherwise. */
export const BUSY_TIMEOUT_MS = 10_000;
/** The wait in SQLite, for a lock that other processes hold for the length of a transaction. */
export const LOCK_TIMEOUT_MS = 50;
export const PAUSE_MS = 20;

/** Runs `work`, again while it throws `busy` and `total_ms` have not passed. */
export async function retryWhileBusy<T>(
  clock: Clock,
  work: () => T | Promise<T>,
  total_ms = BUSY_TIMEOUT_MS,
): Promise<T> {
  const until_ms = clock.monotonic() + total_ms;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!hasCode(error, "busy") || clock.monotonic() >= until_ms) throw error;
    }
    await clock.sleep(PAUSE_MS);
  }
}

/**
 * Waiting for other processes' locks. SQLite's own wait blocks the event loop, so it is short; writers that
 * follow one another closely, or sync to a slow disk, are waited for here, and other work runs in between.
 */

import type { Clock } from "../clock.ts";
import { hasCode } from "../errors.ts";

/** Total wait. */
export const BUSY_TIMEOUT_MS = 10_000;
/** Between two tries. */
const PAUSE_MS = 20;

/** Runs `work`, again while it throws `busy` and {@linkcode BUSY_TIMEOUT_MS} have not passed. */
export async function retryWhileBusy<T>(clock: Clock, work: () => Promise<T>): Promise<T> {
  const until_ms = clock.monotonic() + BUSY_TIMEOUT_MS;
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!hasCode(error, "busy") || clock.monotonic() >= until_ms) throw error;
    }
    await clock.sleep(PAUSE_MS);
  }
}

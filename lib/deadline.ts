/**
 * The bound on waiting for anything that may never come.
 */

import type { Clock } from "./clock.ts";

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

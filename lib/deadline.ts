/**
 * The bound on waiting for anything that may never come.
 */

import type { Clock } from "./clock.ts";

/**
 * Waits for `work`, but rejects with what `late` makes after `deadline_ms`; the caller then ends what `work` is stuck on.
 */
export async function withDeadline<T>(
  work: Promise<T>,
  clock: Clock,
  deadline_ms: number,
  late: () => Error = () => new DOMException(`no progress within ${deadline_ms} ms`, "TimeoutError"),
): Promise<T> {
  const cancel = new AbortController();
  const expired = clock.sleep(deadline_ms, cancel.signal).then(() => {
    throw late();
  });
  expired.catch(() => {});
  work.catch(() => {});
  try {
    return await Promise.race([work, expired]);
  } finally {
    // Without a reason the runtime makes an exception with a stack, at each call.
    cancel.abort(null);
  }
}

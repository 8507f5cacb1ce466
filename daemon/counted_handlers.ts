/**
 * Handlers that count what they do for the metrics: successes only, each measured from its request to its answer.
 */

import type { Clock } from "../lib/clock.ts";
import { type Address, DEFAULT_BRANCH } from "../lib/store/names.ts";
import type { Handlers } from "./dispatch.ts";
import type { Metrics } from "./metrics.ts";

/** Wraps `handlers`. Checkpoints of branches with a session, by `isLive`, are flushes and not counted here. */
export function counted(
  handlers: Handlers,
  { metrics, clock, isLive }: { metrics: Metrics; clock: Clock; isLive: (address: Address) => boolean },
): Handlers {
  return {
    ...handlers,
    fork: async (args) => {
      const started = clock.monotonic();
      const answer = await handlers.fork(args);
      metrics.forked(answer, (clock.monotonic() - started) / 1000);
      return answer;
    },
    rollback: async (args) => {
      const answer = await handlers.rollback(args);
      metrics.rolledBack(answer.mode);
      return answer;
    },
    promote: async (args) => {
      const answer = await handlers.promote(args);
      metrics.promoted(answer.mode);
      return answer;
    },
    checkpoint: async (args) => {
      const started = clock.monotonic();
      const at_rest = !isLive({ db: args.db, branch: args.branch ?? DEFAULT_BRANCH });
      const answer = await handlers.checkpoint(args);
      const overwritten = "overwrite_detected" in answer;
      if (at_rest) metrics.checkpointed((clock.monotonic() - started) / 1000, overwritten);
      return answer;
    },
  };
}

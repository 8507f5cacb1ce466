/**
 * Handlers that count what they do for the metrics, and tell subscribers of merges: successes only, each measured from
 * its request to its answer.
 */

import type { Clock } from "../lib/clock.ts";
import type { OpAnswer } from "../lib/protocol/messages.ts";
import { type Address, DEFAULT_BRANCH } from "../lib/store/names.ts";
import type { Handlers } from "./dispatch.ts";
import type { Metrics } from "./metrics.ts";
import type { MoreMetrics } from "./more_metrics.ts";
import type { Publisher } from "./publisher.ts";

export interface Counters {
  metrics: Metrics;
  more_metrics: Pick<MoreMetrics, "merged">;
  publisher: Pick<Publisher, "publish">;
  clock: Clock;
  /** Whether a branch has a session: its checkpoints are flushes, and not counted here. */
  isLive: (address: Address) => boolean;
}

export function counted(
  handlers: Handlers,
  { metrics, more_metrics, publisher, clock, isLive }: Counters,
): Handlers {
  const reported = (op: "merge" | "revert", answer: OpAnswer<"merge">) => {
    more_metrics.merged(op, answer);
    const { merge, from, locked_ms, tables } = answer;
    if (merge === undefined) return answer;
    const rows = tables.reduce((sum, table) => sum + table.rows_added + table.rows_removed + table.rows_changed, 0);
    const detail = { from, merge, rows, locked_ms };
    publisher.publish("merged", answer, op === "revert" ? { ...detail, reverts: true } : detail);
    return answer;
  };
  return {
    ...handlers,
    fork: async (args, long) => {
      const started = clock.monotonic();
      const answer = await handlers.fork(args, long);
      metrics.forked(answer, (clock.monotonic() - started) / 1000);
      return answer;
    },
    rollback: async (args, long) => {
      const answer = await handlers.rollback(args, long);
      metrics.repointed("rollback", answer.mode);
      return answer;
    },
    promote: async (args, long) => {
      const answer = await handlers.promote(args, long);
      metrics.repointed("promote", answer.mode);
      return answer;
    },
    merge: async (args, long) => reported("merge", await handlers.merge(args, long)),
    revert: async (args, long) => reported("revert", await handlers.revert(args, long)),
    checkpoint: async (args, long) => {
      const started = clock.monotonic();
      const at_rest = !isLive({ db: args.db, branch: args.branch ?? DEFAULT_BRANCH });
      const answer = await handlers.checkpoint(args, long);
      const overwritten = "overwrite_detected" in answer;
      if (at_rest) metrics.checkpointed((clock.monotonic() - started) / 1000, overwritten);
      return answer;
    },
  };
}

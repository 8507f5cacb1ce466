/**
 * The branch store as the broker uses it: through its daemon's socket, as any user would, with a deadline on every call.
 */

import type { Clock } from "../../lib/clock.ts";
import { type Client, connect } from "../../lib/client/client.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { BranchStatus } from "../../lib/store/results.ts";

/** Milliseconds for what moves no more than a few files' names. */
const CALL_MS = 120_000;

export interface StoreAccess {
  /** The daemon's unix socket. */
  socket: string;
  clock: Clock;
}

export interface StoreWork {
  /** For the error: `Cannot take the task`. */
  attempted: string;
  signal?: AbortSignal | undefined;
  /** Milliseconds in all, by default two minutes. */
  timeout_ms?: number;
}

/**
 * Connects, does `work`, disconnects.
 *
 * @throws {TaskdError} `daemon_unreachable`, `timed_out`, the daemon's own codes, or what `signal` was aborted with.
 */
export async function withStore<T>(
  { socket, clock }: StoreAccess,
  { attempted, signal, timeout_ms = CALL_MS }: StoreWork,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  signal?.throwIfAborted();
  const over = new AbortController();
  const ended = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal]);
  let late = false;
  const deadline = clock.sleep(timeout_ms, ended).then(() => {
    late = true;
    over.abort();
  }, () => {});
  try {
    using client = await connect(socket, { signal: ended });
    return await work(client);
  } catch (error) {
    signal?.throwIfAborted();
    if (late) {
      throw new TaskdError("timed_out", `${attempted}: the branch store at ${socket} did not answer in time`, {
        cause: error,
        hint: "Look at the log of `taskd serve`",
      });
    }
    if (hasCode(error, "daemon_unreachable")) {
      throw new TaskdError("daemon_unreachable", `${attempted}: no branch store answers at ${socket}`, {
        cause: error,
        hint: "Run: taskd serve; the setting branch_store.socket says where it listens",
      });
    }
    if (!(error instanceof TaskdError)) throw error;
    throw new TaskdError(error.code, `${attempted}: ${error.message}`, { cause: error, hint: error.hint });
  } finally {
    over.abort();
    await deadline;
  }
}

/** A branch in depth; throws `not_found`. */
export async function statusOf(client: Client, db: string, branch: string): Promise<BranchStatus> {
  const { branch: status } = await client.call("status", { db, branch });
  if (status === undefined) throw new TaskdError("not_found", `There is no branch ${db}@${branch}`);
  return status;
}

/**
 * The branch store as the broker uses it: through its daemon's socket, as any user would, with a deadline on every call.
 */

import { createHash } from "node:crypto";
import type { Clock } from "../../lib/clock.ts";
import { type Client, connect } from "../../lib/client/client.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { BranchStatus } from "../../lib/store/results.ts";

/** Milliseconds for what moves no more than a few files' names. */
const CALL_MS = 120_000;

export interface StoreAccess {
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

export async function statusOf(client: Client, db: string, branch: string): Promise<BranchStatus> {
  const { branch: status } = await client.call("status", { db, branch });
  if (status === undefined) throw new TaskdError("not_found", `There is no branch ${db}@${branch}`);
  return status;
}

/** Where the header has the journal mode, 1 for a rollback journal and 2 for a log: no content. */
const JOURNAL_MODE_AT = 18;

/** SHA-256 of a database's file in the mode of a rollback journal, as `taskd export` writes it. */
export async function imageSha256(path: string): Promise<string> {
  const hash = createHash("sha256");
  let first = true;
  const file = await Deno.open(path);
  for await (const bytes of file.readable) {
    if (first) bytes.fill(1, JOURNAL_MODE_AT, JOURNAL_MODE_AT + 2);
    first = false;
    hash.update(bytes);
  }
  return hash.digest("hex");
}

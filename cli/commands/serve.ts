/**
 * The command `taskd serve`.
 *
 * @module
 */

import { serve } from "../../daemon/serve.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../args.ts";
import type { Io } from "../io.ts";

/** Serves until it is interrupted. Under --json it prints one object once it serves; the log is on stderr. */
export async function run(args: Args, io: Io): Promise<undefined> {
  const daemon = await serve({
    store: args.store,
    socket: args.socket,
    flush_every_ms: args.numberOf("flush-every"),
    snapshot_every: args.numberOf("snapshot-every"),
    log: (line) => io.note(line),
    signal: io.signal,
  });
  if (io.json) io.outJson({ ok: true, store: daemon.store, socket: daemon.socket, pid: Deno.pid });
  const unclosed = await daemon.finished;
  if (unclosed.length === 0) return;
  const which = unclosed.map(({ address, error }) => `${address} (${error})`).join(", ");
  throw new TaskdError("session_failed", `Stopped, but could not close every session: ${which}`, {
    hint: "What was not made durable is still in the checkouts",
  });
}

/** Nothing is left to print. */
export function render(): string {
  return "";
}

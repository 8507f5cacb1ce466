/**
 * The loop in which every listener of the daemons accepts: clients that leave before they are accepted keep no others
 * out, and a lack of descriptors is waited out.
 */

import type { Clock } from "./clock.ts";
import { messageOf } from "./errors.ts";

/** Milliseconds until the next try, once the process is out of descriptors. */
const RETRY_MS = 100;

export interface AcceptOptions {
  clock: Clock;
  /** Ends the loop; so does closing the listener. */
  signal: AbortSignal;
  /** Receives what keeps connections from being accepted. */
  log?: ((line: string) => void) | undefined;
}

/** Gives `take` each connection of `listener` once it has taken the one before, until the end; what comes later is closed. */
export async function acceptAll<C extends Deno.Conn>(
  listener: { accept(): Promise<C> },
  take: (conn: C) => void | Promise<void>,
  { clock, signal, log }: AcceptOptions,
): Promise<void> {
  while (!signal.aborted) {
    let conn: C;
    try {
      conn = await listener.accept();
    } catch (error) {
      if (error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted) return;
      // A client that resets connections as fast as it makes them would otherwise keep all others out.
      if (isClientGone(error)) continue;
      log?.(`accept failed: ${messageOf(error)}`);
      await clock.sleep(RETRY_MS, signal).catch(() => {});
      continue;
    }
    if (signal.aborted) conn.close();
    else await take(conn);
  }
}

/** Whether an error of accept() is about one client that left before; anything else, such as a lack of descriptors, persists. */
function isClientGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotConnected || error instanceof Deno.errors.ConnectionAborted ||
    error instanceof Deno.errors.ConnectionReset;
}

/**
 * What a failed accept() means for those that wait to be accepted.
 */

/**
 * Whether `error`, thrown by accept(), is about one client that left before it was accepted: the next one can be
 * accepted at once. Anything else, such as a lack of descriptors, persists.
 *
 * Without this, a client that resets connections as fast as it makes them would keep all others out.
 */
export function isClientGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotConnected || error instanceof Deno.errors.ConnectionAborted ||
    error instanceof Deno.errors.ConnectionReset;
}

/**
 * What a failed accept() means for those that wait to be accepted.
 *
 * @module
 */

/**
 * Whether `error`, thrown by accept(), is about one client that was gone before its turn came: the next one can have
 * its turn at once. Anything else, such as a lack of descriptors, is there still a moment later.
 *
 * Who resets connections as fast as it makes them would otherwise keep everybody else out.
 */
export function isClientGone(error: unknown): boolean {
  return error instanceof Deno.errors.NotConnected || error instanceof Deno.errors.ConnectionAborted ||
    error instanceof Deno.errors.ConnectionReset;
}

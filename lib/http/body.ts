/**
 * Reading a request's body within bounds, and draining one that is refused so
 * that its connection can be used again.
 */

import type { GuardedRequest } from "./guard.ts";
import { concat } from "../concat.ts";

/** How much of a refused body is read; a longer one ends its connection. */
const MAX_DRAINED_BYTES = 16 << 20;

/** Reads a body of at most `max_bytes`; undefined when it is longer, and then drained as {@linkcode drain} does. */
export async function readBounded(
  request: Request,
  guarded: GuardedRequest,
  max_bytes: number,
): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  const size = await readUpTo(request, max_bytes, (part) => parts.push(part));
  if (size === undefined) {
    guarded.last();
    return undefined;
  }
  // From here on the answer's time counts, not the client's.
  guarded.bodyDone();
  if (size > max_bytes) return undefined;
  return concat(parts);
}

/** Reads and drops a body; one that is too long for that ends its connection. */
export async function drain(request: Request, guarded: GuardedRequest): Promise<void> {
  try {
    if (await readUpTo(request, 0, () => {}) === undefined) guarded.last();
  } catch {
    // The client went away; the answer will not reach it either.
  }
}

/**
 * Reads a body and hands on what is within `max_bytes`. Returns its size, or undefined when more than
 * {@linkcode MAX_DRAINED_BYTES} would have to be read beyond that.
 */
async function readUpTo(
  request: Request,
  max_bytes: number,
  take: (part: Uint8Array) => void,
): Promise<number | undefined> {
  const bound = max_bytes + MAX_DRAINED_BYTES;
  if (Number(request.headers.get("content-length") ?? 0) > bound) return undefined;
  let size = 0;
  for await (const part of request.body ?? []) {
    size += part.length;
    if (size > bound) return undefined;
    if (size <= max_bytes) take(part);
  }
  return size;
}

/**
 * Reading a request's body within bounds.
 */

import { concat } from "../concat.ts";

/** Reads a body; undefined when it has more than `max_bytes`: the rest is left to the server. */
export async function readBounded(request: Request, max_bytes: number): Promise<Uint8Array | undefined> {
  if (Number(request.headers.get("content-length") ?? 0) > max_bytes) return undefined;
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of request.body ?? []) {
    if ((size += part.length) > max_bytes) return undefined;
    parts.push(part);
  }
  return concat(parts);
}

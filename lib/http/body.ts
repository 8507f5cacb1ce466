/**
 * Reading a request's body within bounds.
 */

import { GatheredBytes } from "../gathered_bytes.ts";

/** Reads a body; undefined when it has more than `max_bytes`: the rest is left to the server. */
export async function readBounded(request: Request, max_bytes: number): Promise<Uint8Array | undefined> {
  if (Number(request.headers.get("content-length") ?? 0) > max_bytes) return undefined;
  const gathered = new GatheredBytes();
  for await (const part of request.body ?? []) {
    if (gathered.length + part.length > max_bytes) return undefined;
    gathered.push(part);
  }
  return gathered.whole();
}

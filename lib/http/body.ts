/**
 * Reading a body within bounds: a request's, or that of another server's answer.
 */

import { GatheredBytes } from "../gathered_bytes.ts";

/** Reads a body; undefined when it has more than `max_bytes`: the rest is left to the server. */
export async function readBounded(request: Request, max_bytes: number): Promise<Uint8Array | undefined> {
  if (Number(request.headers.get("content-length") ?? 0) > max_bytes) return undefined;
  return await gather(request.body, max_bytes);
}

/** The body as text; undefined when it has more than `max_bytes`: the rest is then not read. */
export async function readText(response: Response, max_bytes: number): Promise<string | undefined> {
  const bytes = await gather(response.body, max_bytes);
  return bytes && new TextDecoder().decode(bytes);
}

async function gather(body: Request["body"], max_bytes: number): Promise<Uint8Array | undefined> {
  const gathered = new GatheredBytes();
  for await (const part of body ?? []) {
    // Leaving the loop cancels the body.
    if (gathered.length + part.length > max_bytes) return undefined;
    gathered.push(part);
  }
  return gathered.whole();
}

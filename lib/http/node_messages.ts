/**
 * Requests and responses of node:http as those of fetch.
 */

import type { IncomingMessage, ServerResponse } from "node:http";

/** How much of a body that is not used is read; a longer one ends its connection. */
const MAX_DRAINED_BYTES = 16 << 20;

/** A request of node:http as one of fetch. */
export interface FetchRequest {
  request: Request;
  /** Null when its target and Host are no URL. A request without a Host is one to localhost. */
  url: URL | null;
  /** Whether a body comes; that of a GET is none of the request's. */
  has_body: boolean;
}

/** Methods that fetch does not have. */
export const METHODS_REFUSED: ReadonlySet<string | undefined> = new Set(["CONNECT", "TRACE", "TRACK"]);

export function requestOf(incoming: IncomingMessage): FetchRequest {
  const { method = "GET", url: target = "/", rawHeaders } = incoming;
  const headers = new Headers();
  // Each as it came: node:http drops the second of some.
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!);
  const path = target === "*" ? "/*" : target;
  const url = URL.parse(path.startsWith("/") ? `http://${headers.get("host") || "localhost"}${path}` : path);
  const has_body = headers.has("transfer-encoding") || Number(headers.get("content-length") ?? 0) > 0;
  const body = has_body && method !== "GET" && method !== "HEAD" ? bodyOf(incoming) : null;
  return { request: new Request(url ?? "http://localhost/", { method, headers, body }), url, has_body };
}

/** A body as it is asked for; what is left when a reader cancels stays with `incoming`. */
function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array<ArrayBuffer>> {
  const parts = incoming.iterator({ destroyOnReturn: false });
  return new ReadableStream({
    pull: async (controller) => {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(new Uint8Array(value));
    },
    cancel: () => void parts.return?.(),
  }, { highWaterMark: 0 });
}

/** Reads and drops what is left of a body; false when that is too much, or does not come. */
export async function drain(incoming: IncomingMessage): Promise<boolean> {
  if (incoming.readableEnded) return true;
  if (Number(incoming.headers["content-length"] ?? 0) > MAX_DRAINED_BYTES) return false;
  let size = 0;
  try {
    for await (const part of incoming.iterator({ destroyOnReturn: false })) {
      if ((size += part.length) > MAX_DRAINED_BYTES) return false;
    }
    return true;
  } catch {
    // The client went away; the answer will not reach it either.
    return false;
  }
}

/**
 * Sends a response; resolves when it has been handed over, or cannot be.
 *
 * @param endless Whether each part is sent as it comes; else a body of one part has its length.
 */
export async function respond(response: Response, outgoing: ServerResponse, endless: boolean): Promise<void> {
  const reader = response.body?.getReader();
  // A transform stream that was terminated throws at once.
  const cancel = async () => await reader?.cancel();
  if (outgoing.destroyed) return cancel().catch(() => {});
  const closed = Promise.withResolvers<void>();
  let room = Promise.withResolvers<void>();
  // What comes of a client that is gone is known by the end of its connection.
  outgoing.on("error", () => {});
  outgoing.on("drain", () => room.resolve());
  outgoing.once("close", () => {
    closed.resolve();
    room.resolve();
    cancel().catch(() => {});
  });
  try {
    outgoing.statusCode = response.status;
    for (const [name, value] of response.headers) outgoing.setHeader(name, value);
    if (endless) outgoing.flushHeaders();
    let held: Uint8Array | undefined;
    for (let part = await reader?.read(); part?.done === false; part = await reader!.read()) {
      const next: Uint8Array | undefined = endless ? part.value : held;
      held = part.value;
      if (next === undefined) continue;
      room = Promise.withResolvers();
      if (outgoing.destroyed) break;
      if (!outgoing.write(next)) await room.promise;
    }
    outgoing.end(endless ? undefined : held);
  } catch {
    // What makes the body has failed: the client sees that it is not whole.
    outgoing.destroy();
  }
  await closed.promise;
}

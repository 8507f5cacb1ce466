/**
 * Requests and responses of node:http, and both as those of fetch.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { GUARD_HEADERS } from "./browser_guard.ts";
import type { ConnectionStream } from "./connection_stream.ts";

/** How much of a body that is not used is read; a longer one ends its connection. */
const MAX_DRAINED_BYTES = 16 << 20;

/** A request and the place for its answer. */
export interface HttpExchange<Via> {
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  stream: ConnectionStream;
  /** What the listener was given. */
  via: Via;
  /** Aborted when the server ends. */
  ending: AbortSignal;
}

/** A request's connection. */
export interface RequestConnection {
  /** Null when the request's target and Host are no URL. */
  readonly url: URL | null;
  readonly peer: Deno.Addr;
  /** Aborted when the client will send nothing more: most likely it is gone. An answer still reaches one that listens. */
  readonly gone: AbortSignal;
  /** The response is a stream without an end. */
  streaming(): void;
  /** The connection ends with this response: the rest of the request is not read. */
  last(): void;
}

export interface FetchOptions<Via> {
  answer: (request: Request, connection: RequestConnection, via: Via) => Promise<Response>;
  /** Answers a request whose `answer` threw. */
  failed: (error: unknown) => Response;
}

/** Serves requests as those of fetch. Every answer has {@linkcode GUARD_HEADERS}. */
export function serveFetch<Via>({ answer, failed }: FetchOptions<Via>): (exchange: HttpExchange<Via>) => Promise<void> {
  return async ({ incoming, outgoing, stream, via, ending }) => {
    const last = () => void (outgoing.shouldKeepAlive = false);
    const answered = async () => {
      if (METHODS_REFUSED.has(incoming.method)) return new Response(null, { status: 405 });
      const { request, url } = requestOf(incoming);
      const { conn: { remoteAddr: peer }, gone } = stream;
      return await answer(request, { url, peer, gone, streaming: () => stream.streaming(), last }, via);
    };
    const response = await answered().catch(failed);
    for (const [name, value] of Object.entries(GUARD_HEADERS)) {
      if (!response.headers.has(name)) response.headers.set(name, value);
    }
    // What was not read of a request stands in the way of the next one.
    if (outgoing.shouldKeepAlive && !await drain(incoming)) last();
    stream.bodyDone();
    if (ending.aborted) last();
    await respond(response, outgoing, stream.endless);
  };
}

/** Methods that fetch does not have. */
const METHODS_REFUSED: ReadonlySet<string | undefined> = new Set(["CONNECT", "TRACE", "TRACK"]);

/** Whether a body comes; that of a GET is none of the request's. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** `url` is null when target and Host are no URL. A request without a Host is one to localhost. */
function requestOf(incoming: IncomingMessage) {
  const { method = "GET", url: target = "/", rawHeaders } = incoming;
  const headers = new Headers();
  // Each as it came: node:http drops the second of some.
  for (let at = 0; at < rawHeaders.length; at += 2) headers.append(rawHeaders[at]!, rawHeaders[at + 1]!);
  const path = target === "*" ? "/*" : target;
  const url = URL.parse(path.startsWith("/") ? `http://${headers.get("host") || "localhost"}${path}` : path);
  const body = hasBody(incoming) && method !== "GET" && method !== "HEAD" ? bodyOf(incoming) : null;
  return { request: new Request(url ?? "http://localhost/", { method, headers, body }), url };
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
async function respond(response: Response, outgoing: ServerResponse, endless: boolean): Promise<void> {
  const reader = response.body?.getReader();
  // A transform stream that was terminated throws at once.
  const cancel = async () => await reader?.cancel();
  if (outgoing.destroyed) return cancel().catch(() => {});
  let room = Promise.withResolvers<void>();
  outgoing.on("drain", () => room.resolve());
  outgoing.once("close", () => {
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
}

/**
 * Serves a client connection: one request after the other, each checked; a refusal is answered with its reason.
 */

import { serveConnect } from "./_connect_tunnel.ts";
import { servePlain } from "./_plain_http.ts";
import type { Attempt, Session } from "./_session.ts";
import { TooLong } from "./_buffered_connection.ts";
import { MAX_HEAD_BYTES, parseRequestHead, type RequestHead, valuesOf, wantsClose } from "./http_head.ts";
import { refusalResponse, Refused } from "./reasons.ts";

const HEAD_END = new TextEncoder().encode("\r\n\r\n");
/** Refusals after which a connection is ended; the client can open another. */
const MAX_REFUSALS = 64;
/** Bytes of a refused client that are read to let it have its answer. */
const LINGER_BYTES = 256 << 10;
/** The fatal alert access_denied: TLS clients then report a refusal, and not a broken connection. */
const TLS_ALERT = Uint8Array.of(21, 3, 3, 0, 2, 2, 49);

/** Serves a connection until it ends; never throws. */
export async function serveClient(session: Session): Promise<void> {
  try {
    await serveRequests(session, async (attempt, head) => {
      if (head.method !== "CONNECT") return await servePlain(session, attempt, head);
      await serveConnect(session, attempt, head, (serve) => serveRequests(session, serve));
      return false;
    });
  } catch {
    // The client is gone, or its connection was closed: no answer can be sent.
  } finally {
    session.end();
  }
}

/** Reads requests until the connection takes no more; `serve` returns whether it does. */
async function serveRequests(
  session: Session,
  serve: (attempt: Attempt, head: RequestHead) => Promise<boolean>,
): Promise<void> {
  for (let refusals = 0; refusals < MAX_REFUSALS;) {
    const bytes = await readHead(session);
    if (bytes === undefined) return;
    const attempt = session.begin("NONE");
    let head: RequestHead | undefined;
    try {
      if (!(bytes instanceof Uint8Array)) throw bytes;
      head = parseRequestHead(bytes);
      attempt.method = head.method;
      if (!await serve(attempt, head)) return await closeGracefully(session);
    } catch (error) {
      if (!await refuse(session, attempt, head, outcomeOf(session, error))) return;
      refusals++;
    }
  }
}

function outcomeOf(session: Session, error: unknown): Refused {
  if (error instanceof Refused) {
    const timeout = error.reason === "hello_timeout" || error.reason === "head_timeout";
    return session.client.closed && !timeout ? new Refused("client_gone") : error;
  }
  // The connection's own errors, which only the client's side is left to raise, are no defects.
  return error instanceof TypeError || error instanceof RangeError
    ? new Refused("internal")
    : new Refused("client_gone");
}

async function closeGracefully({ client, deadline, deps }: Session): Promise<void> {
  deadline.set(deps.timeouts.linger_ms, () => client.close());
  await client.linger(LINGER_BYTES);
}

/** The next head; undefined when there is none, and a refusal where one cannot be read. */
async function readHead(session: Session): Promise<Uint8Array | Refused | undefined> {
  const { client, deadline, deps } = session;
  let late = false;
  try {
    if (client.buffered.length === 0) {
      deadline.set(deps.timeouts.keep_alive_ms, () => client.close());
      if (!await client.fill()) return undefined;
    }
    deadline.set(deps.timeouts.head_ms, () => {
      late = true;
      client.close();
    });
    return await client.takeUntil(HEAD_END, MAX_HEAD_BYTES);
  } catch (error) {
    if (error instanceof TooLong) return new Refused("head_too_large");
    return late ? new Refused("head_timeout") : undefined;
  }
}

/** Answers, records and logs a refusal; false when the connection has to end. */
async function refuse(
  session: Session,
  attempt: Attempt,
  head: RequestHead | undefined,
  refused: Refused,
): Promise<boolean> {
  const { client } = session;
  const decision = session.record(attempt, refused);
  const keep = head !== undefined && !attempt.established && hasNoBody(head) && !wantsClose(head) &&
    refused.reason !== "too_many_connections";
  session.deadline.set(session.deps.timeouts.linger_ms, () => client.close());
  try {
    if (!attempt.established) await client.write(refusalResponse(refused, attempt.target, !keep));
    else if (refused.reason !== "tls_expected") await client.write(TLS_ALERT);
  } catch {
    // It did not wait for the answer.
    client.close();
  }
  session.log(attempt, decision);
  if (!keep) await closeGracefully(session);
  return keep;
}

/** Whether the next request begins right after this head, for certain. */
function hasNoBody({ fields }: RequestHead): boolean {
  return valuesOf(fields, "transfer-encoding").length === 0 &&
    valuesOf(fields, "content-length").every((value) => value === "0");
}

/**
 * Plain HTTP requests: `http://` URLs sent to the proxy, and what runs through a tunnel to port 80.
 *
 * Every request is checked and gets a connection of its own to the host, so that no leftover of one can be read as
 * the beginning of another. Heads and chunks are rewritten on both sides. A redirect is a response like any other:
 * a client that follows it sends another request.
 */

import { passBody } from "./_http_body.ts";
import type { Attempt, Session } from "./_session.ts";
import { type BufferedConnection, EndedEarly, TooLong } from "./_buffered_connection.ts";
import { type EgressTarget, formatTarget, parseAuthority } from "./host_name.ts";
import {
  encodeHead,
  endToEnd,
  type Framing,
  MAX_HEAD_BYTES,
  parseResponseHead,
  requestFraming,
  type RequestHead,
  responseFraming,
  type ResponseHead,
  valuesOf,
  wantsClose,
} from "./http_head.ts";
import { Refused } from "./reasons.ts";

const HEAD_END = new TextEncoder().encode("\r\n\r\n");
const CONTINUE = new TextEncoder().encode("HTTP/1.1 100 Continue\r\n\r\n");
/** Interim responses that are skipped; after these a host must send its final one. */
const MAX_INTERIM = 16;

/** The tunnel that a request came through: its host is settled, and its addresses are checked. */
export interface PlainTunnel {
  target: EgressTarget;
  addresses: string[];
  /** Whether a grant has let it through. */
  granted?: boolean | undefined;
}

/**
 * Serves one plain request.
 *
 * @param through The tunnel that it came through; it then needs no credentials of its own.
 * @returns Whether the connection can take another.
 * @throws {Refused} Before the response's head was sent.
 */
export async function servePlain(
  session: Session,
  attempt: Attempt,
  head: RequestHead,
  through?: PlainTunnel,
): Promise<boolean> {
  const form = through === undefined ? absoluteForm(head) : originForm(head, through.target);
  if (!(form instanceof Refused)) {
    attempt.target = form.target;
    attempt.path = form.path.split("?", 1)[0]!;
  }
  if (through === undefined) session.authenticate(head);
  if (form instanceof Refused) throw form;
  const { target, path } = form;
  const framing = requestFraming(head);
  if (head.minor === 1 && valuesOf(head.fields, "host").length === 0) throw new Refused("malformed");
  checkHost(head, target, 80);
  session.authorise(attempt, target, through?.granted);
  if (target.port === 443) throw new Refused("tls_expected");
  const addresses = through?.addresses ?? await session.resolve(target);
  const upstream = await session.dial(attempt, target, addresses);
  try {
    return await exchange(session, attempt, { head, target, path, framing }, upstream);
  } finally {
    upstream.close();
  }
}

interface Form {
  target: EgressTarget;
  path: string;
}

function absoluteForm({ method, target: text }: RequestHead): Form | Refused {
  const match = /^http:\/\/([^/?#]*)(\/[^#]*|\?[^#]*)?$/i.exec(text);
  if (match === null) return new Refused("not_proxy_form");
  const target = parseAuthority(match[1]!, 80);
  if (typeof target === "string") return new Refused(target);
  const rest = match[2] ?? "";
  if (rest === "" && method === "OPTIONS") return { target, path: "*" };
  return { target, path: rest.startsWith("/") ? rest : `/${rest}` };
}

function originForm({ method, target: path }: RequestHead, target: EgressTarget): Form | Refused {
  const fits = path.startsWith("/") && !path.includes("#") || path === "*" && method === "OPTIONS";
  return fits && method !== "CONNECT" ? { target, path } : new Refused("not_proxy_form");
}

/** Throws {@linkcode Refused} unless the Host field, without its port that of `default_port`, names `target`. */
export function checkHost({ fields }: RequestHead, target: EgressTarget, default_port: number): void {
  const hosts = valuesOf(fields, "host");
  if (hosts.length === 0) return;
  if (hosts.length > 1) throw new Refused("malformed");
  const host = parseAuthority(hosts[0]!, default_port);
  if (typeof host === "string" || host.host !== target.host || host.port !== target.port) {
    throw new Refused("host_mismatch");
  }
}

interface Request extends Form {
  head: RequestHead;
  framing: Framing;
}

async function exchange(
  session: Session,
  attempt: Attempt,
  request: Request,
  upstream: BufferedConnection,
): Promise<boolean> {
  const { client, deadline, deps } = session;
  const { head, framing } = request;
  deadline.setIdle(deps.timeouts.exchange_ms, () => session.close());
  await upstream.write(requestHead(request)).catch(() => {
    throw new Refused("upstream_incomplete");
  });
  let uploaded = false;
  let upload_error: unknown;
  sendBody(client, upstream, head, framing).then(() => {
    uploaded = true;
  }, (error: unknown) => {
    upload_error = error;
    // What the client sent is beyond repair, so no answer of the host's will do. A host that stopped reading is
    // another matter: it may well have answered.
    if (error instanceof Refused || error instanceof EndedEarly) upstream.close();
  });
  let response: ResponseHead;
  let body: Framing;
  try {
    response = await readResponse(upstream);
    body = responseFraming(response, head.method);
  } catch (error) {
    upstream.close();
    throw upload_error instanceof Refused ? upload_error : error;
  }
  // Without the end of its body, the beginning of the next request is unknown.
  const keep = uploaded && !wantsClose(head) && body.by !== "close";
  const decision = session.record(attempt, response.status);
  try {
    const rechunk = head.minor === 1;
    await client.write(responseHead(response, body, rechunk, keep));
    await passBody(upstream, client, body, rechunk);
    return keep;
  } catch {
    // The client has a part of the response: only cutting it off still shows that it is incomplete.
    session.close();
    return false;
  } finally {
    session.log(attempt, decision);
  }
}

async function sendBody(
  client: BufferedConnection,
  upstream: BufferedConnection,
  head: RequestHead,
  framing: Framing,
): Promise<void> {
  // Answered here: asking the host whether it wants the body would hold two connections.
  const expects = valuesOf(head.fields, "expect").some((value) => value.toLowerCase() === "100-continue");
  if (expects && head.minor === 1 && framing.by !== "none") await client.write(CONTINUE);
  await passBody(client, upstream, framing);
}

function requestHead({ head, target, path, framing }: Request): Uint8Array {
  const fields = endToEnd(head.fields).filter(({ key }) => key !== "host" && key !== "expect");
  return encodeHead(`${head.method} ${path} HTTP/1.1`, [
    { name: "Host", value: formatTarget(target, 80) },
    ...fields,
    ...framing.by === "chunks" ? [{ name: "Transfer-Encoding", value: "chunked" }] : [],
    { name: "Connection", value: "close" },
  ]);
}

function responseHead(response: ResponseHead, body: Framing, rechunk: boolean, keep: boolean): Uint8Array {
  return encodeHead(`HTTP/1.1 ${response.status} ${response.phrase}`, [
    ...endToEnd(response.fields),
    ...body.by === "chunks" && rechunk ? [{ name: "Transfer-Encoding", value: "chunked" }] : [],
    { name: "Connection", value: keep ? "keep-alive" : "close" },
  ]);
}

async function readResponse(upstream: BufferedConnection): Promise<ResponseHead> {
  for (let interim = 0; interim <= MAX_INTERIM; interim++) {
    let bytes: Uint8Array | undefined;
    try {
      bytes = await upstream.takeUntil(HEAD_END, MAX_HEAD_BYTES);
    } catch (error) {
      throw new Refused(error instanceof TooLong ? "upstream_malformed" : "upstream_incomplete");
    }
    if (bytes === undefined) throw new Refused("upstream_incomplete");
    const response = parseResponseHead(bytes);
    // No upgrade was asked for.
    if (response.status === 101) break;
    if (response.status >= 200) return response;
  }
  throw new Refused("upstream_malformed");
}

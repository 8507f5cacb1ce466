/**
 * Every outcome that the proxy can decide on: one table for the answers, the access log, the tests and the
 * documentation.
 *
 * @module
 */

import type { EgressTarget } from "./host_name.ts";

/** What a client gets to see of an outcome. */
interface ReasonSpec {
  /** HTTP status; of an outcome inside a tunnel, the one in the access log alone. */
  status: number;
  /** Reason phrase: what `curl` and `git` print. */
  phrase: string;
  /** Error type of the Proxy-Status field (RFC 9209). */
  error: string;
  /** What went wrong, after "Cannot reach <target>: ". */
  text: string;
  /** What to do about it. */
  hint?: string;
}

const LIST_HINT =
  "Add the host with this port to egress.yaml, or to the task's egress_extra, and start the broker again";
const ADDRESS_HINT =
  "Sandboxes reach public addresses only; publish the service under one, or let the broker's operator " +
  "allow the address";

/** The outcomes. */
export const REASONS = {
  allowed: { status: 200, phrase: "Connection established", error: "", text: "it was reached" },

  credentials_missing: {
    status: 407,
    phrase: "Proxy credentials needed",
    error: "http_request_denied",
    text: "the request carries no proxy credentials",
    hint: "Use the proxy URL of the task, with its user name and password",
  },
  credentials_wrong: {
    status: 407,
    phrase: "Proxy credentials are wrong",
    error: "http_request_denied",
    text: "the proxy credentials are of no running task",
    hint: "Use the proxy URL of the task, with its user name and password",
  },
  malformed: {
    status: 400,
    phrase: "Malformed request",
    error: "http_request_error",
    text: "the request breaks the HTTP/1.1 grammar",
  },
  smuggling: {
    status: 400,
    phrase: "Ambiguous request",
    error: "http_request_error",
    text: "the request's framing could be read in two ways",
    hint: "Send either one Content-Length or Transfer-Encoding: chunked",
  },
  head_too_large: {
    status: 431,
    phrase: "Request head too large",
    error: "http_request_error",
    text: "the request's head is over 64 KiB or 128 fields",
  },
  head_timeout: {
    status: 408,
    phrase: "Request timeout",
    error: "http_request_error",
    text: "the request's head did not arrive in time",
  },
  bad_target: {
    status: 400,
    phrase: "Not a host name",
    error: "http_request_error",
    text: "the target is no plain host name with a port",
    hint: "Write CONNECT host:port, or an http:// URL without user name, escapes or spaces in the host",
  },
  not_proxy_form: {
    status: 400,
    phrase: "Not a proxy request",
    error: "http_request_error",
    text: "the proxy takes CONNECT and http:// URLs only",
    hint: "Use CONNECT for https",
  },
  address_literal: {
    status: 403,
    phrase: "Addresses are not allowed",
    error: "http_request_denied",
    text: "the target is an IP address, and only names can be allowed",
    hint: "Use the host's name, and list that in egress.yaml",
  },
  not_listed: {
    status: 403,
    phrase: "Host not in egress.yaml",
    error: "http_request_denied",
    text: "the host is not in the egress list",
    hint: LIST_HINT,
  },
  port_not_listed: {
    status: 403,
    phrase: "Port not in egress.yaml",
    error: "http_request_denied",
    text: "the host is in the egress list with other ports",
    hint: LIST_HINT,
  },
  too_many_names: {
    status: 403,
    phrase: "Too many names",
    error: "http_request_denied",
    text: "the task has used too many different names below wildcards of the egress list",
    hint: "List the names that are needed one by one in egress.yaml",
  },
  host_mismatch: {
    status: 403,
    phrase: "Host differs from the target",
    error: "http_request_denied",
    text: "the Host field names another host than the target",
  },
  name_not_found: {
    status: 502,
    phrase: "Name not found",
    error: "dns_error",
    text: "the name has no address",
    hint: "Look the name up on the broker's host",
  },
  resolve_timeout: {
    status: 504,
    phrase: "Name lookup timed out",
    error: "dns_timeout",
    text: "the name's lookup took too long",
    hint: "Look the name up on the broker's host",
  },
  address_refused: {
    status: 403,
    phrase: "Address is not public",
    error: "destination_ip_prohibited",
    text: "the name resolves to an address that sandboxes may not reach",
    hint: ADDRESS_HINT,
  },
  connect_failed: {
    status: 502,
    phrase: "Connection failed",
    error: "connection_refused",
    text: "no address of the host takes the connection",
  },
  connect_timeout: {
    status: 504,
    phrase: "Connection timed out",
    error: "connection_timeout",
    text: "no address of the host answers",
  },
  upstream_malformed: {
    status: 502,
    phrase: "Malformed response",
    error: "http_protocol_error",
    text: "the host's response breaks the HTTP/1.1 grammar or cannot be framed",
  },
  upstream_incomplete: {
    status: 502,
    phrase: "Incomplete response",
    error: "http_response_incomplete",
    text: "the host ended the connection before its response was complete",
  },
  tls_expected: {
    status: 403,
    phrase: "TLS expected",
    error: "http_request_denied",
    text: "what was sent to port 443 is not TLS",
  },
  hello_malformed: {
    status: 403,
    phrase: "Malformed ClientHello",
    error: "http_request_denied",
    text: "the TLS ClientHello is malformed, ambiguous or too long",
  },
  hello_timeout: {
    status: 408,
    phrase: "ClientHello timeout",
    error: "http_request_error",
    text: "the first bytes did not arrive whole in time",
  },
  sni_absent: {
    status: 403,
    phrase: "No server name",
    error: "http_request_denied",
    text: "the TLS ClientHello names no server",
    hint: "Use a client that sends SNI",
  },
  sni_mismatch: {
    status: 403,
    phrase: "Server name differs",
    error: "http_request_denied",
    text: "the TLS ClientHello names another server than the CONNECT target",
  },
  too_many_connections: {
    status: 429,
    phrase: "Too many connections",
    error: "http_request_denied",
    text: "the task has as many connections open as it may",
    hint: "Close some first",
  },
  overloaded: {
    status: 503,
    phrase: "Overloaded",
    error: "connection_limit_reached",
    text: "the proxy has as many connections open as it may",
    hint: "Try again later",
  },
  log_unavailable: {
    status: 503,
    phrase: "Access log unavailable",
    error: "proxy_internal_error",
    text: "the access log cannot be written, and nothing passes unlogged",
    hint: "Let the broker's operator look at squid_run_dir",
  },
  client_gone: {
    status: 0,
    phrase: "",
    error: "",
    text: "the client, or its task, was gone before there was an outcome",
  },
  internal: {
    status: 500,
    phrase: "Internal error",
    error: "proxy_internal_error",
    text: "the proxy has a defect",
  },
} as const satisfies Record<string, ReasonSpec>;

/** A key of {@linkcode REASONS}. */
export type Reason = keyof typeof REASONS;

/** Ends a request with an outcome other than `allowed`. */
export class Refused extends Error {
  override name = "Refused";
  /** Why. */
  readonly reason: Exclude<Reason, "allowed">;
  /** More for the task's owner: an address class, the listed ports. Made by the proxy, of checked parts only. */
  readonly detail: string | undefined;

  /** Refuses for `reason`. */
  constructor(reason: Exclude<Reason, "allowed">, detail?: string) {
    super(detail === undefined ? reason : `${reason}: ${detail}`);
    this.reason = reason;
    this.detail = detail;
  }
}

/** The spec of a reason. */
export function reasonSpec(reason: Reason): ReasonSpec {
  return REASONS[reason];
}

/**
 * A whole response that tells a client why it was refused (RFC 9457 problem details).
 *
 * Nothing that the client sent comes back but the canonical form of a host and its port.
 */
export function refusalResponse(refused: Refused, target: EgressTarget | undefined, close: boolean): Uint8Array {
  const { status, phrase, error, text, hint } = reasonSpec(refused.reason);
  const place = target === undefined ? "the target" : `${target.host} port ${target.port}`;
  const body = JSON.stringify({
    type: "about:blank",
    title: phrase,
    status,
    detail: `Cannot reach ${place}: ${text}${refused.detail === undefined ? "" : ` (${refused.detail})`}`,
    code: refused.reason,
    ...target,
    ...hint === undefined ? {} : { hint },
  }) + "\n";
  const head = [
    `HTTP/1.1 ${status} ${phrase}`,
    "Content-Type: application/problem+json",
    `Content-Length: ${body.length}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    `Proxy-Status: taskd; error=${error}; details="${refused.reason}"`,
    ...status === 407 ? ['Proxy-Authenticate: Basic realm="taskd"'] : [],
    ...status === 429 || status === 503 ? ["Retry-After: 1"] : [],
    `Connection: ${close ? "close" : "keep-alive"}`,
  ];
  return new TextEncoder().encode(`${head.join("\r\n")}\r\n\r\n${body}`);
}

/**
 * Every outcome that the proxy can decide on: one table for the answers, the access log, the tests and the
 * documentation.
 */

import type { EgressTarget } from "./host_name.ts";

/** What a client gets to see of an outcome. */
export interface ReasonSpec {
  /** HTTP status; of an outcome inside a tunnel, the one in the access log alone. */
  status: number;
  /** Reason phrase: what `curl` and `git` print. */
  phrase: string;
  /** Error type of the Proxy-Status field (RFC 9209). */
  error: string;
  /** What went wrong, after "Cannot reach <target>: ". */
  text: string;
  hint?: string;
}

const PROXY_URL_HINT = "Use the proxy URL of the task, with its user name and password";
const LOOKUP_HINT = "Look the name up on the broker's host";
const LIST_HINT =
  "Let the broker's operator add the host with this port to egress.yaml (taskd egress allow), or grant it to the task " +
  "(taskd egress grant)";
const ADDRESS_HINT =
  "Sandboxes reach public addresses only; publish the service under one, or let the broker's operator " +
  "allow the address";

function spec(status: number, phrase: string, error: string, text: string, hint?: string): ReasonSpec {
  return { status, phrase, error, text, ...hint === undefined ? {} : { hint } };
}

function denied(phrase: string, text: string, hint?: string): ReasonSpec {
  return spec(403, phrase, "http_request_denied", text, hint);
}

function unproved(phrase: string, text: string): ReasonSpec {
  return spec(407, phrase, "http_request_denied", text, PROXY_URL_HINT);
}

function invalid(phrase: string, text: string, hint?: string): ReasonSpec {
  return spec(400, phrase, "http_request_error", text, hint);
}

const TABLE = {
  allowed: spec(200, "Connection established", "", "it was reached"),
  credentials_missing: unproved("Proxy credentials needed", "the request carries no proxy credentials"),
  credentials_wrong: unproved("Proxy credentials are wrong", "the proxy credentials are of no running task"),
  malformed: invalid("Malformed request", "the request breaks the HTTP/1.1 grammar"),
  smuggling: invalid(
    "Ambiguous request",
    "the request's framing could be read in two ways",
    "Send either one Content-Length or Transfer-Encoding: chunked",
  ),
  head_too_large: spec(
    431,
    "Request head too large",
    "http_request_error",
    "the request's head is over 64 KiB or 128 fields",
  ),
  head_timeout: spec(408, "Request timeout", "http_request_error", "the request's head did not arrive in time"),
  bad_target: invalid(
    "Not a host name",
    "the target is no plain host name with a port",
    "Write CONNECT host:port, or an http:// URL without user name, escapes or spaces in the host",
  ),
  not_proxy_form: invalid(
    "Not a proxy request",
    "the proxy takes CONNECT and http:// URLs only",
    "Use CONNECT for https",
  ),
  address_literal: denied(
    "Addresses are not allowed",
    "the target is an IP address, and only names can be allowed",
    "Use the host's name, and list that in egress.yaml",
  ),
  not_listed: denied("Host not in egress.yaml", "the host is not in the egress list", LIST_HINT),
  port_not_listed: denied("Port not in egress.yaml", "the host is in the egress list with other ports", LIST_HINT),
  too_many_names: denied(
    "Too many names",
    "the task has used too many different names below wildcards of the egress list",
    "List the names that are needed one by one in egress.yaml",
  ),
  host_mismatch: denied("Host differs from the target", "the Host field names another host than the target"),
  name_not_found: spec(502, "Name not found", "dns_error", "the name has no address", LOOKUP_HINT),
  resolve_timeout: spec(504, "Name lookup timed out", "dns_timeout", "the name's lookup took too long", LOOKUP_HINT),
  address_refused: spec(
    403,
    "Address is not public",
    "destination_ip_prohibited",
    "the name resolves to an address that sandboxes may not reach",
    ADDRESS_HINT,
  ),
  connect_failed: spec(502, "Connection failed", "connection_refused", "no address of the host takes the connection"),
  connect_timeout: spec(504, "Connection timed out", "connection_timeout", "no address of the host answers"),
  upstream_malformed: spec(
    502,
    "Malformed response",
    "http_protocol_error",
    "the host's response breaks the HTTP/1.1 grammar or cannot be framed",
  ),
  upstream_incomplete: spec(
    502,
    "Incomplete response",
    "http_response_incomplete",
    "the host ended the connection before its response was complete",
  ),
  tls_expected: denied("TLS expected", "what was sent to port 443 is not TLS"),
  hello_malformed: denied("Malformed ClientHello", "the TLS ClientHello is malformed, ambiguous or too long"),
  hello_timeout: spec(408, "ClientHello timeout", "http_request_error", "the first bytes did not arrive whole in time"),
  sni_absent: denied("No server name", "the TLS ClientHello names no server", "Use a client that sends SNI"),
  sni_mismatch: denied("Server name differs", "the TLS ClientHello names another server than the CONNECT target"),
  too_many_connections: spec(
    429,
    "Too many connections",
    "http_request_denied",
    "the task has as many connections open as it may",
    "Close some first",
  ),
  overloaded: spec(
    503,
    "Overloaded",
    "connection_limit_reached",
    "the proxy has as many connections open as it may",
    "Try again later",
  ),
  log_unavailable: spec(
    503,
    "Access log unavailable",
    "proxy_internal_error",
    "the access log cannot be written, and nothing passes unlogged",
    "Let the broker's operator look at squid_run_dir",
  ),
  client_gone: spec(0, "", "", "the client, or its task, was gone before there was an outcome"),
  internal: spec(500, "Internal error", "proxy_internal_error", "the proxy has a defect"),
};

export type Reason = keyof typeof TABLE;
export const REASONS: Readonly<Record<Reason, ReasonSpec>> = TABLE;

export class Refused extends Error {
  override name = "Refused";
  readonly reason: Exclude<Reason, "allowed">;
  /** More for the task's owner: an address class, the listed ports. Made by the proxy, of checked parts only. */
  readonly detail: string | undefined;

  constructor(reason: Exclude<Reason, "allowed">, detail?: string) {
    super(detail === undefined ? reason : `${reason}: ${detail}`);
    this.reason = reason;
    this.detail = detail;
  }
}

/**
 * A whole response that explains a refusal (RFC 9457 problem details).
 *
 * Nothing that the client sent comes back but the canonical form of a host and its port.
 */
export function refusalResponse(refused: Refused, target: EgressTarget | undefined, close: boolean): Uint8Array {
  const { status, phrase, error, text, hint } = REASONS[refused.reason];
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

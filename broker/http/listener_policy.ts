/**
 * Who may come in, by the listener that the request came to.
 *
 * - The unix socket is its owner's alone, so it asks for nothing; a request that a browser
 *   has made can only have come through a forwarded port, and is refused.
 * - `broker.addr` asks for nothing either, so whatever page the operator's browser shows must
 *   not get in: the Host has to be one of this listener's own names (a rebound name is
 *   not, an address always is where all of the machine's are listened on), and an Origin has
 *   to be this one. `/admin/*` is for peers on this machine.
 * - The listener of the web pages also asks for the token of this boot.
 */

import { TaskdError } from "../../lib/errors.ts";
import { hostPort, type HttpAddress, isLoopback } from "../../lib/http/address.ts";
import type { BearerCheck } from "../../lib/http/bearer.ts";
import { classifyAddress, parseAddress } from "../egress/address_class.ts";
import { RequestRefused } from "./statuses.ts";
import { SOCKET_HOST } from "../api/socket_host.ts";

/** A listener, as far as it decides who may come in. */
export type ListenerPolicy =
  | { kind: "socket" }
  | {
    kind: "addr";
    hosts: ReadonlySet<string>;
    /** The port, where the listener has every address of the machine, which come and go. */
    every_address_port?: number;
  }
  | { kind: "ui"; hosts: ReadonlySet<string>; token: BearerCheck };

export function addrPolicy(real: Pick<HttpAddress, "hostname" | "port">): ListenerPolicy {
  const every = parseAddress(real.hostname) !== undefined && classifyAddress(real.hostname) === "unspecified";
  return { kind: "addr", hosts: hostsOf(real), ...(every ? { every_address_port: real.port } : {}) };
}

export function hostsOf({ hostname, port }: Pick<HttpAddress, "hostname" | "port">): ReadonlySet<string> {
  const names = ["localhost", "127.0.0.1", "::1", hostname];
  const written = names.map((name) => hostPort({ hostname: name, port }).toLowerCase());
  // Browsers leave out the port that is the scheme's own, and shorten the zeros of IPv6.
  return new Set(written.flatMap((host) => [host, URL.parse(`http://${host}`)?.host ?? host]));
}

/**
 * Refuses a request that may not even ask whether something exists.
 *
 * @returns Its address, whose host need not be the one that the header names, and is checked as well.
 */
export function checkRequest(request: Request, url: URL | null, listener: ListenerPolicy): URL {
  const host = (request.headers.get("host") ?? "").toLowerCase();
  checkHost(host, listener);
  if (url === null) throw new TaskdError("invalid_request", "Cannot take the address: it is none");
  checkHost(url.host, listener);
  const origin = request.headers.get("origin");
  if (origin !== null && (listener.kind === "socket" || origin.toLowerCase() !== `http://${host}`)) {
    throw new RequestRefused(403, "denied", `Cannot answer a page of the origin ${quoted(origin)}`);
  }
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && (listener.kind === "socket" || (site !== "same-origin" && site !== "none"))) {
    throw new RequestRefused(403, "denied", "Cannot answer a request that another site's page has made");
  }
  return url;
}

function checkHost(host: string, listener: ListenerPolicy): void {
  if (listener.kind === "socket" ? isSocketHost(host) : listener.hosts.has(host) || isOwnAddress(host, listener)) {
    return;
  }
  throw new RequestRefused(
    403,
    "denied",
    `Cannot answer for the host ${quoted(host)}: it is not a name of this broker`,
    {
      hint: listener.kind === "socket"
        ? "Use http://localhost/ as the base"
        : `Use one of: ${[...listener.hosts].join(", ")}`,
    },
  );
}

/** An address is no name that could be rebound: a client that used it has connected to it. */
function isOwnAddress(host: string, listener: ListenerPolicy): boolean {
  if (listener.kind !== "addr" || listener.every_address_port === undefined) return false;
  const [, address = "", port = "80"] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(host) ?? [];
  return Number(port) === listener.every_address_port &&
    parseAddress(address.replace(/^\[(.*)\]$/, "$1")) !== undefined;
}

export function checkToken(request: Request, listener: ListenerPolicy): void {
  if (listener.kind !== "ui" || listener.token.accepts(request.headers.get("authorization"))) return;
  throw new RequestRefused(401, "denied", "Cannot answer without the token of this broker's boot", {
    hint: "`taskd ui` prints the address with the token",
    headers: { "www-authenticate": 'Bearer realm="taskd"' },
  });
}

/** Headers by which a program in between names its client: every peer is a local one then. */
const FORWARDING = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

export function checkAdmin(request: Request, listener: ListenerPolicy, peer: Deno.Addr): void {
  if (listener.kind !== "addr") return;
  const local = (peer.transport === "tcp" && isLocalPeer(peer.hostname)) &&
    !FORWARDING.some((name) => request.headers.has(name));
  if (local) return;
  throw new RequestRefused(403, "denied", "Cannot offer /admin to another machine", {
    hint: "Ask over the unix socket, or from the broker's own machine without a proxy in between",
  });
}

function isLocalPeer(hostname: string): boolean {
  const plain = hostname.replace(/^::ffff:(?=\d+\.)/i, "");
  return plain !== "localhost" && isLoopback(plain);
}

/** Behind a forwarded port, a rebound name would arrive here: it has a dot, as every name in the public tree. */
function isSocketHost(host: string): boolean {
  const name = host.replace(/:\d{1,5}$/, "");
  return name === SOCKET_HOST || isLoopback(name.replace(/^\[|\]$/g, "")) || /^[a-z0-9_-]+$/.test(name);
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 200));
}

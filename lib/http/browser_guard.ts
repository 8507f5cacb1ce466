/**
 * What keeps the pages of a browser out of the HTTP listeners of both daemons. Any page that a browser on this machine
 * shows can send requests to loopback, also under a name of its own that was rebound to it. So:
 *
 * - The Host has to be one of the listener's own names; an address always is where all of the machine's are listened on.
 * - An Origin has to be the listener's own, and Sec-Fetch-Site `same-origin` or `none`.
 * - A body is declared as JSON, which no form can, and no page of another origin may without asking first.
 * - No answer is kept by a cache, sniffed for another type, framed, or read by a page of another origin.
 */

import { isIP } from "node:net";
import { escapeJson } from "../text/sanitize.ts";
import { hostPort, type HttpAddress } from "./address.ts";
import { RequestRefused } from "./request_refused.ts";

/** What every answer has, unless it has its own. Nothing on the way may pack it: a packed stream of events comes late. */
export const GUARD_HEADERS: Readonly<Record<string, string>> = {
  "cache-control": "no-store, no-transform",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
};

/** What a listener answers for. */
export interface HostRule {
  /** Whether a Host, in lower case, is one of its names. */
  isOwn(host: string): boolean;
  /** Whether pages of its own origin may ask. */
  pages: boolean;
  /** What to use instead of a Host that is not. */
  hint: string;
}

/** The rule of a TCP listener: `hostname` as it was configured, with the port as it is. */
export function tcpHostRule(address: Pick<HttpAddress, "hostname" | "port">): HostRule {
  const hosts = hostsOf(address);
  const every = isEveryAddress(address.hostname);
  return {
    isOwn: (host) => hosts.has(host) || every && isAddress(host, address.port),
    pages: true,
    hint: `Use one of: ${[...hosts].join(", ")}`,
  };
}

/** The names of a listener, as they are written and as browsers write them. */
export function hostsOf({ hostname, port }: Pick<HttpAddress, "hostname" | "port">): ReadonlySet<string> {
  const names = ["localhost", "127.0.0.1", "::1", hostname];
  const written = names.map((name) => hostPort({ hostname: name, port }).toLowerCase());
  // Browsers leave out the port that is the scheme's own, and shorten the zeros of IPv6.
  return new Set(written.flatMap((host) => [host, URL.parse(`http://${host}`)?.host ?? host]));
}

function isEveryAddress(hostname: string): boolean {
  if (isIP(hostname) === 0) return false;
  const { hostname: shortest } = new URL(`http://${hostPort({ hostname, port: 1 })}`);
  return ["0.0.0.0", "[::]", "[::ffff:0:0]"].includes(shortest);
}

/** An address is no name that could be rebound: a client that used it has connected to it. */
function isAddress(host: string, port: number): boolean {
  const [, v6, name, given = "80"] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(host) ?? [];
  return Number(given) === port && (v6 === undefined ? isIP(name ?? "") === 4 : isIP(v6) === 6 && !v6.includes("%"));
}

/**
 * Refuses a request that may not even ask whether something exists.
 *
 * @param url Its address, whose host need not be the one that the header names, and is checked as well.
 * @throws {RequestRefused} 403; 400 when it has no address.
 */
export function checkRequest(request: Request, url: URL | null, rule: HostRule): URL {
  const host = (request.headers.get("host") ?? "").toLowerCase();
  checkHost(host, rule);
  if (url === null) throw new RequestRefused(400, "invalid_request", "Cannot take the address: it is none");
  checkHost(url.host, rule);
  const origin = request.headers.get("origin");
  if (origin !== null && (!rule.pages || origin.toLowerCase() !== `http://${host}`)) {
    throw new RequestRefused(403, "denied", `Cannot answer a page of the origin ${quoted(origin)}`);
  }
  const site = request.headers.get("sec-fetch-site");
  if (site !== null && (!rule.pages || (site !== "same-origin" && site !== "none"))) {
    throw new RequestRefused(403, "denied", "Cannot answer a request that another site's page has made");
  }
  return url;
}

function checkHost(host: string, { isOwn, hint }: HostRule): void {
  if (isOwn(host)) return;
  const problem = `Cannot answer for the host ${quoted(host)}: it is not a name of this listener`;
  throw new RequestRefused(403, "denied", problem, { hint });
}

/**
 * Makes sure that a body is declared as plain JSON.
 *
 * @throws {RequestRefused} 415
 */
export function requireJsonType({ headers }: Request): void {
  if (!/^application\/json *(?:; *charset="?utf-8"? *)?$/i.test(headers.get("content-type")?.trim() ?? "")) {
    throw new RequestRefused(415, "invalid_request", "Cannot take the body: its type is not application/json", {
      hint: "Send it with Content-Type: application/json",
    });
  }
  if ((headers.get("content-encoding") ?? "identity") !== "identity") {
    throw new RequestRefused(415, "invalid_request", "Cannot take the body: it is packed", { hint: "Send it plain" });
  }
}

function quoted(text: string): string {
  return escapeJson(JSON.stringify(text.slice(0, 200)));
}

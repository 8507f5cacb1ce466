/**
 * Who may come in, by the listener that the request came to.
 *
 * - The unix socket is its owner's alone, so it asks for nothing; a request that a browser
 *   has made can only have come through a forwarded port, and is refused.
 * - `broker.addr` asks for nothing either, so whatever page the operator's browser shows must
 *   not get in: the Host has to be one of this listener's own names (a rebound name is
 *   not, an address always is where all of the machine's are listened on), and an Origin has
 *   to be this one. `/admin/*` is for peers on this machine.
 * - The listener of the web pages also asks for the token of a session, which a one-time code begins.
 */

import { isLoopback } from "../../lib/http/address.ts";
import type { HostRule } from "../../lib/http/browser_guard.ts";
import { RequestRefused } from "../../lib/http/request_refused.ts";
import { SOCKET_HOST } from "../api/socket_host.ts";
import type { PageSession, PageSessions } from "./page_sessions.ts";

/** A listener, as far as it decides who may come in. */
export type ListenerPolicy =
  | { kind: "socket"; host: HostRule }
  | { kind: "addr"; host: HostRule }
  | { kind: "ui"; host: HostRule; sessions: PageSessions };

/** The rule of the unix socket, which no page has as its origin. */
export const SOCKET_RULE: HostRule = { isOwn: isSocketHost, pages: false, hint: "Use http://localhost/ as the base" };

/** What goes with a 401. */
export const UNAUTHORIZED = { "www-authenticate": 'Bearer realm="taskd"' };

/** The session of a request to the web pages' listener; undefined on the others, which have none. */
export function checkToken(request: Request, listener: ListenerPolicy): PageSession | undefined {
  if (listener.kind !== "ui") return undefined;
  const session = listener.sessions.enter(request.headers.get("authorization"));
  if (session !== undefined) return session;
  throw new RequestRefused(401, "denied", "Cannot answer without a session of the web pages, or after it has ended", {
    hint: "`taskd ui` prints an address that begins one",
    headers: UNAUTHORIZED,
  });
}

/** Headers by which a program in between names its client: every peer is a local one then. */
const FORWARDING = /^(?:forwarded|via|x-real-ip|x-client-ip|x-forwarded-.*)$/;

export function checkAdmin(request: Request, listener: ListenerPolicy, peer: Deno.Addr): void {
  if (listener.kind !== "addr") return;
  const local = (peer.transport === "tcp" && isLocalPeer(peer.hostname)) &&
    ![...request.headers.keys()].some((name) => FORWARDING.test(name));
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

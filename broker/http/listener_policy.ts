/**
 * Who may come in, by the listener that the request came to; {@linkcode LISTENERS} has a row for each.
 *
 * - The unix socket is its owner's alone, so it asks for nothing; a request that a browser
 *   has made can only have come through a forwarded port, and is refused.
 * - `broker.addr` asks for nothing either, so whatever page the operator's browser shows must
 *   not get in: the Host has to be one of this listener's own names (a rebound name is
 *   not, an address always is where all of the machine's are listened on), and an Origin has
 *   to be this one, as on every TCP listener.
 * - `broker.api_addr` asks every request for a token, whose role decides.
 * - `broker.metrics_addr` has metrics, which may need a token, and whether the broker is there.
 * - The listener of the web pages asks for the token of a session, which a one-time code begins.
 *
 * `/admin/*`, and what ends a task, is for peers on this machine wherever it is served over TCP. Where no credential is
 * asked for, a program in between would make every peer one of those.
 */

import { isLoopback } from "../../lib/http/address.ts";
import type { BearerCheck } from "../../lib/http/bearer.ts";
import type { HostRule } from "../../lib/http/browser_guard.ts";
import { RequestRefused } from "../../lib/http/request_refused.ts";
import { SOCKET_HOST } from "../api/socket_host.ts";
import type { ApiRole } from "../api/wire.ts";
import type { ApiToken, ApiTokens } from "./api_tokens.ts";
import type { PageSession, PageSessions } from "./page_sessions.ts";
import type { Right, RouteRights } from "./rights.ts";

/** A listener, as far as it decides who may come in. */
export type ListenerPolicy =
  | { kind: "socket"; host: HostRule }
  | { kind: "addr"; host: HostRule }
  | { kind: "api"; host: HostRule; tokens: ApiTokens }
  | { kind: "metrics"; host: HostRule; token: BearerCheck | undefined }
  | { kind: "ui"; host: HostRule; sessions: PageSessions };
export type ListenerKind = ListenerPolicy["kind"];

interface ListenerRow {
  /** As messages name it. */
  readonly name: string;
  /** What may be done there; or that the role of the request's token says so. */
  readonly rights: readonly Right[] | "by role";
  /** Who may use what only operators may. */
  readonly operators: "every client" | "peers of this machine" | "peers of this machine, without a proxy";
}

const WATCHING: readonly Right[] = ["health", "metrics"];
const WORKING: readonly Right[] = [...WATCHING, "read", "submit", "approve"];

export const LISTENERS: Readonly<Record<ListenerKind, ListenerRow>> = {
  socket: { name: "the unix socket", rights: [...WORKING, "own"], operators: "every client" },
  addr: { name: "broker.addr", rights: WORKING, operators: "peers of this machine, without a proxy" },
  api: { name: "broker.api_addr", rights: "by role", operators: "peers of this machine" },
  metrics: { name: "broker.metrics_addr", rights: WATCHING, operators: "peers of this machine" },
  ui: { name: "the listener of the web pages", rights: [...WORKING, "session"], operators: "every client" },
};

/** What a token of a role is good for. */
export const ROLES: Readonly<Record<ApiRole, readonly Right[]>> = {
  read: [...WATCHING, "read"],
  submit: [...WATCHING, "read", "submit"],
  approve: WORKING,
};

/** Whether a client of a listener may use a route, `role` being that of its token, where it has one. */
export function mayUse(kind: ListenerKind, role: ApiRole | undefined, { right }: Pick<RouteRights, "right">): boolean {
  const { rights } = LISTENERS[kind];
  if (rights !== "by role") return rights.includes(right);
  return role !== undefined && ROLES[role].includes(right);
}

/** The rule of the unix socket, which no page has as its origin. */
export const SOCKET_RULE: HostRule = { isOwn: isSocketHost, pages: false, hint: "Use http://localhost/ as the base" };

/** What goes with a 401. */
export const UNAUTHORIZED = { "www-authenticate": 'Bearer realm="taskd"' };

/** Who is let in: on a listener that asks for one, with the session or the token. */
export interface Admitted {
  session?: PageSession;
  token?: ApiToken;
}

/**
 * Lets a client in, or refuses it with 401 and without a word on whether what it presents ever was one.
 *
 * @param route Where there is one of this path and method.
 */
export function admit(request: Request, listener: ListenerPolicy, route: RouteRights | undefined): Admitted {
  const authorization = request.headers.get("authorization");
  switch (listener.kind) {
    case "socket":
    case "addr":
      return {};
    case "api": {
      const token = listener.tokens.enter(authorization);
      if (token !== undefined) return { token };
      throw unauthorized("a token that is valid", "`taskd token create` makes one, on the broker's machine");
    }
    case "metrics":
      if (route?.right === "health" || (listener.token?.accepts(authorization) ?? true)) return {};
      throw unauthorized("the token of the metrics", "It is in the variable that broker.metrics_token_env names");
    case "ui": {
      // The code that begins one is the handler's to look at.
      if (route?.pages === "code") return {};
      const session = listener.sessions.enter(authorization);
      if (session !== undefined) return { session };
      throw unauthorized(
        "a session of the web pages, or after it has ended",
        "`taskd ui` prints an address that begins one",
      );
    }
  }
}

function unauthorized(what: string, hint: string): RequestRefused {
  return new RequestRefused(401, "denied", `Cannot answer without ${what}`, { hint, headers: UNAUTHORIZED });
}

/**
 * Makes sure that a route is for the clients of this listener and role.
 *
 * @throws {RequestRefused} 403.
 */
export function checkRight({ kind }: ListenerPolicy, role: ApiRole | undefined, route: RouteRights): void {
  if (!mayUse(kind, role, route)) throw notHere(kind, route.right, role);
}

function notHere(kind: ListenerKind, right: Right, role: ApiRole | undefined): RequestRefused {
  const refused = (what: string, hint: string) => new RequestRefused(403, "denied", `Cannot ${what}`, { hint });
  if (right === "own") {
    // Clients of other listeners may be other users of this machine.
    return refused(
      "do this here: it is for who owns the unix socket",
      "Ask over it: `taskd ui`, `taskd token`",
    );
  }
  if (right === "session") {
    return refused(
      "begin or end a session of the web pages here",
      "Ask the listener of the pages: `taskd ui` prints its address",
    );
  }
  const { name } = LISTENERS[kind];
  if (role === undefined) return refused(`do this over ${name}`, "Ask over broker.api_addr or the unix socket");
  const able = Object.entries(ROLES).filter(([, rights]) => rights.includes(right)).map(([other]) => other);
  return refused(`do this with a token of the role ${role}`, `It takes one of the role ${able.join(" or ")}`);
}

/** Headers by which a program in between names its client: every peer is a local one then. */
const FORWARDING = /^(?:forwarded|via|x-real-ip|x-client-ip|x-forwarded-.*)$/;

export function checkAdmin(request: Request, { kind }: Pick<ListenerPolicy, "kind">, peer: Deno.Addr): void {
  const { operators, name } = LISTENERS[kind];
  if (operators === "every client") return;
  const local = peer.transport === "tcp" && isLocalPeer(peer.hostname);
  const proxied = [...request.headers.keys()].some((header) => FORWARDING.test(header));
  if (local && (operators === "peers of this machine" || !proxied)) return;
  throw new RequestRefused(403, "denied", `Cannot offer /admin to another machine over ${name}`, {
    hint: operators === "peers of this machine"
      ? "Ask through a server with TLS on the broker's own machine, or over the unix socket"
      : "Ask over the unix socket, or from the broker's own machine without a proxy in between",
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

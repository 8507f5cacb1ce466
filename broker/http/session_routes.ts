/**
 * Handlers of the routes by which a browser begins and ends a session of the web pages, and of the one that answers
 * their address.
 */

import { RequestRefused } from "../../lib/http/request_refused.ts";
import type { PageSessionView } from "../api/wire.ts";
import { json, nothing } from "./answers.ts";
import type { Call } from "./call.ts";
import { UNAUTHORIZED } from "./listener_policy.ts";
import { CODE_MS } from "./page_sessions.ts";

export function ui(call: Call): Response {
  if (call.context.listener.kind === "socket") return json({ url: call.context.uiAddress() });
  // Clients of other listeners may be other users of this machine: the code is for those that can open the socket.
  throw new RequestRefused(403, "denied", "Cannot give a code for the web pages here", {
    hint: "Ask over the unix socket: `taskd ui`",
  });
}

export function begin({ request, context: { listener } }: Call): Response {
  if (listener.kind !== "ui") throw elsewhere();
  const token = listener.sessions.begin(request.headers.get("authorization"));
  if (token !== undefined) return json({ token } satisfies PageSessionView);
  // One answer for codes of every kind: whether one ever existed is not said.
  throw new RequestRefused(401, "denied", "Cannot begin a session: the address of the pages is no longer valid", {
    hint: `It opens them once, within ${CODE_MS / 1_000} s; \`taskd ui\` prints a new one`,
    headers: UNAUTHORIZED,
  });
}

export function end({ context: { listener, session } }: Call): Response {
  if (listener.kind !== "ui" || session === undefined) throw elsewhere();
  listener.sessions.end(session);
  return nothing();
}

function elsewhere(): RequestRefused {
  return new RequestRefused(403, "denied", "Cannot begin or end a session of the web pages here", {
    hint: "Ask the listener of the pages: `taskd ui` prints its address",
  });
}

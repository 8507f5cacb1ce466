/** Handlers of the routes by which a browser begins and ends a session of the web pages. */

import { RequestRefused } from "../../lib/http/request_refused.ts";
import type { PageSessionView } from "../api/wire.ts";
import { json, nothing } from "./answers.ts";
import type { Call } from "./call.ts";
import { UNAUTHORIZED } from "./listener_policy.ts";
import { CODE_MS } from "./page_sessions.ts";

export function begin({ request, context: { sessions } }: Call): Response {
  const token = sessions.begin(request.headers.get("authorization"));
  if (token !== undefined) return json({ token } satisfies PageSessionView);
  // One answer for codes of every kind: whether one ever existed is not said.
  throw new RequestRefused(401, "denied", "Cannot begin a session: the address of the pages is no longer valid", {
    hint: `It opens them once, within ${CODE_MS / 1_000} s; \`taskd ui\` prints a new one`,
    headers: UNAUTHORIZED,
  });
}

export function end({ context: { sessions, admitted: { session } } }: Call): Response {
  if (session !== undefined) sessions.end(session);
  return nothing();
}

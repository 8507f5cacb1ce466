/**
 * Handlers of the routes below `/admin`: what an operator decides and looks at.
 */

import * as v from "valibot";
import type {
  APPROVE_REQUEST,
  EGRESS_GRANT_REQUEST,
  PRUNE_REQUEST,
  PUSH_REQUEST,
  REASON_REQUEST,
  StatsView,
} from "../api/wire.ts";
import { computeStats } from "../task/stats.ts";
import type { Decider } from "../task/stages.ts";
import { COMMAND_LINE } from "../api/socket_host.ts";
import { GROUPINGS } from "../task/stats_schema.ts";
import { json, nothing } from "./answers.ts";
import type { Call, Query } from "./call.ts";
import type { ReadBody } from "./route.ts";

export const STATS_QUERY = {
  since: v.pipe(v.string(), v.isoTimestamp("must be a time in ISO 8601")),
  by: v.picklist(GROUPINGS, `must be one of ${GROUPINGS.join(", ")}`),
};

export function stats(call: Call, { since, by }: Query<typeof STATS_QUERY>): Response {
  const { tasks } = call.engine;
  const figures = computeStats(tasks.list({ limit: Infinity }), {
    damaged: tasks.damaged().length,
    ...(since === undefined ? {} : { since_ms: Date.parse(since) }),
    ...(by === undefined ? {} : { by }),
  });
  return json({ ...figures, global_ceiling: call.engine.ceiling() } satisfies StatsView);
}

/** The kernel does not tell this runtime who is behind a connection: what is known is who can come in there. */
export function decider({ request, context }: Call): Decider {
  const { listener: { kind }, connection: { peer }, admitted: { token } } = context;
  if (kind === "socket") {
    const via = request.headers.get("user-agent") === COMMAND_LINE ? "command line" : "socket";
    return { via, who: `the owner of the socket (uid ${Deno.uid()})` };
  }
  const host = peer.transport === "tcp" ? peer.hostname : "an unknown address";
  if (token !== undefined) return { via: "HTTP", who: `the API token ${token.shown}, at ${host}` };
  return kind === "ui" ? { via: "page", who: `the holder of its token, at ${host}` } : { via: "HTTP", who: host };
}

export async function approve(call: Call, body: ReadBody<typeof APPROVE_REQUEST>): Promise<Response> {
  const id = call.task();
  await call.engine.approve(id, { ...await body(), by: decider(call) });
  return nothing();
}

export async function deny(call: Call, body: ReadBody<typeof REASON_REQUEST>): Promise<Response> {
  const id = call.task();
  const { reason } = await body();
  await call.engine.deny(id, reason, decider(call));
  return nothing();
}

export async function push(call: Call, body: ReadBody<typeof PUSH_REQUEST>): Promise<Response> {
  const id = call.task();
  await call.engine.push(id, { ...await body(), by: decider(call) });
  return nothing();
}

export async function kill(call: Call, body: ReadBody<typeof REASON_REQUEST>): Promise<Response> {
  const id = call.task();
  const { reason } = await body();
  await call.engine.kill(id, reason, decider(call));
  return nothing();
}

export async function grantEgress(call: Call, body: ReadBody<typeof EGRESS_GRANT_REQUEST>): Promise<Response> {
  const id = call.task();
  await call.engine.grantEgress(id, await body(), decider(call));
  return nothing();
}

export async function prune(call: Call, body: ReadBody<typeof PRUNE_REQUEST>): Promise<Response> {
  const { before, dry_run } = await body();
  return json(await call.engine.prune({ before_ms: Date.parse(before), dry_run }));
}

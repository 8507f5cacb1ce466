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
import type { BrokerEngine } from "../api/engine.ts";
import type { Decider } from "../task/stages.ts";
import { COMMAND_LINE } from "../api/socket_host.ts";
import { GROUPINGS } from "../task/stats_schema.ts";
import { json, nothing } from "./answers.ts";
import type { BodySchema } from "./bodies.ts";
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

/** Handles what is decided about the task of the path; its id is looked up first, then the body is read. */
function decision<S extends BodySchema>(
  decide: (engine: BrokerEngine, id: string, body: v.InferOutput<S>, by: Decider) => Promise<void>,
): (call: Call, body: ReadBody<S>) => Promise<Response> {
  return async (call, body) => {
    const id = call.task();
    await decide(call.engine, id, await body(), decider(call));
    return nothing();
  };
}

export const approve = decision<typeof APPROVE_REQUEST>((engine, id, body, by) => engine.approve(id, { ...body, by }));
export const push = decision<typeof PUSH_REQUEST>((engine, id, body, by) => engine.push(id, { ...body, by }));
export const deny = decision<typeof REASON_REQUEST>((engine, id, { reason }, by) => engine.deny(id, reason, by));
export const kill = decision<typeof REASON_REQUEST>((engine, id, { reason }, by) => engine.kill(id, reason, by));
export const grantEgress = decision<typeof EGRESS_GRANT_REQUEST>(
  (engine, id, body, by) => engine.grantEgress(id, body, by),
);

export async function prune(call: Call, body: ReadBody<typeof PRUNE_REQUEST>): Promise<Response> {
  const { before, dry_run } = await body();
  return json(await call.engine.prune({ before_ms: Date.parse(before), dry_run }));
}

/**
 * What an operator decides and looks at.
 *
 * @module
 */

import { APPROVE_SCHEMA, PRUNE_SCHEMA, type Pruned, REASON_SCHEMA, type StatsView } from "../api/wire.ts";
import { OUTCOMES, STAGES } from "../task/stages.ts";
import { json, nothing } from "./answers.ts";
import type { Call } from "./call.ts";
import { RequestRefused } from "./statuses.ts";

/** `GET /admin/pending` */
export function pending(call: Call): Response {
  return json({ tasks: call.engine.pending() });
}

/** `GET /admin/policy` */
export function policy(call: Call): Response {
  return json(call.engine.policy());
}

/** `GET /admin/ceiling` */
export function ceiling(call: Call): Response {
  return json(call.engine.ceiling());
}

/** `GET /admin/stats` */
export function stats(call: Call): Response {
  const { tasks } = call.engine;
  const by_stage = zeros(STAGES);
  const by_outcome = zeros(OUTCOMES);
  for (const { stage, outcome } of tasks.list({ limit: Infinity })) {
    by_stage[stage]++;
    if (outcome !== undefined) by_outcome[outcome]++;
  }
  return json({ tasks: tasks.size, damaged: tasks.damaged().length, by_stage, by_outcome } satisfies StatsView);
}

function zeros<K extends string>(table: Readonly<Record<K, unknown>>): Record<K, number> {
  return Object.fromEntries(Object.keys(table).map((name) => [name, 0])) as Record<K, number>;
}

/** `POST /admin/tasks/<id>/approve` */
export async function approve(call: Call): Promise<Response> {
  const id = call.task();
  await call.engine.approve(id, await call.body(APPROVE_SCHEMA));
  return nothing();
}

/** `POST /admin/tasks/<id>/deny` */
export async function deny(call: Call): Promise<Response> {
  const id = call.task();
  const { reason } = await call.body(REASON_SCHEMA, { optional: true });
  await call.engine.deny(id, reason);
  return nothing();
}

/** `POST /admin/tasks/<id>/kill` */
export async function kill(call: Call): Promise<Response> {
  const id = call.task();
  const { reason } = await call.body(REASON_SCHEMA, { optional: true });
  await call.engine.kill(id, reason);
  return nothing();
}

/** `POST /admin/prune` */
export async function prune(call: Call): Promise<Response> {
  const { before, dry_run } = await call.body(PRUNE_SCHEMA);
  const pruned = await call.engine.prune({ before_ms: Date.parse(before), dry_run });
  return json({ pruned, dry_run } satisfies Pruned);
}

/** `GET /admin/ui` */
export function ui(call: Call): Response {
  if (call.context.door.kind === "socket") return json({ url: call.context.ui_url });
  // Who is let in elsewhere may be another user of this machine: the token is for whoever can open the socket.
  throw new RequestRefused(403, "denied", "Cannot tell the token of the web pages here", {
    hint: "Ask over the unix socket: `taskd ui`",
  });
}

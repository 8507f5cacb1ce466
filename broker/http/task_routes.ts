/**
 * Handlers of the routes of tasks, of the queue, and of the broker's health and metrics.
 */

import type { Submitter } from "../api/engine.ts";
import { ifNoneMatch } from "@std/http/etag";
import { crypto } from "@std/crypto/crypto";
import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import {
  type DATABASE_DIFF_QUERY,
  type SUBMIT_REQUEST,
  type Submitted,
  taskLinks,
  type TaskList,
} from "../api/wire.ts";
import type { SubmitRequest, TaskRecord } from "../task/schema.ts";
import { type Stage, STAGES } from "../task/stages.ts";
import { decider } from "./admin_routes.ts";
import { answer, json } from "./answers.ts";
import type { Call, Query } from "./call.ts";
import { taskEvents } from "./event_stream.ts";
import { taskLog } from "./log_stream.ts";
import type { ReadBody } from "./route.ts";

const DEFAULT_LISTED = 100;
const LIMIT = "must be from 1 to 1000";
const STAGE_NAMES = Object.keys(STAGES) as Stage[];

export const LIST_QUERY = {
  limit: v.pipe(v.number(LIMIT), v.integer(LIMIT), v.minValue(1, LIMIT), v.maxValue(1_000, LIMIT)),
  before: v.string(),
  stage: v.picklist(STAGE_NAMES, `must be one of ${STAGE_NAMES.join(", ")}`),
};
export const LOG_QUERY = { follow: v.picklist(["0", "1"], "must be 0 or 1") };

/** What a task may ask for depends on where it came from: of callers of `broker.addr` nothing is known. */
function submitter(call: Call): Submitter {
  const { listener, admitted: { token } } = call.context;
  if (token !== undefined) return { over_network: true, submitted_by: decider(call) };
  return listener.kind === "addr" ? { over_network: true } : {};
}

/** Databases and further hosts are not for all who reach an address. */
function checkReach({ context: { listener } }: Call, order: Pick<SubmitRequest, "databases" | "egress_extra">): void {
  if (listener.kind !== "addr") return;
  const named = (["databases", "egress_extra"] as const).filter((field) => (order[field] ?? []).length > 0);
  if (named.length === 0) return;
  const why = `it has ${named.join(" and ")}, and there is no authentication here`;
  throw new TaskdError("denied", `Cannot take the task over broker.addr: ${why}`, {
    hint: "Submit it over broker.api_addr with a token of taskd token create, or over the unix socket",
  });
}

/** What is submitted, and by whom. */
export async function submission(
  call: Call,
  body: ReadBody<typeof SUBMIT_REQUEST>,
): Promise<[SubmitRequest, Submitter]> {
  const request = await body();
  checkReach(call, request);
  return [request, submitter(call)];
}

export async function retry(call: Call): Promise<Response> {
  const id = call.task();
  checkReach(call, call.engine.tasks.read(id));
  return accepted(await call.engine.retry(id, submitter(call)));
}

export function accepted({ id, stage }: TaskRecord): Response {
  const submitted: Submitted = { id, stage, links: taskLinks(id) };
  return json(submitted, { status: 202, headers: { location: submitted.links.self } });
}

export function list({ engine }: Call, query: Query<typeof LIST_QUERY>): Response {
  const { limit = DEFAULT_LISTED, before, stage } = query;
  // One more than is shown says whether there is a next page.
  const found = engine.tasks.list({
    limit: limit + 1,
    ...(before === undefined ? {} : { before: engine.tasks.resolve(before) }),
    ...(stage === undefined ? {} : { stage }),
  });
  const tasks = found.slice(0, limit).map((task) => {
    const live = task.stage === "done" ? undefined : engine.liveSpend(task.id);
    return { ...task, ...(live && { live }) };
  });
  const next = found.length > limit ? tasks.at(-1)?.id : undefined;
  return json({ tasks, ...(next && { next }) } satisfies TaskList);
}

export async function events(call: Call): Promise<Response> {
  const { engine, context: { clock } } = call;
  const id = call.task();
  const last = call.request.headers.get("last-event-id") ?? "0";
  if (!/^\d{1,15}$/.test(last)) {
    throw new TaskdError("invalid_request", "Cannot go on after the event: Last-Event-ID is no number of one");
  }
  const after_seq = Number(last);
  // Read first: a trace that is damaged is an error, and no stream that breaks off.
  const { stage, seq } = await engine.tasks.load(id);
  // A client that has the result gets no stream: a reader of events comes back to one that ends, but not to this.
  if (stage === "done" && after_seq >= seq) return answer(null, { status: 204 });
  const events = (signal: AbortSignal) => taskEvents(id, { engine, clock, after_seq, signal });
  return call.stream(events, { type: "text/event-stream", endless: true });
}

/** What an approval of the task takes; nothing before it came to the gate. */
function gateDigest({ engine }: Call, id: string): Record<string, string> {
  const { diff_sha256 } = engine.tasks.read(id);
  return diff_sha256 === undefined ? {} : { "x-diff-sha256": diff_sha256 };
}

export async function diff(call: Call): Promise<Response> {
  const id = call.task();
  const bytes = await call.engine.diff(id);
  const sha256 = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
  const headers = { etag: `"${sha256}"`, "x-shown-sha256": sha256, ...gateDigest(call, id) };
  if (!ifNoneMatch(call.request.headers.get("if-none-match"), headers.etag)) {
    return answer(null, { status: 304, ...headers });
  }
  return answer(bytes, { "content-type": "text/x-diff", ...headers });
}

export async function brief(call: Call): Promise<Response> {
  const id = call.task();
  return json(await call.engine.brief(id), { headers: gateDigest(call, id) });
}

export async function databaseDiff(call: Call, query: Query<typeof DATABASE_DIFF_QUERY>): Promise<Response> {
  const { database, table } = query;
  if (database === undefined || table === undefined) {
    throw new TaskdError("invalid_request", "Cannot take the address: it must name a database and a table");
  }
  return json(await call.engine.databaseDiff(call.task(), { ...query, database, table }, call.request.signal));
}

export async function log(call: Call, { follow }: Query<typeof LOG_QUERY>): Promise<Response> {
  const endless = follow === "1";
  const { tasks } = call.engine;
  const id = call.task();
  const last_seq = endless ? Infinity : (await tasks.load(id)).seq;
  const lines = (signal: AbortSignal) => taskLog(id, { tasks, last_seq, signal });
  return call.stream(lines, { type: "text/plain; charset=utf-8", endless });
}

export async function cancelQueued(call: Call): Promise<Response> {
  const prefix = call.id.toLowerCase();
  const ids = call.engine.queue().map(({ id }) => id).filter((id) => id.toLowerCase().startsWith(prefix));
  if (ids.length > 1 && !ids.includes(prefix)) {
    throw new TaskdError("usage", `Cannot cancel the queue item: ${ids.length} items have an id that begins so`, {
      hint: "Write more digits of the id",
    });
  }
  await call.engine.cancelQueued(ids.length === 1 ? ids[0]! : prefix, decider(call));
  return answer(null, { status: 204 });
}

export async function metrics(call: Call): Promise<Response> {
  return answer(await call.engine.metrics(), { "content-type": "text/plain; version=0.0.4; charset=utf-8" });
}

/**
 * Every route of the broker, as one table: the server finds its way by it, and openapi.json and the reference in
 * docs/reference/broker_api.md are written from it.
 */

import * as admin from "./admin_routes.ts";
import * as wire from "../api/wire.ts";
import { json } from "./answers.ts";
import { openApi } from "./openapi.ts";
import { asks, type HttpRoute, takes } from "./route.ts";
import * as tasks from "./task_routes.ts";

export const ROUTES: readonly HttpRoute[] = [
  {
    method: "POST",
    path: "/tasks",
    answer: { status: 202, schema: wire.SUBMITTED },
    doc: "Submits a task: `id`, `stage`, `links`",
    ...takes(wire.SUBMIT_REQUEST, tasks.submit),
  },
  {
    method: "GET",
    path: "/tasks",
    answer: { status: 200, schema: wire.TASK_LIST },
    doc: "Tasks, newest first; `next` is the `before` of the next page",
    ...asks(tasks.LIST_QUERY, tasks.list),
  },
  {
    method: "GET",
    path: "/tasks/<id>",
    answer: { status: 200, schema: wire.TASK_VIEW },
    doc: "The whole record of a task",
    run: tasks.show,
  },
  {
    method: "GET",
    path: "/tasks/<id>/events",
    answer: { status: 200, type: "text/event-stream" },
    doc: "What happens to it, from the beginning or after `Last-Event-ID`; 204 when there is nothing more to come",
    run: tasks.events,
  },
  {
    method: "GET",
    path: "/tasks/<id>/diff",
    answer: { status: 200, type: "text/x-diff" },
    doc: "The diff as it is shown, byte by byte; `X-Diff-Sha256` is the SHA-256 of these bytes",
    run: tasks.diff,
  },
  {
    method: "GET",
    path: "/tasks/<id>/brief",
    answer: { status: 200, schema: wire.TRUST_BRIEF },
    doc: "What the broker itself established",
    run: tasks.brief,
  },
  {
    method: "GET",
    path: "/tasks/<id>/log",
    answer: { status: 200, type: "text/plain" },
    doc: "What its setup and its agent have printed; `follow=1` goes on until it ends",
    ...asks(tasks.LOG_QUERY, tasks.log),
  },
  {
    method: "POST",
    path: "/tasks/<id>/retry",
    answer: { status: 202, schema: wire.SUBMITTED },
    doc: "Submits it again, as a new task",
    run: tasks.retry,
  },
  {
    method: "POST",
    path: "/queue",
    answer: { status: 202, schema: wire.QUEUE_ITEM },
    doc: "Puts a task into the queue, which survives restarts",
    ...takes(wire.SUBMIT_REQUEST, tasks.enqueue),
  },
  {
    method: "GET",
    path: "/queue",
    answer: { status: 200, schema: wire.QUEUE_LIST },
    doc: "The queue, oldest first: `items`",
    run: tasks.queue,
  },
  {
    method: "POST",
    path: "/queue/<id>/cancel",
    answer: { status: 204 },
    doc: "Takes an item off the queue, or ends its task",
    run: tasks.cancelQueued,
  },
  {
    method: "GET",
    path: "/admin/pending",
    admin: true,
    answer: { status: 200, schema: wire.PENDING_LIST },
    doc: "Tasks that wait for approval, oldest first: `tasks`",
    run: admin.pending,
  },
  {
    method: "POST",
    path: "/admin/tasks/<id>/approve",
    admin: true,
    answer: { status: 204 },
    doc: "Approves the diff of that digest, naming every category that asks for a second look",
    ...takes(wire.APPROVE_REQUEST, admin.approve),
  },
  {
    method: "POST",
    path: "/admin/tasks/<id>/deny",
    admin: true,
    answer: { status: 204 },
    doc: "Refuses what waits for approval",
    ...takes(wire.REASON_REQUEST, admin.deny, { optional: true }),
  },
  {
    method: "POST",
    path: "/admin/tasks/<id>/kill",
    admin: true,
    answer: { status: 204 },
    doc: "Ends a task in any stage before its push",
    ...takes(wire.REASON_REQUEST, admin.kill, { optional: true }),
  },
  {
    method: "POST",
    path: "/admin/prune",
    admin: true,
    answer: { status: 200, schema: wire.PRUNED },
    doc: "Removes the records of tasks that ended before a time: `pruned` has their ids",
    ...takes(wire.PRUNE_REQUEST, admin.prune),
  },
  {
    method: "GET",
    path: "/admin/policy",
    admin: true,
    answer: { status: 200, schema: wire.POLICY_VIEW },
    doc: "The settings in force, with their sources and their hash",
    run: admin.policy,
  },
  {
    method: "GET",
    path: "/admin/ceiling",
    admin: true,
    answer: { status: 200, schema: wire.CEILING_VIEW },
    doc: "The headroom of the global ceiling",
    run: admin.ceiling,
  },
  {
    method: "GET",
    path: "/admin/stats",
    admin: true,
    answer: { status: 200, schema: wire.STATS_VIEW },
    doc: "Outcomes and cost of tasks, with `global_ceiling`; `by` is `agent`, `vendor`, `repo` or `day`",
    ...asks(admin.STATS_QUERY, admin.stats),
  },
  {
    method: "GET",
    path: "/admin/ui",
    admin: true,
    answer: { status: 200, schema: wire.UI_ADDRESS },
    doc: "The address of the web pages with their token; over the unix socket alone",
    run: admin.ui,
  },
  {
    method: "GET",
    path: "/healthz",
    answer: { status: 200, schema: wire.HEALTH },
    doc: "That the broker is there",
    run: tasks.health,
  },
  {
    method: "GET",
    path: "/metrics",
    answer: { status: 200, type: "text/plain" },
    doc: "Metrics for Prometheus",
    run: tasks.metrics,
  },
  {
    method: "GET",
    path: "/openapi.json",
    answer: { status: 200, type: "application/json" },
    doc: "This interface as OpenAPI 3.1",
    run: () => json(openApi(ROUTES)),
  },
];

const MAX_ID_CHARS = 64;

export interface Found {
  /** By method; empty when there is no such path. */
  routes: readonly HttpRoute[];
  /** What stands for `<id>`; empty without one. */
  id: string;
}

/** The routes of a path, by their shape: each segment is a word of the table or an id. */
export function findRoutes(pathname: string): Found {
  const segments = pathname.split("/");
  let id = "";
  const routes = ROUTES.filter(({ path }) => {
    const pattern = path.split("/");
    const place = pattern.indexOf("<id>");
    if (pattern.length !== segments.length) return false;
    if (!pattern.every((word, at) => at === place ? isId(segments[at]!) : word === segments[at])) return false;
    id = place < 0 ? "" : segments[place]!;
    return true;
  });
  return { routes, id };
}

function isId(segment: string): boolean {
  return segment.length > 0 && segment.length <= MAX_ID_CHARS;
}

/**
 * Every route of the broker, as one table: the server finds its way by it, and the
 * reference in docs/reference/broker_api.md is written from it.
 *
 * @module
 */

import * as admin from "./admin_routes.ts";
import type { Call } from "./call.ts";
import * as tasks from "./task_routes.ts";

/** A route. */
export interface Route {
  readonly method: "GET" | "POST";
  /** `<id>` stands for one segment. */
  readonly path: string;
  /** Whether it is an operator's: then only for peers on this machine. */
  readonly admin?: true;
  /** Parameters of the URL that it takes. */
  readonly query?: readonly string[];
  /** The fields of its body; in brackets when there need be none. */
  readonly body?: string;
  /** Status and kind of its answer. */
  readonly answers: string;
  readonly doc: string;
  readonly run: (call: Call) => Response | Promise<Response>;
}

const SUBMISSION =
  "`repo`, `instruction`, [`agent`, `model`, `base`, `egress_extra`, `sensitive`, `draft`, `platform`, `databases`]";

/** The table. */
export const ROUTES: readonly Route[] = [
  {
    method: "POST",
    path: "/tasks",
    body: SUBMISSION,
    answers: "202 JSON",
    doc: "Submits a task: `id`, `stage`, `links`",
    run: tasks.submit,
  },
  {
    method: "GET",
    path: "/tasks",
    query: ["limit", "before", "stage"],
    answers: "200 JSON",
    doc: "Tasks, newest first; `next` is the `before` of the next page",
    run: tasks.list,
  },
  { method: "GET", path: "/tasks/<id>", answers: "200 JSON", doc: "The whole record of a task", run: tasks.show },
  {
    method: "GET",
    path: "/tasks/<id>/events",
    answers: "200 events",
    doc: "What happens to it, from the beginning or after `Last-Event-ID`; 204 when there is nothing more to come",
    run: tasks.events,
  },
  {
    method: "GET",
    path: "/tasks/<id>/diff",
    answers: "200 `text/x-diff`",
    doc: "The diff that is approved, byte by byte; `X-Diff-Sha256` has its digest",
    run: tasks.diff,
  },
  {
    method: "GET",
    path: "/tasks/<id>/brief",
    answers: "200 JSON",
    doc: "What the broker itself established",
    run: tasks.brief,
  },
  {
    method: "GET",
    path: "/tasks/<id>/log",
    query: ["follow"],
    answers: "200 text",
    doc: "What its setup and its agent have printed; `follow=1` goes on until it ends",
    run: tasks.log,
  },
  {
    method: "POST",
    path: "/tasks/<id>/retry",
    answers: "202 JSON",
    doc: "Submits it again, as a new task",
    run: tasks.retry,
  },
  {
    method: "POST",
    path: "/queue",
    body: SUBMISSION,
    answers: "202 JSON",
    doc: "Puts a task into the queue, which survives restarts",
    run: tasks.enqueue,
  },
  { method: "GET", path: "/queue", answers: "200 JSON", doc: "The queue, oldest first: `items`", run: tasks.queue },
  {
    method: "POST",
    path: "/queue/<id>/cancel",
    answers: "204",
    doc: "Takes an item off the queue, or ends its task",
    run: tasks.cancelQueued,
  },
  {
    method: "GET",
    path: "/admin/pending",
    admin: true,
    answers: "200 JSON",
    doc: "Tasks that wait for approval, oldest first: `tasks`",
    run: admin.pending,
  },
  {
    method: "POST",
    path: "/admin/tasks/<id>/approve",
    admin: true,
    body: "`diff_sha256`, [`acknowledge`]",
    answers: "204",
    doc: "Approves the diff of that digest, naming every category that asks for a second look",
    run: admin.approve,
  },
  {
    method: "POST",
    path: "/admin/tasks/<id>/deny",
    admin: true,
    body: "[`reason`]",
    answers: "204",
    doc: "Refuses what waits for approval",
    run: admin.deny,
  },
  {
    method: "POST",
    path: "/admin/tasks/<id>/kill",
    admin: true,
    body: "[`reason`]",
    answers: "204",
    doc: "Ends a task wherever it stands before its push",
    run: admin.kill,
  },
  {
    method: "POST",
    path: "/admin/prune",
    admin: true,
    body: "`before`, [`dry_run`]",
    answers: "200 JSON",
    doc: "Removes the records of tasks that ended before a time: `pruned` has their ids",
    run: admin.prune,
  },
  {
    method: "GET",
    path: "/admin/policy",
    admin: true,
    answers: "200 JSON",
    doc: "The settings in force, with their sources and their hash",
    run: admin.policy,
  },
  {
    method: "GET",
    path: "/admin/ceiling",
    admin: true,
    answers: "200 JSON",
    doc: "The headroom of the global ceiling",
    run: admin.ceiling,
  },
  {
    method: "GET",
    path: "/admin/stats",
    admin: true,
    query: ["since", "by"],
    answers: "200 JSON",
    doc: "What tasks came to and what they cost, with `global_ceiling`; `by` is `agent`, `vendor`, `repo` or `day`",
    run: admin.stats,
  },
  {
    method: "GET",
    path: "/admin/ui",
    admin: true,
    answers: "200 JSON",
    doc: "The address of the web pages with their token; over the unix socket alone",
    run: admin.ui,
  },
  { method: "GET", path: "/healthz", answers: "200 JSON", doc: "That the broker is there", run: tasks.health },
  { method: "GET", path: "/metrics", answers: "200 text", doc: "Metrics for Prometheus", run: tasks.metrics },
];

/** The most characters of an id in a path. */
const MAX_ID_CHARS = 64;

/** What a path leads to. */
export interface Found {
  /** By method; empty when there is no such path. */
  routes: readonly Route[];
  /** What stands for `<id>`; empty without one. */
  id: string;
}

/** The routes of a path, by their shape: each segment is a word of the table or an id. */
export function findRoutes(pathname: string): Found {
  const segments = pathname.split("/");
  let id = "";
  const routes = ROUTES.filter(({ path }) => {
    const wanted = path.split("/");
    const place = wanted.indexOf("<id>");
    if (wanted.length !== segments.length) return false;
    if (!wanted.every((word, at) => at === place ? isId(segments[at]!) : word === segments[at])) return false;
    id = place < 0 ? "" : segments[place]!;
    return true;
  });
  return { routes, id };
}

function isId(segment: string): boolean {
  return segment.length > 0 && segment.length <= MAX_ID_CHARS;
}

/**
 * Every route of the broker, as one table: the server finds its way by it, and openapi.json and the reference in
 * docs/reference/broker_api.md are written from it.
 */

import * as admin from "./admin_routes.ts";
import * as wire from "../api/wire.ts";
import { json, nothing } from "./answers.ts";
import { openApi } from "./openapi.ts";
import { asks, type HttpRoute, takes } from "./route.ts";
import * as sessions from "./session_routes.ts";
import * as tasks from "./task_routes.ts";

function get(path: string, row: Omit<HttpRoute, "method" | "path">): HttpRoute {
  return { method: "GET", path, ...row };
}

/** One that says nothing else decides about tasks, and answers nothing. */
function post(path: string, row: Pick<HttpRoute, "doc" | "run"> & Partial<HttpRoute>): HttpRoute {
  return { method: "POST", path, right: "approve", answer: { status: 204 }, ...row };
}

export const ROUTES: readonly HttpRoute[] = [
  post("/tasks", {
    right: "submit",
    answer: { status: 202, schema: wire.SUBMITTED },
    doc: "Submits a task: `id`, `stage`, `links`",
    ...takes(
      wire.SUBMIT_REQUEST,
      async (call, body) => tasks.accepted(await call.engine.submit(...await tasks.submission(call, body))),
    ),
  }),
  get("/tasks", {
    right: "read",
    answer: { status: 200, schema: wire.TASK_LIST },
    doc: "Tasks, newest first; `next` is the `before` of the next page",
    ...asks(tasks.LIST_QUERY, tasks.list),
  }),
  get("/tasks/<id>", {
    right: "read",
    answer: { status: 200, schema: wire.TASK_VIEW },
    doc: "The whole record of a task",
    run: async (call) => json(await call.engine.view(call.task())),
  }),
  get("/tasks/<id>/events", {
    right: "read",
    answer: { status: 200, type: "text/event-stream" },
    doc: "What happens to it, from the beginning or after `Last-Event-ID`; 204 when there is nothing more to come",
    run: tasks.events,
  }),
  get("/tasks/<id>/diff", {
    right: "read",
    answer: { status: 200, type: "text/x-diff" },
    doc:
      "The diff as it is shown, byte by byte; `X-Shown-Sha256` is of these bytes, `X-Diff-Sha256` what approving takes",
    run: tasks.diff,
  }),
  get("/tasks/<id>/brief", {
    right: "read",
    answer: { status: 200, schema: wire.TRUST_BRIEF },
    doc: "What the broker itself established; `X-Diff-Sha256` is what approving takes",
    run: tasks.brief,
  }),
  get("/tasks/<id>/database-diff", {
    right: "read",
    answer: { status: 200, schema: wire.DATABASE_ROWS },
    doc:
      "Rows of a table of a database that it changed, old beside new: `rows`, `next`, the `cursor` of the next page, " +
      "and `proof` that an unfiltered page of 1000 rows belongs to what is approved",
    required: ["database", "table"],
    ...asks(wire.DATABASE_DIFF_QUERY, tasks.databaseDiff),
  }),
  get("/tasks/<id>/verification", {
    right: "read",
    answer: { status: 200, schema: wire.VERIFICATION },
    doc: "What its approval bound and led to, verified from its record alone: `verified`, `checks`",
    run: async (call) => json(await call.engine.verification(call.task())),
  }),
  get("/tasks/<id>/log", {
    right: "read",
    answer: { status: 200, type: "text/plain" },
    doc: "What its setup and its agent have printed; `follow=1` goes on until it ends",
    ...asks(tasks.LOG_QUERY, tasks.log),
  }),
  post("/tasks/<id>/retry", {
    right: "submit",
    answer: { status: 202, schema: wire.SUBMITTED },
    doc: "Submits it again, as a new task",
    run: tasks.retry,
  }),
  post("/queue", {
    right: "submit",
    answer: { status: 202, schema: wire.QUEUE_ITEM },
    doc: "Puts a task into the queue, which survives restarts",
    ...takes(
      wire.SUBMIT_REQUEST,
      async (call, body) => json(await call.engine.enqueue(...await tasks.submission(call, body)), { status: 202 }),
    ),
  }),
  get("/queue", {
    right: "read",
    answer: { status: 200, schema: wire.QUEUE_LIST },
    doc: "The queue, oldest first: `items`",
    run: (call) => json({ items: call.engine.queue() }),
  }),
  post("/queue/<id>/cancel", {
    ends_tasks: true,
    doc: "Takes an item off the queue, or ends its task; like `/admin/*` only for peers on this machine",
    run: tasks.cancelQueued,
  }),
  get("/admin/pending", {
    right: "read",
    answer: { status: 200, schema: wire.PENDING_LIST },
    doc: "Tasks that wait for approval, oldest first: `tasks`",
    run: (call) => json({ tasks: call.engine.pending() }),
  }),
  get("/admin/tasks/<id>/bases", {
    right: "approve",
    answer: { status: 200, schema: wire.BASES_VIEW },
    doc: "What has happened to what a change that waits was made from: its base branch, the bases of its databases",
    run: async (call) => json(await call.engine.bases(call.task())),
  }),
  post("/admin/tasks/<id>/approve", {
    doc:
      "Approves what has that digest, naming every category that asks for a second look; `decide` is for the gate's " +
      "`conflicts`: `prefer`, and single ones in `resolve`",
    ...takes(wire.APPROVE_REQUEST, admin.approve),
  }),
  post("/admin/tasks/<id>/deny", {
    doc: "Refuses what waits for approval",
    ...takes(wire.REASON_REQUEST, admin.deny, { optional: true }),
  }),
  post("/admin/tasks/<id>/push", {
    doc:
      "Begins another round for an approved change in `push_failed` or `data_waits`; `decide` is for conflicts that " +
      "were met between the push and the data, as they were read: each with `ours`, or all by `conflicts_read_sha256`",
    ...takes(wire.PUSH_REQUEST, admin.push, { optional: true }),
  }),
  post("/admin/tasks/<id>/kill", {
    doc: "Ends a task in any stage before its push, or gives up an approved change that waits to land",
    ...takes(wire.REASON_REQUEST, admin.kill, { optional: true }),
  }),
  post("/admin/tasks/<id>/egress", {
    doc:
      "Opens `host` and `port` to a running task beside the egress list, for `for_ms` milliseconds and, where it is " +
      "given, for `uses` connections or plain requests",
    ...takes(wire.EGRESS_GRANT_REQUEST, admin.grantEgress),
  }),
  post("/admin/prune", {
    answer: { status: 200, schema: wire.PRUNED },
    doc: "Removes the records of tasks that ended before a time, and the mirrors of repositories not used since",
    ...takes(wire.PRUNE_REQUEST, admin.prune),
  }),
  get("/admin/policy", {
    right: "approve",
    answer: { status: 200, schema: wire.POLICY_VIEW },
    doc: "The settings in force, with their sources and their hash",
    run: (call) => json(call.engine.policy()),
  }),
  get("/admin/ceiling", {
    right: "read",
    answer: { status: 200, schema: wire.CEILING_VIEW },
    doc: "The headroom of the global ceiling",
    run: (call) => json(call.engine.ceiling()),
  }),
  get("/admin/stats", {
    right: "read",
    answer: { status: 200, schema: wire.STATS_VIEW },
    doc: "Outcomes and cost of tasks, with `global_ceiling`; `by` is `agent`, `vendor`, `repo` or `day`",
    ...asks(admin.STATS_QUERY, admin.stats),
  }),
  get("/admin/ui", {
    right: "own",
    answer: { status: 200, schema: wire.UI_ADDRESS },
    doc: "The address of the web pages, with a new code that begins one session; over the unix socket alone",
    run: ({ context }) => json({ url: context.uiAddress() }),
  }),
  get("/admin/tokens", {
    right: "own",
    answer: { status: 200, schema: wire.TOKEN_LIST },
    doc: "The tokens of `broker.api_addr` without the tokens themselves, oldest first; over the unix socket alone",
    run: ({ context: { tokens, api_addr } }) => json({ tokens: tokens.list(), api_addr } satisfies wire.TokenList),
  }),
  post("/admin/tokens", {
    right: "own",
    answer: { status: 200, schema: wire.CREATED_TOKEN },
    doc: "Makes a token of a `role` that expires after `ttl_ms`, and answers it this once; over the unix socket alone",
    ...takes(
      wire.CREATE_TOKEN_REQUEST,
      async ({ context: { tokens, api_addr } }, body) =>
        json({ ...await tokens.create(await body()), api_addr } satisfies wire.CreatedToken),
    ),
  }),
  post("/admin/tokens/<id>/revoke", {
    right: "own",
    doc: "Ends the token of the name <id>, with its streams; over the unix socket alone",
    run: async ({ id, context: { tokens } }) => {
      await tokens.revoke(id);
      return nothing();
    },
  }),
  post("/session", {
    right: "session",
    pages: "code",
    answer: { status: 200, schema: wire.PAGE_SESSION },
    doc:
      "Begins a session of the web pages: `token`. The code of their address is the bearer token here; on their own " +
      "listener alone",
    run: sessions.begin,
  }),
  post("/session/end", {
    right: "session",
    pages: "token",
    doc: "Ends the session that asks, with its streams; on the listener of the web pages alone",
    run: sessions.end,
  }),
  get("/healthz", {
    right: "health",
    answer: { status: 200, schema: wire.HEALTH },
    doc: "That the broker is there",
    run: (call) => json(call.engine.health()),
  }),
  get("/metrics", {
    right: "metrics",
    answer: { status: 200, type: "text/plain" },
    doc: "Metrics for Prometheus",
    run: tasks.metrics,
  }),
  get("/openapi.json", {
    right: "read",
    answer: { status: 200, type: "application/json" },
    doc: "This interface as OpenAPI 3.1",
    run: () => json(openApi(ROUTES)),
  }),
];

const MAX_ID_CHARS = 64;

export interface Found {
  routes: readonly HttpRoute[];
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

/**
 * What travels over the broker's HTTP interface: one schema for each request and each answer. The server, the client,
 * the command line, the web pages and openapi.json follow from them.
 *
 * Field names are those of the contract; times are ISO 8601 UTC, money is USD.
 */

import * as v from "valibot";
import { POLICY_VIEW } from "../settings/policy_view.ts";
import {
  DISK_USE,
  EGRESS_GRANTS,
  REFUSED_EGRESS,
  ROW_EVENTS,
  SPEND,
  SUBMIT_REQUEST,
  TASK_RECORD,
  TASK_SUMMARY,
  TRUST_BRIEF,
} from "../task/schema.ts";
import { DECIDE_REQUEST } from "../task/database_schema.ts";
import { TASK_STATS } from "../task/stats_schema.ts";
import { DATABASE_DIFF_QUERY, DATABASE_ROWS, type DatabaseDiffQuery, type DatabaseRows } from "../task/row_pages.ts";
import { GATE, SEEN } from "../task/stages.ts";
import { AMOUNT, COUNT, RANDOM_ID, SHA256, TEXT, TIME, WORD, WORDS } from "../task/value_schemas.ts";

export { DATABASE_DIFF_QUERY, DATABASE_ROWS, POLICY_VIEW, SUBMIT_REQUEST, TRUST_BRIEF };
export type { DatabaseDiffQuery, DatabaseRows };

/** The most bytes of a request's body. */
export const MAX_BODY_BYTES = 1 << 20;

const { id, repo, agent, stage } = TASK_RECORD.entries;
const live = v.exactOptional(SPEND);

/** Paths of what belongs to a task. */
const TASK_LINKS = v.strictObject({ self: WORD, events: WORD, diff: WORD, brief: WORD, log: WORD });
export type TaskLinks = v.InferOutput<typeof TASK_LINKS>;

/** The paths of the task `id`. */
export function taskLinks(id: string): TaskLinks {
  const self = `/tasks/${id}`;
  return { self, events: `${self}/events`, diff: `${self}/diff`, brief: `${self}/brief`, log: `${self}/log` };
}

/** Answer of `POST /tasks` and `/retry`. */
export const SUBMITTED = v.strictObject({ id, stage, links: TASK_LINKS });
export type Submitted = v.InferOutput<typeof SUBMITTED>;

const TASK_LIST_ITEM = v.strictObject({
  ...TASK_SUMMARY.entries,
  /** What the gateway lease has metered so far; only while the task is under way. */
  live,
});
/** A task in `GET /tasks`. */
export type TaskListItem = v.InferOutput<typeof TASK_LIST_ITEM>;

/** Answer of `GET /tasks`. */
export const TASK_LIST = v.strictObject({
  tasks: v.array(TASK_LIST_ITEM),
  /** The value of `before` for the next page; absent on the last. */
  next: v.exactOptional(id),
});
export type TaskList = v.InferOutput<typeof TASK_LIST>;

/** Answer of `GET /tasks/<id>`; `<id>` may be any unique prefix. */
export const TASK_VIEW = v.strictObject({
  ...TASK_RECORD.entries,
  /** As in a list. */
  live,
  /** Whether the trace is what the broker wrote; with what is wrong when not. */
  trace: v.variant("intact", [
    v.strictObject({ intact: v.literal(true), rows: COUNT }),
    v.strictObject({ intact: v.literal(false), fault: v.string() }),
  ]),
  refused_egress: REFUSED_EGRESS,
  /** Present when a person opened hosts to it while it ran. */
  egress_grants: v.exactOptional(EGRESS_GRANTS),
  /** Present once its disk space was counted. */
  disk: v.exactOptional(DISK_USE),
  links: TASK_LINKS,
});
export type TaskView = v.InferOutput<typeof TASK_VIEW>;

const { outcome, reason, gate, pushed } = ROW_EVENTS.stage.entries;

/**
 * The events of `GET /tasks/<id>/events`, by name. Those with `live: false` are rows of the trace and carry its number as
 * the event's id; live spend has none and is never repeated. `result` is the last; the stream then ends. A task that ends
 * has this one and no `stage` event. Should the trace turn out to be damaged, the last is `error`, with a {@linkcode Problem}.
 */
export const TASK_EVENTS = {
  stage: v.strictObject({ ts: TIME, stage, reason, gate, pushed }),
  output: v.strictObject({ ts: TIME, ...ROW_EVENTS.output.entries }),
  spend: v.strictObject({ ts: TIME, ...SPEND.entries, live: v.boolean() }),
  evidence: v.strictObject({ ts: TIME, ...ROW_EVENTS.evidence.entries }),
  ci: v.strictObject({ ts: TIME, ...ROW_EVENTS.ci.entries }),
  note: v.strictObject({ ts: TIME, ...ROW_EVENTS.note.entries }),
  result: v.strictObject({ ts: TIME, outcome: v.nonOptional(outcome), reason: TEXT, pushed }),
};
/** Something that has happened to a task, as `GET /tasks/<id>/events` says it. */
export type TaskEventView = {
  [E in keyof typeof TASK_EVENTS]: { event: E; data: v.InferOutput<(typeof TASK_EVENTS)[E]> };
}[keyof typeof TASK_EVENTS];

const PENDING_TASK = v.strictObject({
  id,
  repo,
  instruction: TEXT,
  agent,
  /** Since when it waits. */
  since: TIME,
  /** Milliseconds until it expires; absent when it waits without end. */
  expires_in_ms: v.exactOptional(v.number()),
  gate: GATE,
  /** The gateway's figure. */
  spend: v.exactOptional(SPEND),
  files_changed: COUNT,
  lines_changed: COUNT,
  sensitive: v.boolean(),
});
/** A task at the gate. */
export type PendingTask = v.InferOutput<typeof PENDING_TASK>;

/** Answer of `GET /admin/pending`, oldest first. */
export const PENDING_LIST = v.strictObject({ tasks: v.array(PENDING_TASK) });

/** Answer of `GET /admin/tasks/<id>/bases`. */
export const BASES_VIEW = v.strictObject({
  /** Sentences, one for each base that is not where it was; may hold any name. */
  notes: v.array(v.string()),
});
export type BasesView = v.InferOutput<typeof BASES_VIEW>;

/** Body of `POST /admin/tasks/<id>/approve`. */
export const APPROVE_REQUEST = v.strictObject({
  diff_sha256: SHA256,
  acknowledge: v.optional(v.pipe(v.array(v.pipe(WORD, v.minLength(1))), v.maxLength(256)), []),
  /** What was shown before, for the record. */
  seen: v.exactOptional(SEEN),
  /** What becomes of the gate's conflicts. */
  decide: v.exactOptional(DECIDE_REQUEST),
});

/** Body of `POST /admin/tasks/<id>/push`. */
export const PUSH_REQUEST = v.strictObject({
  decide: v.exactOptional(DECIDE_REQUEST),
  /**
   * SHA-256 over `{db, base, conflicts, total}` of each database as RFC 8785 writes it. Needed with `prefer`, and for
   * decisions without `ours`: what a round since has found was not read.
   */
  conflicts_read_sha256: v.exactOptional(SHA256),
});

/** Answer of `GET /tasks/<id>/verification`. */
export const VERIFICATION = v.strictObject({
  id,
  /** Whether every check holds. */
  verified: v.boolean(),
  /** Of what there is: a task that was not approved, or has not landed, has fewer. */
  checks: v.array(v.strictObject({
    what: v.picklist(["trace", "digest", "brief", "diff", "rows", "approval", "commit", "data"]),
    holds: v.boolean(),
    /** What was found. */
    detail: TEXT,
  })),
});
export type Verification = v.InferOutput<typeof VERIFICATION>;

/** Body of `POST /admin/tasks/<id>/deny` and `/kill`; may be empty. */
export const REASON_REQUEST = v.strictObject({ reason: v.optional(WORD, "") });

/** One limb of the global ceiling. */
const LIMB = v.strictObject({
  /** Whether it refuses starts now. */
  blocked: v.boolean(),
  /** Why; empty when it does not. */
  reason: v.string(),
});
export type LimbView = v.InferOutput<typeof LIMB>;

/** Answer of `GET /admin/ceiling`, and `global_ceiling` of `stats --json`. */
export const CEILING_VIEW = v.strictObject({
  enabled: v.boolean(),
  /** As configured: `24h`, or `0s` for the total. */
  window: v.string(),
  window_ms: COUNT,
  budget_usd: AMOUNT,
  spent_usd: AMOUNT,
  /** Null without a USD limb. */
  headroom_usd: v.nullable(AMOUNT),
  max_tasks: COUNT,
  recorded_starts: COUNT,
  in_flight_starts: COUNT,
  starts: COUNT,
  /** Null without a task limb. */
  headroom_starts: v.nullable(COUNT),
  usd: LIMB,
  tasks: LIMB,
  /** Lines of the ledger that could not be read. */
  damaged: COUNT,
  oldest_entry: v.nullable(TIME),
  newest_entry: v.nullable(TIME),
});
export type CeilingView = v.InferOutput<typeof CEILING_VIEW>;

/** The states of a queue item. */
export const QUEUE_STATES = [
  "queued",
  "running",
  "awaiting_approval",
  "awaiting_ci",
  "completed",
  "ci_failed",
  "cancelled",
  "dead_letter",
] as const;
/** The state of a queue item. */
export type QueueState = typeof QUEUE_STATES[number];

/** An item of the queue. */
export const QUEUE_ITEM = v.strictObject({
  id: RANDOM_ID,
  state: v.picklist(QUEUE_STATES),
  repo,
  instruction: TEXT,
  agent,
  queued_at: TIME,
  updated_at: TIME,
  /** The task that was made of it. */
  task_id: v.exactOptional(RANDOM_ID),
  /** Why it ended as it did. */
  reason: v.exactOptional(TEXT),
});
export type QueueItemView = v.InferOutput<typeof QUEUE_ITEM>;

/** Answer of `GET /queue`, oldest first. */
export const QUEUE_LIST = v.strictObject({ items: v.array(QUEUE_ITEM) });

/** Answer of `GET /healthz`. */
export const HEALTH = v.strictObject({
  ok: v.literal(true),
  version: v.string(),
  pid: COUNT,
  runtime: v.string(),
  started_at: TIME,
  /** Tasks that hold a slot. */
  running: COUNT,
  /** Tasks at the gate. */
  pending: COUNT,
});
export type Health = v.InferOutput<typeof HEALTH>;

/** Body of `POST /admin/tasks/<id>/egress`. */
export const EGRESS_GRANT_REQUEST = v.strictObject({
  /** A name; not `*.` and a name. */
  host: v.pipe(v.string(), v.minLength(1), v.maxLength(1_024)),
  port: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535)),
  /** For how many milliseconds, a day at most. */
  for_ms: v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(86_400_000)),
  /** For how many connections or plain requests; without it there is no bound. */
  uses: v.exactOptional(v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(1_000_000))),
});
export type EgressGrantRequest = v.InferOutput<typeof EGRESS_GRANT_REQUEST>;

/** Body of `POST /admin/prune`: tasks that ended, and mirrors last used, before that moment. */
export const PRUNE_REQUEST = v.strictObject({ before: TIME, dry_run: v.optional(v.boolean(), false) });

/** The answer to `POST /admin/prune`. */
export const PRUNED = v.strictObject({
  /** Ids of the tasks that were removed, or would be. */
  pruned: v.array(id),
  /** Mirrors of repositories that were removed, or would be, the longest unused first. */
  mirrors: v.array(v.strictObject({ repo: v.string(), bytes: COUNT, last_used_at: TIME })),
  dry_run: v.boolean(),
});
export type Pruned = v.InferOutput<typeof PRUNED>;

/** Answer of `GET /admin/ui`: the address of the web pages, with a code in its fragment that begins one session. */
export const UI_ADDRESS = v.strictObject({ url: v.string() });

/** Answer of `POST /session`: the bearer token of a session of the web pages. */
export const PAGE_SESSION = v.strictObject({ token: v.string() });
export type PageSessionView = v.InferOutput<typeof PAGE_SESSION>;

/** What a token of `broker.api_addr` is for; each may what the one before it may. */
export const API_ROLE = v.picklist(["read", "submit", "approve"]);
/** A role of an API token. */
export type ApiRole = v.InferOutput<typeof API_ROLE>;

/** Name of an API token: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or a digit. */
export const API_TOKEN_NAME = v.pipe(
  v.string(),
  v.regex(
    /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/,
    "must be 1 to 40 of A-Z a-z 0-9 . _ -, the first a letter or a digit",
  ),
);

const TTL_RULE = "must be from a second to 366 days";

/** Body of `POST /admin/tokens`. */
export const CREATE_TOKEN_REQUEST = v.strictObject({
  role: API_ROLE,
  /** Milliseconds until it expires, a year at most. */
  ttl_ms: v.pipe(v.number(), v.integer(), v.minValue(1_000, TTL_RULE), v.maxValue(366 * 86_400_000, TTL_RULE)),
  /** By default the role with a few random digits. */
  name: v.exactOptional(API_TOKEN_NAME),
});
export type CreateTokenRequest = v.InferOutput<typeof CREATE_TOKEN_REQUEST>;

const API_TOKEN = v.strictObject({
  name: v.string(),
  role: API_ROLE,
  /** The first 8 hex digits of its SHA-256. */
  fingerprint: v.string(),
  created_at: TIME,
  expires_at: TIME,
  expired: v.boolean(),
});
/** A token of `broker.api_addr`, without the token itself. */
export type ApiTokenView = v.InferOutput<typeof API_TOKEN>;

/** Where tokens are asked for; null while `broker.api_addr` is empty. */
const api_addr = v.nullable(v.string());

/** Answer of `POST /admin/tokens`: the token itself is in no other answer. */
export const CREATED_TOKEN = v.strictObject({ ...API_TOKEN.entries, token: v.string(), api_addr });
export type CreatedToken = v.InferOutput<typeof CREATED_TOKEN>;

/** Answer of `GET /admin/tokens`, oldest first. */
export const TOKEN_LIST = v.strictObject({ tokens: v.array(API_TOKEN), api_addr });
export type TokenList = v.InferOutput<typeof TOKEN_LIST>;

/** Answer of `GET /admin/stats`: as `stats --json`. */
export const STATS_VIEW = v.strictObject({ ...TASK_STATS.entries, global_ceiling: CEILING_VIEW });
export type StatsView = v.InferOutput<typeof STATS_VIEW>;

/** Every error's body: RFC 9457, `application/problem+json`, with the stable code. */
export const PROBLEM = v.strictObject({
  type: v.literal("about:blank"),
  title: v.string(),
  status: v.number(),
  detail: v.string(),
  code: v.string(),
  /** What to do about it. */
  hint: v.exactOptional(v.string()),
  /** Categories that an approval still has to name. */
  missing: v.exactOptional(WORDS),
});
export type Problem = v.InferOutput<typeof PROBLEM>;

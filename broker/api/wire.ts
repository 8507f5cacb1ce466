/**
 * What travels over the broker's HTTP interface, as types and as one schema for the only
 * body that is more than a few words. The server, the client, the command line and the
 * web pages are written against it.
 *
 * Field names are those of the contract; times are ISO 8601 UTC, money is USD.
 *
 * @module
 */

import * as v from "valibot";
import type { TrustBrief } from "../task/brief.ts";
import type { Stats } from "../task/stats.ts";
import type { TaskRecord } from "../task/record.ts";
import type { CiObservation, Json, SpendFigures } from "../task/rows.ts";
import type { Gate, Outcome, Pushed, Stage } from "../task/stages.ts";
import type { TaskSummary } from "../task/summary.ts";

/** The most bytes of a request's body. */
export const MAX_BODY_BYTES = 1 << 20;
/** The most characters of an instruction. */
export const MAX_INSTRUCTION_CHARS = 100_000;
/** The most bytes of what an agent is started with as one argument: Linux takes 128 KiB, names of databases come on top. */
export const MAX_ARGUMENT_BYTES = 124 << 10;
/** The most bytes of an instruction in UTF-8; the rest is for what a retry is told of failed checks. */
const MAX_INSTRUCTION_BYTES = 112 << 10;

const word = v.pipe(v.string(), v.minLength(1), v.maxLength(4_096));
const port = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535));

/** The body of `POST /tasks` and `POST /queue`: unknown fields are refused. */
export const SUBMIT_SCHEMA = v.strictObject({
  repo: word,
  instruction: v.pipe(
    v.string(),
    v.minLength(1),
    v.maxLength(MAX_INSTRUCTION_CHARS),
    v.maxBytes(MAX_INSTRUCTION_BYTES),
  ),
  agent: v.exactOptional(word),
  model: v.exactOptional(word),
  base: v.exactOptional(word),
  egress_extra: v.exactOptional(
    v.pipe(
      v.array(v.strictObject({ host: word, ports: v.pipe(v.array(port), v.minLength(1), v.maxLength(64)) })),
      v.maxLength(256),
    ),
  ),
  sensitive: v.exactOptional(v.boolean()),
  draft: v.exactOptional(v.boolean()),
  platform: v.exactOptional(word),
  databases: v.exactOptional(v.pipe(v.array(word), v.maxLength(64))),
});

/** What is asked for: see {@linkcode SUBMIT_SCHEMA}. */
export type SubmitRequest = v.InferOutput<typeof SUBMIT_SCHEMA>;

/** Paths of what belongs to a task. */
export interface TaskLinks {
  self: string;
  events: string;
  diff: string;
  brief: string;
  log: string;
}

/** The answer 202 to `POST /tasks`. */
export interface Submitted {
  id: string;
  stage: Stage;
  links: TaskLinks;
}

/** A task in `GET /tasks`. */
export interface TaskListItem extends TaskSummary {
  /** What the gateway lease has metered so far; only while the task is under way. */
  live?: SpendFigures;
}

/** The answer to `GET /tasks?limit=&before=&stage=`. */
export interface TaskList {
  tasks: TaskListItem[];
  /** The value of `before` for the next page; absent on the last. */
  next?: string;
}

/** The answer to `GET /tasks/<id>`; `<id>` may be any unique prefix. */
export interface TaskView extends TaskRecord {
  /** As in {@linkcode TaskListItem}. */
  live?: SpendFigures;
  /** Whether the trace is what the broker wrote; with what is wrong when not. */
  trace: { intact: true; rows: number } | { intact: false; fault: string };
  /** The last names that the egress proxy refused to the task, with why; bounded. */
  refused_egress: { target: string; reason: string; hint?: string }[];
  links: TaskLinks;
}

/**
 * The events of `GET /tasks/<id>/events`, by name. Those with `live: false` are rows of the trace and carry its number as
 * the event's id; live spend has none and is never repeated. `result` is the last; the stream then ends. A task that ends
 * has this one and no `stage` event. Should the trace turn out to be damaged, the last is `error`, with a {@linkcode Problem}.
 */
export type TaskEventView =
  | { event: "stage"; data: { ts: string; stage: Stage; reason?: string; gate?: Gate; pushed?: Pushed } }
  | { event: "output"; data: { ts: string; channel: "stdout" | "stderr" | "setup"; text: string; cut_chars?: number } }
  | { event: "spend"; data: SpendFigures & { ts: string; live: boolean } }
  | { event: "evidence"; data: { ts: string; name: string; value: Json } }
  | { event: "ci"; data: CiObservation & { ts: string } }
  | { event: "note"; data: { ts: string; text: string } }
  | { event: "result"; data: { ts: string; outcome: Outcome; reason: string; pushed?: Pushed } };

/** A task at the gate, in `GET /admin/pending`. */
export interface PendingTask {
  id: string;
  repo: string;
  instruction: string;
  agent: string;
  /** Since when it waits. */
  since: string;
  /** Milliseconds until it is denied by itself; absent when it waits for ever. */
  expires_in_ms?: number;
  gate: Gate;
  /** The gateway's figure. */
  spend?: SpendFigures;
  files_changed: number;
  lines_changed: number;
  sensitive: boolean;
}

/** The body of `POST /admin/tasks/<id>/approve`. */
export const APPROVE_SCHEMA = v.strictObject({
  diff_sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/)),
  acknowledge: v.optional(v.pipe(v.array(word), v.maxLength(256)), []),
});

/** The body of `POST /admin/tasks/<id>/deny` and `/kill`; may be empty. */
export const REASON_SCHEMA = v.strictObject({
  reason: v.optional(v.pipe(v.string(), v.maxLength(4_096)), ""),
});

/** One limb of the global ceiling. */
export interface LimbView {
  /** Whether it refuses starts now. */
  blocked: boolean;
  /** Why; empty when it does not. */
  reason: string;
}

/** `GET /admin/ceiling`, and `global_ceiling` of `stats --json`. */
export interface CeilingView {
  enabled: boolean;
  /** As configured: `24h`, or `0s` for the total. */
  window: string;
  window_ms: number;
  budget_usd: number;
  spent_usd: number;
  /** Null without a USD limb. */
  headroom_usd: number | null;
  max_tasks: number;
  recorded_starts: number;
  in_flight_starts: number;
  starts: number;
  /** Null without a task limb. */
  headroom_starts: number | null;
  usd: LimbView;
  tasks: LimbView;
  /** Lines of the ledger that could not be read. */
  damaged: number;
  oldest_entry: string | null;
  newest_entry: string | null;
}

/** Where a queue item can stand. */
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

/** Where a queue item stands. */
export type QueueState = typeof QUEUE_STATES[number];

/** An item of `GET /queue`. */
export interface QueueItemView {
  id: string;
  state: QueueState;
  repo: string;
  instruction: string;
  agent: string;
  queued_at: string;
  updated_at: string;
  /** The task that was made of it. */
  task_id?: string;
  /** Why it ended as it did. */
  reason?: string;
}

/** `GET /healthz`. */
export interface Health {
  ok: true;
  version: string;
  pid: number;
  runtime: string;
  started_at: string;
  /** Tasks that hold a slot. */
  running: number;
  /** Tasks at the gate. */
  pending: number;
}

/** The body of `POST /admin/prune`: tasks that ended before that moment. */
export const PRUNE_SCHEMA = v.strictObject({
  before: v.pipe(v.string(), v.isoTimestamp()),
  dry_run: v.optional(v.boolean(), false),
});

/** The answer to `POST /admin/prune`. */
export interface Pruned {
  /** Ids of what was removed, or would be. */
  pruned: string[];
  dry_run: boolean;
}

/** The answer to `GET /admin/pending`. */
export interface PendingList {
  tasks: PendingTask[];
}

/** The answer to `GET /queue`. */
export interface QueueList {
  items: QueueItemView[];
}

/** The answer to `GET /admin/ui`, on the unix socket alone. */
export interface UiAddress {
  /** Of the web pages, with the token that they need in its fragment. */
  url: string;
}

/** The answer to `GET /admin/stats?since=&by=`: as `stats --json`. */
export interface StatsView extends Stats {
  global_ceiling: CeilingView;
}

/** Every error's body: RFC 9457, `application/problem+json`, with the stable code. */
export interface Problem {
  type: "about:blank";
  title: string;
  status: number;
  detail: string;
  code: string;
  /** What to do about it. */
  hint?: string;
  /** Categories that an approval still has to name. */
  missing?: string[];
}

export type { TrustBrief };

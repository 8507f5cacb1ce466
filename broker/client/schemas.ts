/**
 * What the broker answers, as closed types: another version of the program may be running,
 * and what is not understood must not pass for something else. Fields that this version
 * does not know are left out.
 *
 * @module
 */

import * as v from "valibot";
import {
  type CeilingView,
  type Health,
  type PendingList,
  type Problem,
  type Pruned,
  QUEUE_STATES,
  type QueueItemView,
  type QueueList,
  type StatsView,
  type Submitted,
  type TaskEventView,
  type TaskList,
  type TaskView,
  type TrustBrief,
  type UiAddress,
} from "../api/wire.ts";
import { GROUPINGS } from "../task/stats.ts";
import type { Json } from "../task/rows.ts";
import { type Outcome, OUTCOMES, type Stage, STAGES } from "../task/stages.ts";

type Schema<T> = v.GenericSchema<unknown, T>;

const text = v.string();
const count = v.number();
const flag = v.boolean();
const stage = v.picklist(Object.keys(STAGES) as Stage[]);
const OUTCOME_NAMES = Object.keys(OUTCOMES) as Outcome[];
const outcome = v.picklist(OUTCOME_NAMES);
const JSON_VALUE: Schema<Json> = v.lazy(() =>
  v.union([v.null(), v.boolean(), v.number(), v.string(), v.array(JSON_VALUE), v.record(v.string(), JSON_VALUE)])
);

const maybe = v.exactOptional;
const spendFields = {
  usd: count,
  requests: count,
  unmetered_requests: count,
  input_tokens: count,
  output_tokens: count,
  priced: flag,
};
const spend = v.object(spendFields);
const gate = v.object({ diff_sha256: text, second_look: v.array(text), timeout_ms: count });
const pushed = v.object({ branch: text, commit: text, pull_request: maybe(text) });
const ciFields = {
  state: v.picklist(["pending", "passed", "failed", "no_checks", "no_conclusion"]),
  detail: maybe(text),
};
const links = v.object({ self: text, events: text, diff: text, brief: text, log: text });

/** `POST /tasks` and `/retry`. */
export const SUBMITTED: Schema<Submitted> = v.object({ id: text, stage, links });

/** `GET /tasks`. */
export const TASK_LIST: Schema<TaskList> = v.object({
  tasks: v.array(v.object({
    id: text,
    repo: text,
    instruction: text,
    agent: text,
    model: maybe(text),
    stage,
    outcome: maybe(outcome),
    reason: maybe(text),
    created_at: text,
    updated_at: text,
    spend: maybe(v.object({ usd: count, requests: count, unmetered_requests: count, priced: flag })),
    claimed_usd: maybe(count),
    retry_of: maybe(text),
    ci_attempt: maybe(count),
    queue_id: maybe(text),
    live: maybe(spend),
  })),
  next: maybe(text),
});

/** `GET /tasks/<id>`. */
export const TASK_VIEW: Schema<TaskView> = v.object({
  id: text,
  repo: text,
  instruction: text,
  agent: text,
  model: maybe(text),
  base: maybe(text),
  egress_extra: maybe(v.array(v.object({ host: text, ports: v.array(count) }))),
  sensitive: maybe(flag),
  draft: maybe(flag),
  platform: maybe(text),
  databases: maybe(v.array(text)),
  retry_of: maybe(text),
  ci_attempt: maybe(count),
  queue_id: maybe(text),
  stage,
  outcome: maybe(outcome),
  reason: maybe(text),
  created_at: text,
  updated_at: text,
  stage_since: text,
  spend: maybe(spend),
  claimed_usd: maybe(count),
  diff_sha256: maybe(text),
  gate: maybe(gate),
  acknowledgements: maybe(v.array(text)),
  push_attempts: v.array(v.object({ remote: text, branch: text, commit: text })),
  push_begun_at: maybe(text),
  pushed: maybe(pushed),
  ci: maybe(v.object(ciFields)),
  evidence: v.record(text, JSON_VALUE),
  seq: count,
  live: maybe(spend),
  trace: v.variant("intact", [
    v.object({ intact: v.literal(true), rows: count }),
    v.object({ intact: v.literal(false), fault: text }),
  ]),
  refused_egress: v.array(v.object({ target: text, reason: text, hint: maybe(text) })),
  links,
});

const ts = text;
const EVENTS = {
  stage: v.object({ ts, stage, reason: maybe(text), gate: maybe(gate), pushed: maybe(pushed) }),
  output: v.object({ ts, channel: v.picklist(["stdout", "stderr", "setup"]), text, cut_chars: maybe(count) }),
  spend: v.object({ ...spendFields, ts, live: flag }),
  evidence: v.object({ ts, name: text, value: JSON_VALUE }),
  ci: v.object({ ...ciFields, ts }),
  note: v.object({ ts, text }),
  result: v.object({ ts, outcome, reason: text, pushed: maybe(pushed) }),
} satisfies { [E in TaskEventView as E["event"]]: Schema<E["data"]> };

/** The event `name` with its data; undefined for one that this version does not know. */
export function readEvent(name: string, data: unknown): TaskEventView | undefined {
  if (!Object.hasOwn(EVENTS, name)) return undefined;
  const parsed = v.safeParse(EVENTS[name as keyof typeof EVENTS], data);
  return parsed.success ? { event: name, data: parsed.output } as TaskEventView : undefined;
}

const blob = v.object({ hex: text, bytes: count });
const columns = v.record(v.string(), v.union([v.string(), v.number(), v.null(), blob]));
const databaseRow = v.object({
  change: v.picklist(["added", "removed", "changed"]),
  key: columns,
  before: maybe(columns),
  after: maybe(columns),
});

const database = v.object({
  db: text,
  base: text,
  changed: flag,
  tables: v.array(v.object({
    table: text,
    change: v.picklist(["added", "removed", "changed", "schema"]),
    rows_added: count,
    rows_removed: count,
    rows_changed: count,
    storage_rows: maybe(count),
    rows: maybe(v.array(databaseRow)),
  })),
  more_tables: count,
  schema: v.array(v.object({ type: text, name: text, change: v.picklist(["added", "removed", "changed"]) })),
  more_schema: count,
  other_changes: flag,
});

/** `GET /tasks/<id>/brief`. */
export const TRUST_BRIEF: Schema<TrustBrief> = v.object({
  version: v.literal(1),
  task_id: text,
  instruction_sha256: text,
  repo: text,
  base_commit: v.nullable(text),
  runtime: v.nullable(text),
  image: v.nullable(text),
  image_digest: v.nullable(text),
  agent: text,
  model: v.nullable(text),
  policy_hash: v.nullable(text),
  budget_usd: v.nullable(count),
  spend: v.nullable(spend),
  diff: v.nullable(v.object({
    sha256: text,
    tree: text,
    files_changed: count,
    lines_changed: count,
    files: v.array(v.object({
      path: text,
      status: v.picklist(["added", "modified", "deleted", "type_changed"]),
      added: count,
      deleted: count,
      binary: flag,
    })),
  })),
  flags: v.array(v.object({
    category: text,
    reason: text,
    count,
    paths: v.array(v.object({ path: text, detail: maybe(text) })),
  })),
  violations: v.array(v.variant("rule", [
    v.object({
      rule: v.picklist(["max_files_changed", "max_lines_changed"]),
      limit: count,
      found: count,
      message: text,
    }),
    v.object({ rule: v.literal("blocked_paths"), glob: text, paths: v.array(text), found: count, message: text }),
  ])),
  setup: v.nullable(v.object({
    commands: v.array(v.object({
      phase: v.picklist(["setup", "readiness"]),
      command: v.array(text),
      status: v.picklist(["passed", "failed", "timed_out", "not_run"]),
      exit_code: maybe(count),
      duration_ms: count,
    })),
    cache: v.object({
      participation: v.picklist(["hit", "miss", "disabled", "disabled: no lockfile"]),
      key_prefix: maybe(text),
    }),
  })),
  databases: maybe(v.array(database)),
  missing_evidence: v.array(text),
});

/** An item of the queue. */
export const QUEUE_ITEM: Schema<QueueItemView> = v.object({
  id: text,
  state: v.picklist(QUEUE_STATES),
  repo: text,
  instruction: text,
  agent: text,
  queued_at: text,
  updated_at: text,
  task_id: maybe(text),
  reason: maybe(text),
});

/** `GET /queue`. */
export const QUEUE_LIST: Schema<QueueList> = v.object({ items: v.array(QUEUE_ITEM) });

/** `GET /admin/pending`. */
export const PENDING_LIST: Schema<PendingList> = v.object({
  tasks: v.array(v.object({
    id: text,
    repo: text,
    instruction: text,
    agent: text,
    since: text,
    expires_in_ms: maybe(count),
    gate,
    spend: maybe(spend),
    files_changed: count,
    lines_changed: count,
    sensitive: flag,
  })),
});

const limb = v.object({ blocked: flag, reason: text });

/** `GET /admin/ceiling`. */
export const CEILING: Schema<CeilingView> = v.object({
  enabled: flag,
  window: text,
  window_ms: count,
  budget_usd: count,
  spent_usd: count,
  headroom_usd: v.nullable(count),
  max_tasks: count,
  recorded_starts: count,
  in_flight_starts: count,
  starts: count,
  headroom_starts: v.nullable(count),
  usd: limb,
  tasks: limb,
  damaged: count,
  oldest_entry: v.nullable(text),
  newest_entry: v.nullable(text),
});

const tally = {
  tasks: count,
  under_way: count,
  outcomes: v.object(Object.fromEntries(OUTCOME_NAMES.map((name) => [name, count])) as Record<Outcome, typeof count>),
  spend: v.object({
    usd: count,
    requests: count,
    metered_tasks: count,
    unmetered_tasks: count,
    unmetered_requests: count,
  }),
  agent_reported: v.object({ tasks: count, usd: count }),
};

/** `GET /admin/stats`. */
export const STATS: Schema<StatsView> = v.object({
  ...tally,
  damaged: count,
  since: v.nullable(text),
  by: maybe(v.picklist(GROUPINGS)),
  groups: maybe(v.array(v.object({ ...tally, name: text }))),
  days: v.array(v.object({ day: text, tasks: count, usd: count })),
  global_ceiling: CEILING,
});

/** `POST /admin/prune`. */
export const PRUNED: Schema<Pruned> = v.object({ pruned: v.array(text), dry_run: flag });

/** `GET /admin/ui`. */
export const UI_ADDRESS: Schema<UiAddress> = v.object({ url: text });

/** `GET /healthz`. */
export const HEALTH: Schema<Health> = v.object({
  ok: v.literal(true),
  version: text,
  pid: count,
  runtime: text,
  started_at: text,
  running: count,
  pending: count,
});

/** Every error's body. */
export const PROBLEM: Schema<Pick<Problem, "detail" | "code"> & Partial<Problem>> = v.object({
  detail: text,
  code: text,
  hint: maybe(text),
  missing: maybe(v.array(text)),
});

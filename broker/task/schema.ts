/**
 * The one schema of everything that is kept of tasks: what was asked for, the parts of a trace's rows, the record, its
 * entry in a list, the trust brief. The types follow from the schemas, and so do the checks of rows, of requests and of
 * answers, and openapi.json. Objects refuse fields that they do not have.
 *
 * Names are those of the contract; times are ISO 8601 in UTC, money is USD.
 */

import * as v from "valibot";
import { BRIEF_DATABASE, DECISIONS } from "./database_schema.ts";
import { APPROVAL, DECIDER, GATE, LOOSE_MOVE, OUTCOME, PUSHED, STAGE } from "./stages.ts";
import { AMOUNT, COUNT, JSON_VALUE, RANDOM_ID, SHA256, TEXT, TIME, WORD, WORDS } from "./value_schemas.ts";

/** The most characters of an instruction. */
export const MAX_INSTRUCTION_CHARS = 100_000;
/** The most bytes of an argument that an agent is started with: Linux takes 128 KiB, names of databases are added. */
export const MAX_ARGUMENT_BYTES = 124 << 10;
/** The most bytes of an instruction in UTF-8; the rest is for the failed checks that a retry describes. */
const MAX_INSTRUCTION_BYTES = 112 << 10;

/** The most databases of a task. */
export const MAX_DATABASES = 16;

const name = v.pipe(WORD, v.minLength(1));
const port = v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(65_535));

/** What a person asks for. It travels as one value, from the command line to the sandbox and the pull request. */
export const SUBMIT_REQUEST = v.strictObject({
  /** A URL, `host/owner/repo`, or a path of this machine. */
  repo: name,
  instruction: v.pipe(
    v.string(),
    v.minLength(1),
    v.maxLength(MAX_INSTRUCTION_CHARS),
    v.maxBytes(MAX_INSTRUCTION_BYTES),
  ),
  /** By either of its names; `default_agent` when absent. */
  agent: v.exactOptional(name),
  model: v.exactOptional(name),
  /** The branch or commit to start from. */
  base: v.exactOptional(name),
  /** Hosts and ports in addition to those of egress.yaml. */
  egress_extra: v.exactOptional(v.pipe(
    v.array(v.strictObject({ host: name, ports: v.pipe(v.array(port), v.minLength(1), v.maxLength(64)) })),
    v.maxLength(256),
  )),
  /** Whether a person must acknowledge it in any case. */
  sensitive: v.exactOptional(v.boolean()),
  /** Whether the pull request is opened as a draft. */
  draft: v.exactOptional(v.boolean()),
  /** `os/arch` of the sandbox, when it is not the host's own. */
  platform: v.exactOptional(name),
  /** Most that the task may spend, in US dollars, in the place of `task_budget_usd`, which it may not exceed. */
  budget_usd: v.exactOptional(v.pipe(AMOUNT, v.gtValue(0))),
  /** Databases of the branch store that the task gets a branch of. */
  databases: v.exactOptional(v.pipe(v.array(name), v.maxLength(MAX_DATABASES))),
});
export type SubmitRequest = v.InferOutput<typeof SUBMIT_REQUEST>;

/** A request that the broker itself makes, too: the instruction of a retry also describes failed checks. */
const REPEATED = v.object({ ...SUBMIT_REQUEST.entries, instruction: TEXT });

/** What was asked for, as it is in the first row of a trace. */
export const TASK_ORDER = v.strictObject({
  ...REPEATED.entries,
  id: RANDOM_ID,
  /** `agent_a` to `agent_d`. */
  agent: WORD,
  /** The task that this one repeats. */
  retry_of: v.exactOptional(WORD),
  /** Which retry after a failed check this is, from 1; absent when a person asked for the task. */
  ci_attempt: v.exactOptional(v.pipe(COUNT, v.minValue(1))),
  /** The item of the queue that it was made of. */
  queue_id: v.exactOptional(RANDOM_ID),
  /**
   * Present when it was submitted over `broker.addr` or `broker.api_addr`, or repeats a task that was: its repository has
   * to be public.
   */
  over_network: v.exactOptional(v.literal(true)),
  /** Whose API token it was submitted with; that of the first task for a retry after a failed check. */
  submitted_by: v.exactOptional(DECIDER),
});
export type TaskOrder = v.InferOutput<typeof TASK_ORDER>;

/** The request that asks for the same again. */
export function requestOf(order: TaskOrder): SubmitRequest {
  return v.parse(REPEATED, order);
}

/** What a task has spent. */
export const SPEND = v.strictObject({
  usd: AMOUNT,
  requests: COUNT,
  /** Requests whose cost is not known, or not all of it. */
  unmetered_requests: COUNT,
  input_tokens: COUNT,
  output_tokens: COUNT,
  /** Whether `usd` covers every request. */
  priced: v.boolean(),
});
export type SpendFigures = v.InferOutput<typeof SPEND>;

/** A push that is about to be tried. */
const PUSH_ATTEMPT = v.strictObject({
  /** URL without credentials. */
  remote: WORD,
  branch: WORD,
  commit: WORD,
});
export type PushAttempt = v.InferOutput<typeof PUSH_ATTEMPT>;

/** The result of the watch of a pushed change, or what it has seen so far. */
const CI_OBSERVATION = v.strictObject({
  state: v.picklist(["pending", "passed", "failed", "no_checks", "no_conclusion"]),
  detail: v.exactOptional(TEXT),
});
export type CiObservation = v.InferOutput<typeof CI_OBSERVATION>;

/** The most characters of output in one row; more is cut, and says so. */
export const MAX_OUTPUT_CHARS = 16_384;

/** What a row of each type has beside its head. */
export const ROW_EVENTS = {
  created: v.strictObject({ task: TASK_ORDER }),
  stage: LOOSE_MOVE,
  /** One established fact for the trust brief; a later one of the same name replaces it. */
  evidence: v.strictObject({ name: WORD, value: JSON_VALUE }),
  push_attempt: PUSH_ATTEMPT,
  spend: v.strictObject({ spend: SPEND }),
  ci: CI_OBSERVATION,
  note: v.strictObject({ text: TEXT }),
  /** A crash left this many bytes of a row that nothing had acted on; they were cut off. */
  cut: v.strictObject({ bytes: COUNT }),
  output: v.strictObject({
    channel: v.picklist(["stdout", "stderr", "setup"]),
    text: v.pipe(v.string(), v.maxLength(MAX_OUTPUT_CHARS)),
    cut_chars: v.exactOptional(COUNT),
  }),
  /** USD, as the agent printed it: shown as a claim, never added to anything. */
  claimed: v.strictObject({ usd: AMOUNT }),
};

/** What is known of a task. */
export const TASK_RECORD = v.strictObject({
  ...TASK_ORDER.entries,
  stage: STAGE,
  /** Present once it is done. */
  outcome: v.exactOptional(OUTCOME),
  /** Why it ended so, or waits. */
  reason: v.exactOptional(TEXT),
  created_at: TIME,
  /** Of the last row. */
  updated_at: TIME,
  /** When it came to its stage. */
  stage_since: TIME,
  /** Metered by the broker; absent when nothing was metered. */
  spend: v.exactOptional(SPEND),
  /** USD that the agent claims to have spent, never added to anything. */
  claimed_usd: v.exactOptional(AMOUNT),
  /** Of the change that is or was at the gate. */
  diff_sha256: v.exactOptional(SHA256),
  /** What the gate asks for; stays after it was passed. */
  gate: v.exactOptional(GATE),
  /** Categories that the approver has acknowledged; present once it was approved. */
  acknowledgements: v.exactOptional(WORDS),
  /** The approval, once there is one, when it was, and whose. */
  approval: v.exactOptional(v.strictObject({ ...APPROVAL.entries, at: TIME, by: v.exactOptional(DECIDER) })),
  /** Who denied it, gave it up, or ended it before the gate. */
  ended_by: v.exactOptional(DECIDER),
  /** The last time that a person asked for another round of the push, and who. */
  push_asked: v.exactOptional(v.strictObject({ at: TIME, by: DECIDER })),
  /** What was decided last of conflicts that were met between the push and the data. */
  decisions: v.exactOptional(DECISIONS),
  /** Branches that pushes were begun to, the last one last; each may have arrived. */
  push_attempts: v.array(PUSH_ATTEMPT),
  /** When the last of them was begun. */
  push_begun_at: v.exactOptional(TIME),
  /** What is known to be pushed. */
  pushed: v.exactOptional(PUSHED),
  /** The last thing seen of the pushed change's checks. */
  ci: v.exactOptional(CI_OBSERVATION),
  /** Facts for the trust brief, by name; without a prototype. */
  evidence: v.record(v.string(), JSON_VALUE),
  /** Number of its last row. */
  seq: COUNT,
});
export type TaskRecord = v.InferOutput<typeof TASK_RECORD>;

/** Names that the egress proxy refused to a task, with why; the last ones. */
export const REFUSED_EGRESS = v.array(
  v.strictObject({ target: v.string(), reason: v.string(), hint: v.exactOptional(v.string()) }),
);
export type RefusedEgress = v.InferOutput<typeof REFUSED_EGRESS>;

/** The disk space that a task was found to take at its most, in bytes, and what it may take. */
export const DISK_USE = v.strictObject({ peak_bytes: COUNT, limit_bytes: COUNT });
export type DiskUse = v.InferOutput<typeof DISK_USE>;

/** Hosts that a person opened to a task while it ran, beside the egress list, the first one first. */
export const EGRESS_GRANTS = v.array(v.strictObject({
  /** `host:port`. */
  target: WORD,
  at: TIME,
  /** Milliseconds from then on. */
  for_ms: COUNT,
  /** The most uses; absent when there is no bound. */
  uses: v.exactOptional(COUNT),
  /** Connections and plain requests that it let through, as they stood when the row was written. */
  used: COUNT,
  by: v.exactOptional(DECIDER),
}));
export type EgressGrants = v.InferOutput<typeof EGRESS_GRANTS>;

const { id, repo, agent, model, retry_of, ci_attempt, queue_id, created_at, updated_at, claimed_usd, reason } =
  TASK_RECORD.entries;
const { usd, requests, unmetered_requests, priced } = SPEND.entries;

/** A task in a list: a few hundred bytes of its record. */
export const TASK_SUMMARY = v.strictObject({
  id,
  repo,
  /** The beginning of the instruction, on one line, safe to show. */
  instruction: TEXT,
  agent,
  model,
  stage: STAGE,
  outcome: v.exactOptional(OUTCOME),
  /** The beginning of the reason, on one line, safe to show. */
  reason,
  created_at,
  updated_at,
  /** Metered by the broker; absent when nothing was metered. */
  spend: v.exactOptional(v.strictObject({ usd, requests, unmetered_requests, priced })),
  /** The agent's own claim; absent where the broker has metered. */
  claimed_usd,
  retry_of,
  ci_attempt,
  queue_id,
});
export type TaskSummary = v.InferOutput<typeof TASK_SUMMARY>;

/** How one command of a profile ended, by its exit code alone. */
const COMMAND_EVIDENCE = v.strictObject({
  phase: v.picklist(["setup", "readiness"]),
  command: v.pipe(v.array(v.string()), v.readonly()),
  status: v.picklist(["passed", "failed", "timed_out", "not_run"]),
  /** Absent when it was ended. */
  exit_code: v.exactOptional(v.number()),
  duration_ms: v.number(),
});
export type CommandEvidence = v.InferOutput<typeof COMMAND_EVIDENCE>;

/** The result of the setup phase. */
const SETUP_EVIDENCE = v.strictObject({
  commands: v.array(COMMAND_EVIDENCE),
  cache: v.strictObject({
    participation: v.picklist(["hit", "miss", "disabled", "disabled: no lockfile"]),
    /** First digits of the entry's key. */
    key_prefix: v.exactOptional(v.string()),
  }),
});
export type SetupEvidence = v.InferOutput<typeof SETUP_EVIDENCE>;

/** The change, as far as a person needs it. */
const BRIEF_DIFF = v.strictObject({
  tree: v.string(),
  files_changed: COUNT,
  lines_changed: COUNT,
  /** Files of the diff's text, in which a rename is one and a change of type two; absent from older briefs. */
  diff_files: v.exactOptional(COUNT),
  /** The first thousand. */
  files: v.array(v.strictObject({
    path: v.string(),
    status: v.picklist(["added", "modified", "deleted", "type_changed"]),
    added: COUNT,
    deleted: COUNT,
    binary: v.boolean(),
    /** What an added file was made from; both paths count for the policy. */
    from: v.exactOptional(v.strictObject({
      kind: v.picklist(["renamed", "copied"]),
      path: v.string(),
      similarity: COUNT,
    })),
  })),
});
export type BriefDiff = v.InferOutput<typeof BRIEF_DIFF>;

/** One category that has to be acknowledged. */
const BRIEF_FLAG = v.strictObject({
  category: v.string(),
  reason: v.string(),
  /** How many paths. */
  count: COUNT,
  /** The first hundred, with more on each where there is more to say. */
  paths: v.array(v.strictObject({ path: v.string(), detail: v.exactOptional(v.string()) })),
});
export type BriefFlag = v.InferOutput<typeof BRIEF_FLAG>;

/** What the broker established. Strings may hold anything that a task can write: sanitise to show them. */
export const TRUST_BRIEF = v.strictObject({
  version: v.literal(1),
  task_id: v.string(),
  /** SHA-256 of the instruction's UTF-8. */
  instruction_sha256: SHA256,
  repo: v.string(),
  base_commit: v.nullable(v.string()),
  runtime: v.nullable(v.string()),
  image: v.nullable(v.string()),
  image_digest: v.nullable(v.string()),
  agent: v.string(),
  model: v.nullable(v.string()),
  policy_hash: v.nullable(v.string()),
  budget_usd: v.nullable(AMOUNT),
  spend: v.nullable(SPEND),
  diff: v.nullable(BRIEF_DIFF),
  flags: v.array(BRIEF_FLAG),
  violations: v.array(v.variant("rule", [
    v.strictObject({
      rule: v.picklist(["max_files_changed", "max_lines_changed"]),
      limit: COUNT,
      found: COUNT,
      message: v.string(),
    }),
    v.strictObject({
      rule: v.literal("blocked_paths"),
      glob: v.string(),
      paths: v.array(v.string()),
      found: COUNT,
      message: v.string(),
    }),
    v.strictObject({ rule: v.literal("checks"), check: v.string(), message: v.string() }),
  ])),
  setup: v.nullable(SETUP_EVIDENCE),
  /** Absent when the task has no databases. */
  databases: v.exactOptional(v.array(BRIEF_DATABASE)),
  /** Present when a person opened hosts to it while it ran. */
  egress_grants: v.exactOptional(EGRESS_GRANTS),
  /** What could not be established, one sentence each. */
  missing_evidence: v.array(v.string()),
});
export type TrustBrief = v.InferOutput<typeof TRUST_BRIEF>;

/**
 * The rows of a trace: what can happen to a task, and how it is written down as one
 * JSON line. Lines are chained: each names the SHA-256 of the line before, newline
 * included, so that `sed -n 3p trace | sha256sum` is what row 4 has as `prev`.
 *
 * What came from an agent has `src` `agent` and can be nothing but output and the
 * agent's own claim of its cost; everything that decides about a task is `broker`'s.
 * Control and direction characters are written as JSON escapes, so that a trace is
 * safe to show on a terminal.
 *
 * @module
 */

import { createHash } from "node:crypto";
import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { escapeJson } from "../../lib/text/sanitize.ts";
import { type Gate, isStage, type Move, type Outcome, OUTCOMES, type Pushed, type Stage } from "./stages.ts";

/** The most characters of a field that is never cut: an instruction, a reason. */
const MAX_TEXT_CHARS = 131_072;
/** The most characters of output in one row; more is cut, and says so. */
export const MAX_OUTPUT_CHARS = 16_384;
/** The most bytes of a line: text of the greatest length, every character escaped, and room for the rest. */
export const MAX_LINE_BYTES = 1_048_576;
/** What the first row has as `prev`. */
export const NO_PREVIOUS: string = "0".repeat(64);

/** A value of JSON. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** What was asked for. */
export interface TaskOrder {
  id: string;
  /** As it was given. */
  repo: string;
  instruction: string;
  /** `agent_a` to `agent_d`. */
  agent: string;
  model?: string;
  /** The branch or commit to start from. */
  base?: string;
  /** Hosts and ports besides those of the list. */
  egress_extra?: { host: string; ports: number[] }[];
  sensitive?: boolean;
  /** Whether the pull request is opened as a draft. */
  draft?: boolean;
  platform?: string;
  /** Databases of the branch store that the task gets a branch of. */
  databases?: string[];
  /** The task that this one repeats. */
  retry_of?: string;
  /** Which retry after a failed check this is, from 1; absent when a person asked for the task. */
  ci_attempt?: number;
  /** The item of the queue that it was made of. */
  queue_id?: string;
}

/** What a task has spent. */
export interface SpendFigures {
  usd: number;
  requests: number;
  /** Requests whose cost is not known, or not all of it. */
  unmetered_requests: number;
  input_tokens: number;
  output_tokens: number;
  /** Whether `usd` covers every request. */
  priced: boolean;
}

/** A push that is about to be tried. */
export interface PushAttempt {
  /** URL without credentials. */
  remote: string;
  branch: string;
  commit: string;
}

/** What the watch of a pushed change came to, or has seen so far. */
export interface CiObservation {
  state: "pending" | "passed" | "failed" | "no_checks" | "no_conclusion";
  detail?: string;
}

/** What the broker writes down. */
export type BrokerEvent =
  | { type: "created"; task: TaskOrder }
  | { type: "stage" } & Move
  /** One established fact for the trust brief; a later one of the same name replaces it. */
  | { type: "evidence"; name: string; value: Json }
  | { type: "push_attempt" } & PushAttempt
  | { type: "spend"; spend: SpendFigures }
  | { type: "ci" } & CiObservation
  | { type: "note"; text: string }
  /** A crash left this many bytes of a row that nobody had acted on; they were cut off. */
  | { type: "cut"; bytes: number };

/** What is written down on behalf of an agent. */
export type AgentEvent =
  | { type: "output"; channel: "stdout" | "stderr" | "setup"; text: string; cut_chars?: number }
  /** USD, as the agent printed it: shown as a claim, never added to anything. */
  | { type: "claimed"; usd: number };

/** Either. */
export type TaskEvent = BrokerEvent | AgentEvent;

/** What every row has besides its event. */
export interface RowHead {
  v: 1;
  /** Counts from 1. */
  seq: number;
  /** ISO 8601 UTC, of the wall clock; may step back. */
  ts: string;
  src: "broker" | "agent";
  /** SHA-256 of the line before, newline included, in hex. */
  prev: string;
}

/** A stage row as read: its move may be any. */
export interface StageEvent {
  type: "stage";
  from: Stage;
  to: Stage;
  outcome?: Outcome;
  reason?: string;
  gate?: Gate;
  approval?: { diff_sha256: string; acknowledged: string[] };
  diff_sha256?: string;
  pushed?: Pushed;
}

/** A row as it is read. */
export type Row = RowHead & (Exclude<TaskEvent, { type: "stage" }> | StageEvent);

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const amount = v.pipe(v.number(), v.finite(), v.minValue(0));
const text = v.pipe(v.string(), v.maxLength(MAX_TEXT_CHARS));
const word = v.pipe(v.string(), v.maxLength(4_096));
const words = v.pipe(v.array(word), v.maxLength(1_024));
const sha256 = v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/));
const stage = v.pipe(v.string(), v.check(isStage, "no stage"));
const outcome = v.picklist(Object.keys(OUTCOMES));
const json: v.GenericSchema<Json> = v.lazy(() =>
  v.union([v.null(), v.boolean(), v.number(), v.string(), v.array(json), v.record(v.string(), json)])
);

const order = v.strictObject({
  id: v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/)),
  repo: word,
  instruction: text,
  agent: word,
  model: v.exactOptional(word),
  base: v.exactOptional(word),
  egress_extra: v.exactOptional(
    v.pipe(v.array(v.strictObject({ host: word, ports: v.pipe(v.array(count), v.maxLength(64)) })), v.maxLength(1_024)),
  ),
  sensitive: v.exactOptional(v.boolean()),
  draft: v.exactOptional(v.boolean()),
  platform: v.exactOptional(word),
  databases: v.exactOptional(words),
  retry_of: v.exactOptional(word),
  ci_attempt: v.exactOptional(v.pipe(count, v.minValue(1))),
  queue_id: v.exactOptional(v.pipe(v.string(), v.regex(/^[0-9a-f]{32}$/))),
});

const spend = v.strictObject({
  usd: amount,
  requests: count,
  unmetered_requests: count,
  input_tokens: count,
  output_tokens: count,
  priced: v.boolean(),
});

const FIELDS = {
  created: { task: order },
  stage: {
    from: stage,
    to: stage,
    outcome: v.exactOptional(outcome),
    reason: v.exactOptional(text),
    gate: v.exactOptional(v.strictObject({ diff_sha256: sha256, second_look: words, timeout_ms: count })),
    approval: v.exactOptional(v.strictObject({ diff_sha256: sha256, acknowledged: words })),
    diff_sha256: v.exactOptional(sha256),
    pushed: v.exactOptional(v.strictObject({ branch: word, commit: word, pull_request: v.exactOptional(word) })),
  },
  evidence: { name: word, value: json },
  push_attempt: { remote: word, branch: word, commit: word },
  spend: { spend },
  ci: {
    state: v.picklist(["pending", "passed", "failed", "no_checks", "no_conclusion"]),
    detail: v.exactOptional(text),
  },
  note: { text },
  cut: { bytes: count },
  output: {
    channel: v.picklist(["stdout", "stderr", "setup"]),
    text: v.pipe(v.string(), v.maxLength(MAX_OUTPUT_CHARS)),
    cut_chars: v.exactOptional(count),
  },
  claimed: { usd: amount },
} as const;

const OF_AGENT: ReadonlySet<string> = new Set<AgentEvent["type"]>(["output", "claimed"]);

const SCHEMAS: ReadonlyMap<string, v.GenericSchema> = new Map(
  Object.entries(FIELDS).map(([type, fields]) => [
    type,
    v.strictObject({
      v: v.literal(1),
      seq: v.pipe(count, v.minValue(1)),
      ts: v.pipe(v.string(), v.isoTimestamp()),
      src: v.literal(OF_AGENT.has(type) ? "agent" : "broker"),
      type: v.literal(type),
      ...fields,
      prev: sha256,
    }),
  ]),
);

/** A row and the line that it is written as. */
export interface EncodedRow {
  row: Row;
  /** With its newline. */
  line: Uint8Array;
  /** SHA-256 of `line`: the next row's `prev`. */
  sha256: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** SHA-256 in hex. */
export function sha256Hex(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** Output is bounded by cutting: losing a task over what its agent prints would let the agent decide. */
function bounded(event: TaskEvent): TaskEvent {
  if (event.type !== "output" || event.text.length <= MAX_OUTPUT_CHARS) return event;
  const kept = event.text.slice(0, MAX_OUTPUT_CHARS).toWellFormed();
  return { ...event, text: kept, cut_chars: event.text.length - kept.length + (event.cut_chars ?? 0) };
}

/**
 * Writes `event` as the row that follows the one with `prev`.
 *
 * @param at Its number, and the wall clock's milliseconds.
 * @throws {TaskdError} `invalid_request` when a field breaks its limits; `too_large` when the line would.
 */
export function encodeRow(event: TaskEvent, at: { seq: number; now_ms: number; prev: string }): EncodedRow {
  const { type, ...fields } = bounded(event);
  const head = { v: 1, seq: at.seq, ts: new Date(at.now_ms).toISOString() };
  const whole = { ...head, src: OF_AGENT.has(type) ? "agent" : "broker", type, ...fields, prev: at.prev };
  const line = encoder.encode(escapeJson(JSON.stringify(whole)) + "\n");
  if (line.length > MAX_LINE_BYTES) {
    throw new TaskdError("too_large", `Cannot write a ${type} row: it has ${line.length} of ${MAX_LINE_BYTES} bytes`);
  }
  const parsed = parseLine(line);
  if (typeof parsed === "string") throw new TaskdError("invalid_request", `Cannot write a ${type} row: ${parsed}`);
  return { row: parsed, line, sha256: sha256Hex(line) };
}

/** The row that `line` holds; otherwise what is wrong with it. */
export function parseLine(line: Uint8Array): Row | string {
  let value: unknown;
  try {
    value = JSON.parse(decoder.decode(line));
  } catch {
    return "it is not JSON";
  }
  const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
  const schema = typeof type === "string" ? SCHEMAS.get(type) : undefined;
  if (schema === undefined) return "it has no known type";
  const result = v.safeParse(schema, value, { abortEarly: true });
  if (result.success) return result.output as Row;
  const issue = result.issues[0];
  return `${v.getDotPath(issue) ?? "it"}: ${issue.message.slice(0, 200)}`;
}

/**
 * The rows of a trace: what can happen to a task, and how it is written down as one JSON line. Lines are chained: each
 * names the SHA-256 of the line before, newline included, so that `sed -n 3p trace | sha256sum` is what row 4 has as
 * `prev`. And each has a checksum of its own, which proves the last one, too.
 *
 * What came from an agent has `src` `agent` and can be nothing but output and the agent's own claim of its cost;
 * everything that decides about a task is `broker`'s. Control and direction characters are written as JSON escapes, so
 * that a trace is safe to show on a terminal.
 */

import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import { sealJson, unsealJson } from "../../lib/sealed_json.ts";
import { escapeJson } from "../../lib/text/sanitize.ts";
import { MAX_OUTPUT_CHARS, ROW_EVENTS } from "./schema.ts";
import type { Move } from "./stages.ts";
import { COUNT, SHA256, TIME } from "./value_schemas.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/** The most bytes of a line: text of the greatest length, every character escaped, and room for the rest. */
export const MAX_LINE_BYTES = 1_048_576;
export const NO_PREVIOUS: string = "0".repeat(64);

type EventOf<T extends keyof typeof ROW_EVENTS> = {
  [N in T]: { type: N } & v.InferOutput<(typeof ROW_EVENTS)[N]>;
}[T];

export type AgentEvent = EventOf<"output" | "claimed">;

export type BrokerEvent =
  | { type: "stage" } & Move
  | EventOf<Exclude<keyof typeof ROW_EVENTS, AgentEvent["type"] | "stage">>;

export type TaskEvent = BrokerEvent | AgentEvent;

export interface RowHead {
  v: 1;
  seq: number;
  /** ISO 8601 UTC, of the wall clock; may step back. */
  ts: string;
  src: "broker" | "agent";
  /** SHA-256 of the line before, newline included, in hex. */
  prev: string;
}

/** A row as it is read: its move may be any. */
export type Row = RowHead & EventOf<keyof typeof ROW_EVENTS>;

const OF_AGENT: ReadonlySet<string> = new Set<AgentEvent["type"]>(["output", "claimed"]);

const SCHEMAS: ReadonlyMap<string, v.GenericSchema> = new Map(
  Object.entries(ROW_EVENTS).map(([type, { entries }]) => [
    type,
    v.strictObject({
      v: v.literal(1),
      seq: v.pipe(COUNT, v.minValue(1)),
      ts: TIME,
      src: v.literal(OF_AGENT.has(type) ? "agent" : "broker"),
      type: v.literal(type),
      ...entries,
      prev: SHA256,
    }),
  ]),
);

export interface EncodedRow {
  row: Row;
  line: Uint8Array;
  /** SHA-256 of `line`: the next row's `prev`. */
  sha256: string;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

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
  const line = encoder.encode(sealJson(escapeJson(JSON.stringify(whole))) + "\n");
  if (line.length > MAX_LINE_BYTES) {
    throw new TaskdError("too_large", `Cannot write a ${type} row: it has ${line.length} of ${MAX_LINE_BYTES} bytes`);
  }
  const parsed = parseLine(line);
  if (typeof parsed === "string") throw new TaskdError("invalid_request", `Cannot write a ${type} row: ${parsed}`);
  return { row: parsed, line, sha256: sha256Hex(line) };
}

export function parseLine(line: Uint8Array): Row | string {
  let value: unknown;
  try {
    const unsealed = unsealJson(decoder.decode(line));
    if (unsealed === undefined) return "its checksum does not match";
    value = JSON.parse(unsealed.json);
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

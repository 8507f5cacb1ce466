/**
 * Parts that the tests of tasks share: orders, made-up lives of tasks that keep
 * to the table of stages, and traces written at once without waiting for the disk.
 */

import type { SeededRandom } from "../../support/writers/random.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { foldRow } from "../../../broker/task/record.ts";
import { type EncodedRow, encodeRow, NO_PREVIOUS, type Row, type TaskEvent } from "../../../broker/task/rows.ts";
import type { TaskOrder, TaskRecord } from "../../../broker/task/schema.ts";
import { isWaiting, type Move, type Stage, STAGES } from "../../../broker/task/stages.ts";
import { tracePath } from "../../../broker/task/trace.ts";

/** A digest of some diff. */
export const SHA = "d1".repeat(32);
/** The start of the virtual time. */
export const START_MS: number = Date.UTC(2026, 0, 1);

/** An order with the least there may be in one. */
export function someOrder(id: string, more: Partial<TaskOrder> = {}): TaskOrder {
  return { id, repo: "example.com/o/r", instruction: "Fix the test", agent: "agent_a", ...more };
}

/** The way to the gate. */
export const TO_THE_GATE: readonly Move[] = [
  { from: "admission", to: "staging" },
  { from: "staging", to: "running" },
  { from: "running", to: "collecting" },
  {
    from: "collecting",
    to: "awaiting_approval",
    gate: { diff_sha256: SHA, second_look: ["ci_files", "lockfile"], timeout_ms: 60_000 },
  },
];

/** The consent that {@linkcode TO_THE_GATE} asks for. */
export const APPROVED: Move = {
  from: "awaiting_approval",
  to: "pushing",
  approval: { diff_sha256: SHA, acknowledged: ["ci_files", "lockfile"] },
};

/** The lines of a trace with these events, a second apart. */
export function encodeAll(events: readonly TaskEvent[], start_ms: number = START_MS): EncodedRow[] {
  const rows: EncodedRow[] = [];
  for (const event of events) {
    const prev = rows.at(-1)?.sha256 ?? NO_PREVIOUS;
    rows.push(encodeRow(event, { seq: rows.length + 1, now_ms: start_ms + rows.length * 1_000, prev }));
  }
  return rows;
}

/** The whole file of {@linkcode encodeAll}'s lines. */
export function fileOf(rows: readonly EncodedRow[]): Uint8Array {
  const parts = rows.map(({ line }) => line);
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Writes a trace as a broker of the past would have left it. */
export function plantTrace(audit_root: string, events: readonly TaskEvent[], start_ms?: number): EncodedRow[] {
  const rows = encodeAll(events, start_ms);
  const first = events[0];
  if (first?.type !== "created") throw new Error("a trace begins with what was asked for");
  Deno.writeFileSync(tracePath(audit_root, first.task.id), fileOf(rows), { mode: 0o600 });
  return rows;
}

/** A stage row. */
export function staged(move: Move): TaskEvent {
  return { type: "stage", ...move };
}

/** A move from `stage` that `random` picks among those of the table; undefined from the last one. */
function anyMove(stage: Stage, random: SeededRandom): Move | undefined {
  const { next, ends }: { next: readonly string[]; ends: readonly string[] } = STAGES[stage];
  const choices = [...next, ...ends];
  if (choices.length === 0) return undefined;
  const choice = random.pick(choices);
  const pushed = { branch: "agent/1", commit: "c0ffee" };
  const gate = { diff_sha256: SHA, second_look: ["binary"], timeout_ms: random.pick([0, 5_000]) };
  const cargo: Record<string, object> = {
    awaiting_approval: { gate, ...(stage === "pushing" ? { reason: "the base has moved" } : {}) },
    awaiting_ci: { pushed },
    pushing: isWaiting(stage)
      ? { reason: "another round" }
      : { approval: { diff_sha256: SHA, acknowledged: ["binary"] } },
    push_failed: { reason: "the host is away" },
    data_waits: { pushed, reason: "the base has moved" },
  };
  const move = next.includes(choice) ? { from: stage, to: choice, ...cargo[choice] } : {
    from: stage,
    to: "done",
    outcome: choice,
    reason: "as it happens",
    ...(choice === "pushed" ? { pushed } : {}),
  };
  return move as Move;
}

/** A whole life of a task, to its end. */
export function anyLife(id: string, random: SeededRandom): TaskEvent[] {
  const events: TaskEvent[] = [{ type: "created", task: someOrder(id) }];
  let stage: Stage = "admission";
  let requests = 0;
  for (let move = anyMove(stage, random); move !== undefined; move = anyMove(stage, random)) {
    for (let extra = random.between(0, 3); extra > 0; extra--) {
      const spend = { usd: ++requests / 8, requests, unmetered_requests: 0, input_tokens: 9, output_tokens: 1 };
      events.push(random.pick<TaskEvent>([
        { type: "spend", spend: { ...spend, priced: true } },
        { type: "output", channel: "stdout", text: "\u001b[31mred" },
        { type: "evidence", name: "image", value: { id: "sha256:1" } },
        { type: "claimed", usd: 99 },
        { type: "note", text: "n" },
        { type: "cut", bytes: 12 },
      ]));
    }
    if (stage === "pushing") {
      events.push({ type: "push_attempt", remote: "https://example.com/o/r", branch: "agent/1", commit: "c0ffee" });
    }
    events.push(staged(move));
    stage = move.to;
  }
  return events;
}

/**
 * The record after all of `rows`, which begin with the first of the trace.
 *
 * @throws {TaskdError} `corrupt` when a row cannot follow, or when there is none.
 */
export function foldRows(rows: Iterable<Row>): TaskRecord {
  let record: TaskRecord | undefined;
  for (const row of rows) record = foldRow(record, row);
  if (record === undefined) throw new TaskdError("corrupt", "Cannot follow the trace: it has no row");
  return record;
}

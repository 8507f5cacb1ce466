/**
 * Who may pass the gate, as pure functions. An approval names the diff that was read and every category that asks for a
 * second look; it is refused for a task that does not wait, for another diff, for a missing category, and after the
 * timeout. An expired gate is shut from that very moment, whether or not the denial is written down yet.
 */

import { TaskdError } from "../../lib/errors.ts";
import { NotAcknowledged } from "./not_acknowledged.ts";
import type { TaskRecord } from "./schema.ts";
import type { Move } from "./stages.ts";

export interface ApprovalRequest {
  /** SHA-256 of the diff that was read, in hex. */
  diff_sha256: string;
  /** Categories that were looked at. */
  acknowledge: readonly string[];
}

export interface GateTime {
  /** Wall-clock milliseconds. */
  now_ms: number;
  /** Milliseconds that this broker has seen the task wait, by the monotonic clock; 0 when it has not. */
  waited_ms?: number;
}

/**
 * Milliseconds until the gate shuts by itself, 0 or less when it has; undefined when it never does. The wall clock counts
 * through restarts; the monotonic one besides it, so that setting the clock back does not hold a gate open.
 */
export function gateExpiresIn(record: TaskRecord, time: GateTime): number | undefined {
  if (record.stage !== "awaiting_approval" || record.gate === undefined || record.gate.timeout_ms === 0) {
    return undefined;
  }
  const { timeout_ms } = record.gate;
  return Math.min(Date.parse(record.stage_since) + timeout_ms - time.now_ms, timeout_ms - (time.waited_ms ?? 0));
}

function requireOpen(record: TaskRecord, time: GateTime): void {
  if (record.stage !== "awaiting_approval") {
    const state = record.outcome === undefined ? `in ${record.stage}` : `done (${record.outcome})`;
    throw new TaskdError("wrong_state", `The task is ${state} and waits for no approval`);
  }
  const left_ms = gateExpiresIn(record, time);
  if (left_ms === undefined || left_ms > 0) return;
  throw new TaskdError("expired", "The task has waited longer than approval_timeout");
}

/**
 * The move that an approval makes.
 *
 * @throws {TaskdError} `wrong_state`, `expired`, `stale_diff`, or `not_acknowledged` as {@linkcode NotAcknowledged}.
 */
export function approvalMove(record: TaskRecord, request: ApprovalRequest, time: GateTime): Move {
  requireOpen(record, time);
  const { diff_sha256 = "", gate } = record;
  if (request.diff_sha256 !== diff_sha256) {
    throw new TaskdError("stale_diff", `The diff at the gate has the SHA-256 ${diff_sha256}: read that one`);
  }
  const acknowledged = new Set(request.acknowledge);
  const required = gate?.second_look ?? [];
  const missing = required.filter((category) => !acknowledged.has(category));
  if (missing.length > 0) throw new NotAcknowledged(missing, `Acknowledge also: ${missing.join(", ")}`);
  // What the gate does not ask for is not written down as looked at.
  return { from: "awaiting_approval", to: "pushing", approval: { diff_sha256, acknowledged: [...required] } };
}

/**
 * The move that a denial makes; `reason` is the person's own.
 *
 * @throws {TaskdError} `wrong_state` or `expired`.
 */
export function denialMove(record: TaskRecord, reason: string, time: GateTime): Move {
  requireOpen(record, time);
  return denied(reason);
}

export function expiryMove(record: TaskRecord): Move {
  return denied(`it was not approved within approval_timeout (${record.gate?.timeout_ms ?? 0} ms)`);
}

function denied(reason: string): Move {
  return { from: "awaiting_approval", to: "done", outcome: "denied", reason };
}

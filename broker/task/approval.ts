/**
 * Who may pass the gate, as pure functions: approving names the diff that was read and
 * every category that asks for a second look. What is not waiting, is not that diff or
 * has waited too long is refused with 409, what misses a category with 422. An
 * expired gate is shut from the very moment, whether or not anybody has written the
 * denial down yet.
 *
 * @module
 */

import type { TaskRecord } from "./schema.ts";
import type { Move } from "./stages.ts";

/** What an approver says. */
export interface ApprovalRequest {
  /** SHA-256 of the diff that was read, in hex. */
  diff_sha256: string;
  /** Categories that were looked at. */
  acknowledge: readonly string[];
}

/** The answer to an approver, with the status it has over HTTP. */
export type GateAnswer =
  /** Make this move; the answer counts once its row is written. */
  | { status: 204; move: Move }
  | { status: 409; code: "wrong_state" | "stale_diff" | "expired"; detail: string }
  | { status: 422; code: "not_acknowledged"; missing: string[]; detail: string };

/** The time, as far as it concerns a gate. */
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

/** Why the gate cannot be passed in either direction; undefined when it can. */
function shut(record: TaskRecord, time: GateTime): GateAnswer | undefined {
  if (record.stage !== "awaiting_approval") {
    const stands = record.outcome === undefined ? `in ${record.stage}` : `done (${record.outcome})`;
    return { status: 409, code: "wrong_state", detail: `The task is ${stands} and waits for no approval` };
  }
  const left_ms = gateExpiresIn(record, time);
  if (left_ms === undefined || left_ms > 0) return undefined;
  return { status: 409, code: "expired", detail: "The task has waited longer than approval_timeout" };
}

/** Judges a consent. */
export function judgeApproval(record: TaskRecord, request: ApprovalRequest, time: GateTime): GateAnswer {
  const closed = shut(record, time);
  if (closed !== undefined) return closed;
  const { diff_sha256 = "", gate } = record;
  if (request.diff_sha256 !== diff_sha256) {
    const detail = `The diff at the gate has the SHA-256 ${diff_sha256}: read that one`;
    return { status: 409, code: "stale_diff", detail };
  }
  const given = new Set(request.acknowledge);
  const wanted = gate?.second_look ?? [];
  const missing = wanted.filter((category) => !given.has(category));
  if (missing.length > 0) {
    return { status: 422, code: "not_acknowledged", missing, detail: `Acknowledge also: ${missing.join(", ")}` };
  }
  // What nobody asked for is not written down as looked at.
  const approval = { diff_sha256, acknowledged: [...wanted] };
  return { status: 204, move: { from: "awaiting_approval", to: "pushing", approval } };
}

/** Judges a refusal; `reason` is the person's own. */
export function judgeDenial(record: TaskRecord, reason: string, time: GateTime): GateAnswer {
  return shut(record, time) ?? { status: 204, move: denied(reason) };
}

/** The denial of a task whose gate has expired. */
export function expiryMove(record: TaskRecord): Move {
  return denied(`nobody approved it within approval_timeout (${record.gate?.timeout_ms ?? 0} ms)`);
}

function denied(reason: string): Move {
  return { from: "awaiting_approval", to: "done", outcome: "denied", reason };
}

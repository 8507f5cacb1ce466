/**
 * Who may pass the gate, as pure functions. An approval names the diff that was read and every category that asks for a
 * second look; it is refused for a task that does not wait, for another diff, for a missing category, and after the
 * timeout. An expired gate is shut from that very moment, whether or not the denial is written down yet.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { DecideRequest } from "./database_schema.ts";
import { decide } from "./decisions.ts";
import { NotAcknowledged } from "./not_acknowledged.ts";
import type { TaskRecord } from "./schema.ts";
import type { Approval, Decider, Move, Seen } from "./stages.ts";

export interface ApprovalRequest {
  /** The digest of what was read, in hex. */
  diff_sha256: string;
  acknowledge: readonly string[];
  /** What was shown, as the client reports it. */
  seen?: Seen | undefined;
  /** What becomes of the gate's conflicts. */
  decide?: DecideRequest | undefined;
  by?: Decider | undefined;
}

export interface GateTime {
  now_ms: number;
  /** Milliseconds that this broker has seen the task wait, by the monotonic clock; 0 when it has not. */
  waited_ms?: number;
}

/**
 * Milliseconds until the gate shuts by itself, 0 or less when it has; undefined when it never does. The wall clock counts
 * through restarts; the monotonic one beside it, so that setting the clock back does not hold a gate open.
 */
export function gateExpiresIn(record: TaskRecord, time: GateTime): number | undefined {
  if (record.stage !== "awaiting_approval" || record.gate === undefined || record.gate.timeout_ms === 0) {
    return undefined;
  }
  const { timeout_ms } = record.gate;
  return Math.min(Date.parse(record.stage_since) + timeout_ms - time.now_ms, timeout_ms - (time.waited_ms ?? 0));
}

/** Where a task stands, after "it is". */
export function standing({ stage, outcome }: Pick<TaskRecord, "stage" | "outcome">): string {
  return outcome === undefined ? `in ${stage}` : `done (${outcome})`;
}

function requireOpen(record: TaskRecord, time: GateTime): void {
  if (record.stage !== "awaiting_approval") {
    throw new TaskdError("wrong_state", `The task ${record.id} is ${standing(record)} and waits for no approval`, {
      hint: "taskd pending lists the tasks that do",
    });
  }
  const left_ms = gateExpiresIn(record, time);
  if (left_ms === undefined || left_ms > 0) return;
  throw new TaskdError("expired", "The task has waited longer than approval_timeout");
}

/**
 * The move that an approval makes.
 *
 * @throws {TaskdError} `wrong_state`, `expired`, `stale_diff`, `not_acknowledged` as {@linkcode NotAcknowledged}, or
 * `invalid_request` for a decision of something that is not in conflict.
 */
export function approvalMove(record: TaskRecord, request: ApprovalRequest, time: GateTime): Move {
  requireOpen(record, time);
  const { diff_sha256 = "", gate } = record;
  if (request.diff_sha256 !== diff_sha256) {
    throw new TaskdError("stale_diff", `What is at the gate has the digest ${diff_sha256}: read that`);
  }
  const acknowledged = new Set(request.acknowledge);
  const required = gate?.second_look ?? [];
  const missing = required.filter((category) => !acknowledged.has(category));
  if (missing.length > 0) throw new NotAcknowledged(missing, `Acknowledge also: ${missing.join(", ")}`);
  // What the gate does not ask for is not written down as looked at.
  const { seen, by } = request;
  const decisions = decide(gate?.conflicts ?? [], request.decide);
  const approval: Approval = {
    diff_sha256,
    acknowledged: [...required],
    ...(seen === undefined ? {} : { seen }),
    ...(decisions.length === 0 ? {} : { decisions }),
  };
  return { from: "awaiting_approval", to: "pushing", approval, ...(by && { by }) };
}

/** The move that a denial makes; `reason` is the person's own; throws `wrong_state` or `expired`. */
export function denialMove(record: TaskRecord, reason: string, time: GateTime): Move {
  requireOpen(record, time);
  return denied(reason);
}

export function expiryMove(record: TaskRecord): Move {
  const reason = `it was not approved within approval_timeout (${record.gate?.timeout_ms ?? 0} ms)`;
  return { ...denied(reason), by: { via: "approval_timeout", who: "taskd" } };
}

function denied(reason: string): Move {
  return { from: "awaiting_approval", to: "done", outcome: "denied", reason };
}

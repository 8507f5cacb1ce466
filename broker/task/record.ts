/**
 * What is known of a task, derived from the rows of its trace and nothing else: every prefix of a trace gives the
 * record as it was then. A row that could not have followed is `corrupt`, never overlooked.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Row } from "./rows.ts";
import type { TaskRecord } from "./schema.ts";
import type { Json } from "./value_schemas.ts";
import { gateContradiction } from "./binding.ts";
import { isWaiting, moveProblem } from "./stages.ts";

const MAX_ENTRIES = 1_024;

function impossible(row: Row, problem: string): TaskdError {
  return new TaskdError("corrupt", `Cannot follow the trace at row ${row.seq}: ${problem}`, {
    hint: "The record cannot be trusted from there on",
  });
}

/**
 * The record after `row`.
 *
 * @param record As it was before; undefined before the first row. It is not changed.
 * @throws {TaskdError} `corrupt` when `row` cannot follow.
 */
export function foldRow(record: TaskRecord | undefined, row: Row): TaskRecord {
  if (record === undefined) {
    if (row.type !== "created") throw impossible(row, "it does not begin with what was asked for");
    const since = { created_at: row.ts, updated_at: row.ts, stage_since: row.ts };
    return { ...row.task, stage: "admission", ...since, push_attempts: [], evidence: noEvidence(), seq: row.seq };
  }
  if (row.seq !== record.seq + 1) throw impossible(row, `it follows row ${record.seq}`);
  if (record.stage === "done" && row.type !== "cut") throw impossible(row, "the task has ended before");
  const { reason, ...rest } = record;
  const { approval: _approval, acknowledgements: _acknowledgements, decisions: _decisions, ...unapproved } = rest;
  // What comes to the gate again is not approved, and nothing of it decided.
  const kept = row.type === "stage" && row.to === "awaiting_approval" ? unapproved : rest;
  // The reason is that of the stage which the task is in.
  const before = row.type === "stage" || reason === undefined ? kept : record;
  return { ...before, ...changes(record, row), updated_at: row.ts, seq: row.seq };
}

function noEvidence(): Record<string, Json> {
  // Without a prototype: `__proto__` is a name like any other.
  return Object.create(null);
}

function changes(record: TaskRecord, row: Row): Partial<TaskRecord> {
  switch (row.type) {
    case "created":
      throw impossible(row, "the task was created before");
    case "stage": {
      const problem = moveProblem(record.stage, row);
      if (problem !== undefined) throw impossible(row, problem);
      const { outcome, reason, gate, approval, pushed, by, decisions } = row;
      const diff_sha256 = gate?.diff_sha256;
      const contradiction = gate && gateContradiction(gate, row);
      if (contradiction !== undefined) throw impossible(row, contradiction);
      if (approval !== undefined && approval.diff_sha256 !== record.diff_sha256) {
        throw impossible(row, "another diff was approved than the one at the gate");
      }
      return {
        stage: row.to,
        stage_since: row.ts,
        ...(outcome === undefined ? {} : { outcome }),
        ...(reason === undefined ? {} : { reason }),
        ...(gate === undefined ? {} : { gate }),
        ...(diff_sha256 === undefined ? {} : { diff_sha256 }),
        ...(approval === undefined ? {} : {
          acknowledgements: approval.acknowledged,
          approval: { ...approval, at: row.ts, ...(by === undefined ? {} : { by }) },
        }),
        ...(by === undefined || row.to !== "done" ? {} : { ended_by: by }),
        ...(by === undefined || !isWaiting(row.from) || row.to !== "pushing" ? {} : { push_asked: { at: row.ts, by } }),
        ...(pushed === undefined ? {} : { pushed }),
        ...(decisions === undefined ? {} : { decisions }),
      };
    }
    case "evidence": {
      const evidence = Object.assign(noEvidence(), record.evidence);
      evidence[row.name] = row.value;
      if (Object.keys(evidence).length > MAX_ENTRIES) throw impossible(row, `it has over ${MAX_ENTRIES} facts`);
      return { evidence };
    }
    case "push_attempt": {
      if (record.stage !== "pushing") throw impossible(row, `nothing is pushed in ${record.stage}`);
      const { remote, branch, commit } = row;
      const others = record.push_attempts.filter((one) =>
        one.remote !== remote || one.branch !== branch || one.commit !== commit
      );
      if (others.length >= MAX_ENTRIES) throw impossible(row, `it has over ${MAX_ENTRIES} branches`);
      return { push_attempts: [...others, { remote, branch, commit }], push_begun_at: row.ts };
    }
    case "spend":
      return { spend: row.spend };
    case "claimed":
      return { claimed_usd: row.usd };
    case "ci":
      if (record.stage !== "awaiting_ci") throw impossible(row, `no checks are watched in ${record.stage}`);
      return { ci: { state: row.state, ...(row.detail === undefined ? {} : { detail: row.detail }) } };
    case "output":
    case "note":
    case "cut":
      return {};
  }
}

/**
 * What people get to see of tasks: from their traces, and from the files beside them.
 */

import * as v from "valibot";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { parseJson } from "../../lib/text/json.ts";
import { type PendingTask, taskLinks, type TaskView } from "../api/wire.ts";
import { fsyncDirectory } from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { gateExpiresIn } from "../task/approval.ts";
import {
  type DiskUse,
  type EgressGrants,
  type RefusedEgress,
  type SpendFigures,
  type TaskRecord,
  TRUST_BRIEF,
} from "../task/schema.ts";
import type { TaskStore } from "../task/task_store.ts";
import { readBytes } from "./kept_files.ts";
import { changeOf, diskOf, grantsOf, refusedOf } from "./trace_evidence.ts";
import { auditPaths } from "./task_paths.ts";
import { sha256Hex } from "../../lib/sha256.ts";

export interface LiveTask {
  spend: SpendFigures | undefined;
  refused_egress: RefusedEgress;
  egress_grants: EgressGrants;
  disk: DiskUse | undefined;
}

/** A whole record, with what `liveOf` returns once it has been read; throws `not_found` or `corrupt`. */
export async function taskView(tasks: TaskStore, id: string, liveOf: () => LiveTask | undefined): Promise<TaskView> {
  const verdict = await tasks.verify(id);
  const record = await tasks.load(id);
  const live = liveOf();
  const disk = live?.disk ?? diskOf(record);
  const grants = live?.egress_grants ?? grantsOf(record);
  return {
    ...record,
    ...(live?.spend === undefined ? {} : { live: live.spend }),
    trace: verdict.intact
      ? { intact: true, rows: verdict.head.seq }
      : { intact: false, fault: `row ${verdict.fault.seq} is ${verdict.fault.problem}: ${verdict.fault.detail}` },
    refused_egress: live?.refused_egress ?? refusedOf(record),
    ...(grants.length === 0 ? {} : { egress_grants: grants }),
    ...(disk === undefined ? {} : { disk }),
    links: taskLinks(id),
  };
}

export function pendingTask(record: TaskRecord, now_ms: number): PendingTask | undefined {
  const { id, repo, instruction, agent, stage, stage_since, gate, spend, sensitive = false } = record;
  if (stage !== "awaiting_approval" || gate === undefined) return undefined;
  const change = changeOf(record);
  const expires_in_ms = gateExpiresIn(record, { now_ms });
  return {
    id,
    repo,
    instruction,
    agent,
    since: stage_since,
    ...(expires_in_ms === undefined ? {} : { expires_in_ms: Math.max(0, expires_in_ms) }),
    gate,
    ...(spend === undefined ? {} : { spend }),
    files_changed: change?.files_changed ?? 0,
    lines_changed: change?.lines_changed ?? 0,
    sensitive,
  };
}

/**
 * The diff or the brief of a task.
 *
 * @throws {TaskdError} `not_found` while there is none; `altered` for one that is not what the broker wrote: a person
 * must not approve what another program has written.
 */
export async function keptFile(
  tasks: TaskStore,
  id: string,
  what: "diff" | "brief",
): Promise<Uint8Array<ArrayBuffer>> {
  const record = await tasks.load(id);
  const { stage, evidence } = record;
  const change = changeOf(record);
  try {
    if (what === "diff" && evidence.change === undefined) throw new TaskdError("not_found", "not collected yet");
    const path = auditPaths(tasks.audit_root, id)[what];
    const bytes = await readBytes(path);
    const sha256 = what === "diff" ? change?.shown_sha256 : change?.brief_sha256;
    // A brief is older than its digest in the trace, or of a task that ended before its change was collected.
    const intact = sha256 === undefined
      ? what === "brief" && (change !== undefined || evidence.change === undefined) &&
        v.is(TRUST_BRIEF, parseJson(bytes))
      : sha256Hex(bytes) === sha256;
    if (intact) return bytes;
    throw new TaskdError("altered", `Cannot show the ${what} of ${id}: ${path} is not what was collected`, {
      hint: "Deny the task, and look at who could write below audit_root",
    });
  } catch (error) {
    if (!hasCode(error, "not_found")) throw error;
    throw new TaskdError("not_found", `Cannot show the ${what} of ${id}: there is none, the task is in ${stage}`, {
      hint: stage === "done"
        ? "The task ended before its work was collected: taskd inspect says why"
        : "There is one once the agent's work has been collected",
    });
  }
}

export async function pruneTasks(
  tasks: TaskStore,
  { before_ms, dry_run, keep }: { before_ms: number; dry_run: boolean; keep: (task: { queue_id?: string }) => boolean },
): Promise<string[]> {
  const old = tasks.list({ stage: "done", limit: Infinity })
    .filter((task) => Date.parse(task.updated_at) < before_ms && !keep(task))
    .map(({ id }) => id);
  for (const id of dry_run ? [] : old) {
    // The trace last: until it is gone the task can be pruned again.
    for (const path of Object.values(auditPaths(tasks.audit_root, id))) await removeTree(path);
    await tasks.remove(id);
  }
  // What was reported as removed does not come back.
  if (!dry_run && old.length > 0) await fsyncDirectory(tasks.audit_root);
  return old;
}

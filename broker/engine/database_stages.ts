/**
 * A task's databases: what the engine does with them at each stage, and writes down.
 */

import { hasCode, messageOf, messageWithHint, TaskdError } from "../../lib/errors.ts";
import { plural } from "../../lib/text/plural.ts";
import { withFileError } from "../../lib/fs.ts";
import { proofOf } from "../databases/changeset_file.ts";
import { isProvable, pageLeaf } from "../task/page_proof.ts";
import { parseRepo } from "../git/repo_url.ts";
import type { TaskRecord } from "../task/schema.ts";
import type { BriefDatabase, DatabaseConflicts } from "../task/database_schema.ts";
import {
  asJson,
  changesOf,
  type DatabaseResult,
  EVIDENCE,
  type ForkedDatabase,
  forksOf,
  isDataChanged,
  resultsOf,
} from "../databases/evidence.ts";
import type { DatabaseDiffQuery, DatabaseRows } from "../api/wire.ts";
import { changedRows } from "../databases/changed_rows.ts";
import { type Approved, landingObstacle, promoteDatabases } from "../databases/promote_branches.ts";
import type { TaskDatabases } from "../databases/task_databases.ts";
import { branchOf, parseRequested, type RequestedDatabase } from "../databases/requested_databases.ts";
import type { TaskStore } from "../task/task_store.ts";
import type { Task } from "../task/task.ts";
import { requireBoundData } from "./bind.ts";
import { changeOf } from "./trace_evidence.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { auditPaths, type StagePaths, stagePaths } from "./task_paths.ts";
import { profileOf } from "./task_plan.ts";

export interface DataWork {
  task: Task;
  paths: StagePaths;
  signal: AbortSignal;
}

function requestedBy({ databases = [] }: Pick<TaskRecord, "databases">): RequestedDatabase[] {
  return parseRequested(databases);
}

function requireDatabases({ databases }: Pick<EngineDeps, "databases">): TaskDatabases {
  if (databases !== undefined) return databases;
  throw new TaskdError("unavailable", "This broker gives tasks no branches of databases", {
    hint: "Leave `databases` out",
  });
}

/** Checks what a request asks for before there is a task; see `TaskDatabases.check`. */
export async function checkData(deps: Pick<EngineDeps, "databases">, texts: readonly string[] = []): Promise<void> {
  if (texts.length > 0) await requireDatabases(deps).check(parseRequested(texts));
}

export async function stageData(deps: EngineDeps, { task, paths, signal }: DataWork): Promise<ForkedDatabase[]> {
  const requested = requestedBy(task.record);
  if (requested.length === 0) return [];
  const forks = await requireDatabases(deps).stage({
    task_id: task.id,
    requested,
    directory: paths.databases_dir,
    signal,
  });
  await task.append({ type: "evidence", name: EVIDENCE.forks, value: asJson(forks) });
  return forks;
}

/** Takes over what the agent has left of them. All that it returns is in the trace, except rows, SQL and answers. */
export async function collectData(deps: EngineDeps, { task, paths, signal }: DataWork): Promise<BriefDatabase[]> {
  const forks = forksOf(task.record);
  if (forks.length === 0) return [];
  const collected = await requireDatabases(deps).collect({
    task_id: task.id,
    forks,
    directory: paths.databases_dir,
    work_dir: paths.inspected_dir,
    keep_dir: auditPaths(deps.tasks.audit_root, task.id).trees,
    checks: profileOf(deps.resolved.settings, parseRepo(task.record.repo))?.checks ?? [],
    signal,
  });
  const changes = collected.map(({ change }) => change);
  await task.append({ type: "evidence", name: EVIDENCE.changes, value: asJson(changes) });
  return collected.map(({ change: { branch: _branch, head: _head, ...change }, ...shown }) => ({
    ...change,
    ...shown,
  }));
}

/** A page of what a task has changed. */
export async function readRows(
  deps: Pick<EngineDeps, "databases" | "tasks">,
  record: TaskRecord,
  query: DatabaseDiffQuery,
  signal: AbortSignal,
): Promise<DatabaseRows> {
  const change = changesOf(record).find(({ db }) => db === query.database);
  if (change?.head === undefined) {
    throw new TaskdError("not_found", `The task ${record.id} has not changed a database ${query.database}`);
  }
  const is = ({ db }: { db: string }) => db === query.database;
  const [base_txid, result] = [forksOf(record).find(is)?.base_txid, resultsOf(record).find(is)];
  const page = await changedRows(requireDatabases(deps).access, { change, base_txid, result }, query, signal);
  const { changeset } = change.head;
  if (changeset === undefined || !isProvable(query)) return page;
  const path = `${auditPaths(deps.tasks.audit_root, record.id).trees}/${change.db}`;
  return withFileError(`Cannot prove the rows of ${change.db}`, () => {
    const proof = proofOf(path, pageLeaf({ ...query, ...page }), changeset.leaves);
    return { ...page, ...proof && { proof } };
  });
}

/** Where a task lands its data: two that have one of these in common land one after the other. */
export function landsIn(record: Pick<TaskRecord, "databases">): string[] {
  return requestedBy(record).map(({ db, base }) => `${db}@${base}`);
}

/** Notes, before anything of a task's data is anywhere, that its turn has come: a broker that is killed finishes it first. */
export async function noteLanding(task: Pick<Task, "record" | "append">): Promise<void> {
  const { record } = task;
  if (landsIn(record).length === 0 || isLanding(record)) return;
  await task.append({ type: "evidence", name: EVIDENCE.landing, value: record.stage_since });
}

/** Whether a broker was killed while the task landed; a mark of an earlier round does not count. */
export function isLanding({ stage, stage_since, evidence }: TaskRecord): boolean {
  return stage === "pushing" && evidence[EVIDENCE.landing] === stage_since;
}

/** Whether nothing but data was approved: there is then nothing to push. What changed nothing came to no gate. */
export function isDataOnly(record: TaskRecord): boolean {
  return changeOf(record)?.files_changed === 0;
}

function approvedOf({ resolved }: Pick<EngineDeps, "resolved">, record: TaskRecord): Approved {
  return {
    forks: forksOf(record),
    changes: changesOf(record),
    known: resultsOf(record),
    on_moved_base: resolved.settings.on_moved_base,
    decisions: record.decisions ?? record.approval?.decisions ?? [],
    is_bound: record.gate?.binding !== undefined,
  };
}

/** What a person has to decide before a task can land. */
export interface ToDecide {
  reason: string;
  conflicts: DatabaseConflicts[];
}

/**
 * Whether the data can land, asked while nothing of the task is anywhere yet; undefined when it can, as far as is known.
 *
 * @throws {TaskdError} Why it cannot; nothing is known of `promote_only`, where the code goes first whatever the data.
 */
export async function requireLandable(
  deps: Pick<EngineDeps, "databases" | "resolved">,
  record: TaskRecord,
  signal: AbortSignal,
): Promise<ToDecide | undefined> {
  if (deps.resolved.settings.on_moved_base === "promote_only" || !isDataChanged(changesOf(record))) {
    return undefined;
  }
  requireBoundData(record);
  const databases = requireDatabases(deps);
  const approved = approvedOf(deps, record);
  const obstacle = await landingObstacle(databases.access, approved);
  if (obstacle === undefined) {
    const { settings } = deps.resolved;
    const checks = profileOf(settings, parseRepo(record.repo))?.checks ?? [];
    const work_dir = `${stagePaths(settings.stage_root, record.id).inspected_dir}.landing`;
    const broken = await databases.brokenChecks({ approved, checks, work_dir, signal });
    if (broken.length === 0) return undefined;
    throw new TaskdError("conflict", `Nothing has landed, neither code nor data: ${broken.join("; ")}`, {
      hint: "The database has moved since the gate: bring it back to what the checks expect, or end the task",
    });
  }
  const { reason, conflicts, landed } = obstacle;
  // Half of it is there: what became of the rest is in the results of this round.
  if (landed.length > 0 && isDataOnly(record)) return undefined;
  const nothing = landed.length === 0
    ? `Nothing has landed, neither code nor data: ${reason}`
    : `${landed.join(" and ")} ${landed.length === 1 ? "has" : "have"} the change already; nothing else has landed, ` +
      `neither code nor data: ${reason}`;
  // What a gate of 0.1.0 has asked for cannot be bound to what is decided now.
  if (conflicts !== undefined && record.gate?.binding !== undefined) return { reason: nothing, conflicts };
  throw new TaskdError("conflict", nothing);
}

/**
 * Promotes what was approved; may be called again after a broker was cut off. What cannot be promoted is kept, also
 * where the trace is damaged or this broker has no branch store.
 */
export async function promoteData(
  deps: Pick<EngineDeps, "databases" | "resolved">,
  task: Pick<Task, "record" | "append">,
): Promise<DatabaseResult[]> {
  const { record } = task;
  let known: DatabaseResult[] = [];
  let results: DatabaseResult[];
  try {
    known = resultsOf(record);
    const changes = changesOf(record);
    if (!isDataChanged(changes)) {
      if (!isDataOnly(record)) return [];
      throw new TaskdError("corrupt", "the trace does not say what was changed");
    }
    if (known.length > 0 && known.every(({ result }) => result === "promoted")) return known;
    requireBoundData(record);
    results = await promoteDatabases(requireDatabases(deps).access, { ...approvedOf(deps, record), known });
  } catch (error) {
    const kept = { branch: branchOf(record.id), result: "kept", reason: messageWithHint(error) } as const;
    const done = known.filter(({ result }) => result === "promoted");
    results = requestedBy(record).map(({ db, base }) => done.find((one) => one.db === db) ?? { db, base, ...kept });
  }
  await task.append({ type: "evidence", name: EVIDENCE.results, value: asJson(results) });
  return results;
}

/** Notes that a person has given up what was not promoted: its branches then go with the task. */
export async function abandonData(task: Pick<Task, "record" | "append">): Promise<void> {
  const known = resultsOf(task.record);
  if (!known.some(({ result }) => result === "kept")) return;
  const results = known.map((one) => one.result === "kept" ? { ...one, result: "given_up" } : one);
  await task.append({ type: "evidence", name: EVIDENCE.results, value: asJson(results) });
}

/** Destroys the branches of a task that has ended, except those that brokers up to 0.1.0 left to a person. */
export async function releaseData(
  { databases, log }: Pick<EngineDeps, "databases" | "log">,
  record: TaskRecord,
): Promise<void> {
  const { id } = record;
  if (record.databases === undefined) return;
  try {
    await databases?.release(id, requestedBy(record), keptOf(record));
  } catch (error) {
    log("error", "database_branch_left", `the task's branches ${branchOf(id)} are left: ${messageOf(error)}`, {
      task_id: id,
    });
  }
}

function keptOf(record: TaskRecord): Set<string> {
  return new Set(resultsOf(record).flatMap(({ db, result }) => result === "kept" ? [db] : []));
}

/** Destroys the branches that earlier brokers left of tasks that have ended. */
export async function sweepData({ databases, tasks, log }: EngineDeps): Promise<void> {
  if (databases === undefined) return;
  try {
    const gone = await databases.sweep((task_id, db) => isOver(tasks, task_id, db));
    if (gone > 0) log("info", "database_branches_removed", `destroyed ${plural(gone, "branch")} of ended tasks`);
  } catch (error) {
    // Most brokers have no branch store. The next start looks again.
    if (hasCode(error, "daemon_unreachable")) return;
    log("warn", "database_branches_unknown", `cannot look for branches of ended tasks: ${messageOf(error)}`);
  }
}

function isOver(tasks: TaskStore, task_id: string, db: string): boolean {
  try {
    const record = tasks.read(task_id);
    return record.stage === "done" && !keptOf(record).has(db);
  } catch {
    // Another broker's, or one that was pruned: not for this one to decide.
    return false;
  }
}

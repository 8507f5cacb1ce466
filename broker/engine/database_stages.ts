/**
 * A task's databases: what the engine does with them at each stage, and writes down.
 */

import { hasCode, messageOf, TaskdError } from "../../lib/errors.ts";
import { plural } from "../../lib/text/plural.ts";
import type { BriefDatabase, TaskRecord } from "../task/schema.ts";
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
import { promoteDatabases, resultsText } from "../databases/promote_branches.ts";
import type { TaskDatabases } from "../databases/task_databases.ts";
import { parseRequested, type RequestedDatabase } from "../databases/requested_databases.ts";
import type { TaskStore } from "../task/task_store.ts";
import type { Task } from "../task/task.ts";
import { changeOf } from "./trace_evidence.ts";
import type { EngineDeps } from "./engine_deps.ts";
import type { StagePaths } from "./task_paths.ts";

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

/** Forks the task's databases and puts copies into its scratch. */
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

/** Takes over what the agent has left of them. All that it returns is in the trace, except the rows. */
export async function collectData(deps: EngineDeps, { task, paths, signal }: DataWork): Promise<BriefDatabase[]> {
  const forks = forksOf(task.record);
  if (forks.length === 0) return [];
  const collected = await requireDatabases(deps).collect({
    task_id: task.id,
    forks,
    directory: paths.databases_dir,
    work_dir: paths.inspected_dir,
    signal,
  });
  const changes = collected.map(({ change }) => change);
  await task.append({ type: "evidence", name: EVIDENCE.changes, value: asJson(changes) });
  return collected.map(({ change: { branch: _branch, head: _head, ...change }, tables }) => ({ ...change, tables }));
}

/** Whether nothing but data was approved: there is then nothing to push. */
export function isDataOnly(record: TaskRecord): boolean {
  return changeOf(record)?.files_changed === 0 && isDataChanged(changesOf(record));
}

/** Promotes what was approved; may be called again after a broker was cut off. */
export async function promoteData(deps: EngineDeps, task: Task): Promise<DatabaseResult[]> {
  const known = resultsOf(task.record);
  const changes = changesOf(task.record);
  if (known.length > 0 || !isDataChanged(changes)) return known;
  const results = await promoteDatabases(requireDatabases(deps).access, { forks: forksOf(task.record), changes });
  await task.append({ type: "evidence", name: EVIDENCE.results, value: asJson(results) });
  // Where checks are watched, the end has another reason.
  const kept = results.filter(({ result }) => result === "kept");
  if (kept.length > 0) await task.append({ type: "note", text: resultsText(kept) });
  return results;
}

/** Destroys the branches of a task that has ended, except those that it has to keep. */
export async function releaseData({ databases }: Pick<EngineDeps, "databases">, record: TaskRecord): Promise<void> {
  if (record.databases === undefined) return;
  await databases?.release(record.id, requestedBy(record), keptOf(record));
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

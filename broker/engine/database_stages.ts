/**
 * A task's databases: what the engine does with them at each stage, and writes down.
 */

import { hasCode, messageOf, messageWithHint, TaskdError } from "../../lib/errors.ts";
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
import { branchOf, parseRequested, type RequestedDatabase } from "../databases/requested_databases.ts";
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

/** Whether nothing but data was approved: there is then nothing to push. What changed nothing came to no gate. */
export function isDataOnly(record: TaskRecord): boolean {
  return changeOf(record)?.files_changed === 0;
}

/**
 * Promotes what was approved; may be called again after a broker was cut off. What cannot be promoted is kept, also
 * where the trace is damaged or this broker has no branch store.
 */
export async function promoteData(
  deps: Pick<EngineDeps, "databases">,
  task: Pick<Task, "record" | "append">,
): Promise<DatabaseResult[]> {
  const { record } = task;
  let results: DatabaseResult[];
  try {
    const known = resultsOf(record);
    const changes = changesOf(record);
    if (known.length > 0) return known;
    if (!isDataChanged(changes)) {
      if (!isDataOnly(record)) return [];
      throw new TaskdError("corrupt", "the trace does not say what was changed");
    }
    results = await promoteDatabases(requireDatabases(deps).access, { forks: forksOf(record), changes });
  } catch (error) {
    const kept = { branch: branchOf(record.id), result: "kept", reason: messageWithHint(error) } as const;
    results = requestedBy(record).map(({ db, base }) => ({ db, base, ...kept }));
  }
  await task.append({ type: "evidence", name: EVIDENCE.results, value: asJson(results) });
  // Where checks are watched, the end has another reason.
  const kept = results.filter(({ result }) => result === "kept");
  if (kept.length > 0) await task.append({ type: "note", text: resultsText(kept) });
  return results;
}

/** Destroys the branches of a task that has ended, except those that it has to keep. */
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

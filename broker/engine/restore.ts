/**
 * What a starting broker finds of its predecessor: tasks at some stage, and scratch that belongs to no task any more.
 */

import { messageOf, TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { operatorCredentials } from "../git/credentials.ts";
import { parseRepo } from "../git/repo_url.ts";
import { listRemote, remoteOptions } from "../git/staged_repository.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { listProcesses, signalProcess } from "../sandbox/processes.ts";
import { type Recovered, recoverTask } from "../task/recover.ts";
import type { PushAttempt } from "../task/schema.ts";
import type { Task } from "../task/task.ts";
import { promoteData } from "./database_stages.ts";
import { readBytes } from "./kept_files.ts";
import { changeOf, stagedOf } from "./trace_evidence.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { openPullRequest } from "./pull_request.ts";
import { auditPaths, stagedTasks, stagePaths } from "./task_paths.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/** How often an ended push is looked for, and the time in between. */
const POLLS = 100;
const POLL_MS = 50;

/** As {@linkcode recoverTask}, with the remote and what belongs to a push. */
export async function restoreTask(deps: EngineDeps, task: Task): Promise<Recovered> {
  const cause = task.record.stage === "pushing" ? await endOrphanedPush(deps, task) : undefined;
  if (cause !== undefined) return { kind: "undecided", cause };
  return await recoverTask(task, {
    watch_ci: deps.resolved.settings.ci.watch && deps.ci !== undefined,
    wasPushed: (attempt) => wasPushed(deps, task, attempt),
    arrived: async ({ branch }) => {
      await promoteData(deps, task);
      // One that was opened before the crash is found again.
      const url = parseRepo(task.record.repo);
      return await openPullRequest(deps, task, { url, branch, base: stagedOf(task.record)?.base_branch });
    },
  });
}

/**
 * Ends a push of the task that has outlived its broker: a look at the remote would miss what it has not done yet.
 *
 * @returns Why the remote cannot be asked yet: the push does not end.
 */
export async function endOrphanedPush(
  { git, clock, log }: Pick<EngineDeps, "git" | "clock" | "log">,
  { id }: Pick<Task, "id">,
  list = listProcesses,
): Promise<TaskdError | undefined> {
  const target = new RegExp(`^${RegExp.escape(git.path)} .* push .*:refs/heads/agent/${id}(?:-\\d+)?$`);
  try {
    for (let poll = 0; poll < POLLS; poll++) {
      const orphans = (await list()).filter(({ command_line }) => target.test(command_line));
      if (orphans.length === 0) return undefined;
      // The leader of a group that has git's helpers too.
      for (const { pid, group } of orphans) signalProcess(group === pid ? -pid : pid, "SIGKILL");
      await clock.sleep(POLL_MS);
    }
    return new TaskdError("unavailable", "Cannot look at the remote: a push of an earlier broker does not end");
  } catch (error) {
    log("warn", "orphans_unknown", `cannot look for a push of an earlier broker: ${messageOf(error)}`, { task_id: id });
    return undefined;
  }
}

async function wasPushed({ git, credentials }: EngineDeps, task: Task, attempt: PushAttempt): Promise<boolean> {
  const url = parseRepo(task.record.repo);
  const ref = `refs/heads/${attempt.branch}`;
  const attempted = `Cannot see whether ${attempt.branch} was pushed to ${url.canonical}`;
  const options = remoteOptions({ url, credentials: operatorCredentials(url, credentials) }, attempted);
  const { refs } = await listRemote(git, url, [ref], options);
  return refs.get(ref) === attempt.commit;
}

/** What is missing of a change that waits at the gate; undefined when it could be shown and pushed. */
export async function gateProblem({ git, resolved }: EngineDeps, task: Task): Promise<string | undefined> {
  const { settings } = resolved;
  const { record } = task;
  const [staged, change] = [stagedOf(record), changeOf(record)];
  if (staged === undefined || change === undefined) return "its trace does not say which tree waits";
  if (change.diff_sha256 !== record.gate?.diff_sha256) return "its trace names another diff than the gate";
  const { git_dir } = stagePaths(settings.stage_root, task.id);
  const run = { repository: { git_dir }, attempted: "Cannot look at the staged change" };
  try {
    await Deno.stat(git_dir);
    for (const [oid, type] of [[change.tree, "tree"], [staged.base_commit, "commit"]] as const) {
      const { code } = await git.tryRun(["cat-file", "-e", `${oid}^{${type}}`], run);
      if (code !== 0) return `the staged ${type} ${oid} is gone`;
    }
    const shown = await readBytes(auditPaths(settings.audit_root, task.id).diff);
    return sha256Hex(shown) === change.shown_sha256 ? undefined : "the diff that was shown has been changed";
  } catch (error) {
    return error instanceof TaskdError ? error.message : fileError(error, "Cannot look at the staged change").message;
  }
}

/**
 * Removes scratch of tasks that are not in `keep`; returns their ids. What cannot be removed is logged and left for the
 * next broker: it must not keep this one from its other tasks.
 *
 * @throws {TaskdError} when the folder of the scratch cannot be looked into.
 */
export async function removeLeftovers(
  { resolved, log }: Pick<EngineDeps, "resolved" | "log">,
  keep: ReadonlySet<string>,
): Promise<string[]> {
  const { stage_root } = resolved.settings;
  const gone: string[] = [];
  for (const id of stagedTasks(stage_root).filter((id) => !keep.has(id))) {
    try {
      await removeTree(stagePaths(stage_root, id).root);
      gone.push(id);
    } catch (error) {
      log("warn", "cleanup_failed", messageOf(error), { task_id: id, stage_root });
    }
  }
  return gone;
}

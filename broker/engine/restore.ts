/**
 * What a starting broker finds of its predecessor: tasks at some stage, and scratch that belongs to no task any more.
 */

import { messageOf, TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import type { GitRunOptions } from "../git/git.ts";
import { endProcesses, listProcesses, type RunningProcess } from "../sandbox/processes.ts";
import type { Task } from "../task/task.ts";
import { readBytes } from "./kept_files.ts";
import { changeOf, isUnbound, stagedOf } from "./trace_evidence.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { auditPaths, stagedTasks, stagePaths } from "./task_paths.ts";
import { sha256Hex } from "../../lib/sha256.ts";

/**
 * Ends a push of the task that has outlived its broker: a look at the remote would miss what it has not done yet.
 *
 * @throws {TaskdError} `unavailable`: the push does not end, so the remote cannot be asked yet.
 */
export async function endOrphanedPush(
  { clock, log }: Pick<EngineDeps, "clock" | "log">,
  { id }: Pick<Task, "id">,
  signal?: AbortSignal,
  list = listProcesses,
): Promise<void> {
  // Also of another git than this broker's, or behind the shell that one is written for.
  const target = new RegExp(`(?:^|/)git .* push .*:refs/heads/agent/${id}(?:-\\d+)?$`);
  try {
    const pushes = (processes: readonly RunningProcess[]) =>
      processes.filter(({ command_line }) => target.test(command_line));
    if (await endProcesses(clock, pushes, { list, signal })) return;
  } catch (error) {
    signal?.throwIfAborted();
    log("warn", "orphans_unknown", `cannot look for a push of an earlier broker: ${messageOf(error)}`, { task_id: id });
    return;
  }
  throw new TaskdError("unavailable", "Cannot look at the remote: a push of an earlier broker does not end");
}

/** What is missing of a change that waits at the gate; undefined when it could be shown and pushed. */
export async function gateProblem(deps: EngineDeps, task: Task, signal: AbortSignal): Promise<string | undefined> {
  const problem = await stagedProblem(deps, task, signal);
  if (problem !== undefined) return problem;
  try {
    const shown = await readBytes(auditPaths(deps.resolved.settings.audit_root, task.id).diff);
    if (sha256Hex(shown) === changeOf(task.record)?.shown_sha256) return undefined;
    return "the diff that was shown has been changed";
  } catch (error) {
    return error instanceof TaskdError ? error.message : fileError(error, "Cannot look at the diff").message;
  }
}

export async function stagedProblem(
  { git, resolved }: Pick<EngineDeps, "git" | "resolved">,
  task: Task,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { settings } = resolved;
  const { record } = task;
  const [staged, change] = [stagedOf(record), changeOf(record)];
  if (staged === undefined || change === undefined) return "its trace does not say which tree waits";
  if (isUnbound(record)) return "its trace names another diff than the gate";
  const { git_dir } = stagePaths(settings.stage_root, task.id);
  const run = { repository: { git_dir }, attempted: "Cannot look at the staged change", signal };
  try {
    await Deno.stat(git_dir);
    for (const [oid, type] of [[change.tree, "tree"], [staged.base_commit, "commit"]] as const) {
      const { code } = await git.tryRun(["cat-file", "-e", `${oid}^{${type}}`], run);
      if (code !== 0) return `the staged ${type} ${oid} is gone`;
    }
    return await contentProblem(git, run, { before: `${staged.base_commit}^{tree}`, after: change.tree });
  } catch (error) {
    signal?.throwIfAborted();
    return error instanceof TaskdError ? error.message : fileError(error, "Cannot look at the staged change").message;
  }
}

/** Whether each object that the change brings is there and has the content that its name stands for. */
async function contentProblem(
  git: EngineDeps["git"],
  run: GitRunOptions,
  { before, after }: { before: string; after: string },
): Promise<string | undefined> {
  // With --verify-objects git reads and hashes each; of one whose hash is another it only says so.
  const { code, stderr } = await git.tryRun(
    ["rev-list", "--objects", "--verify-objects", "--quiet", after, `^${before}`],
    run,
  );
  const said = stderr.split("\n").find((line) => /^(?:error|fatal): /.test(line));
  if (code === 0 && said === undefined) return undefined;
  return `a file or folder of the staged change is damaged or gone: ${said ?? `git ended with status ${code}`}`;
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

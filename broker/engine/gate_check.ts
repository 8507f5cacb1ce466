/**
 * Whether all that a person decides by is still what the broker wrote: the trace, the brief, the diff, the staged tree.
 */

import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { Task } from "../task/task.ts";
import type { EngineDeps } from "./engine_deps.ts";
import { stagedProblem } from "./restore.ts";
import { keptFile } from "./views.ts";

/** @throws {TaskdError} `altered`, with what was altered and what to do; the signal's reason after an abort. */
export async function requireUnaltered(deps: EngineDeps, task: Task, signal: AbortSignal): Promise<void> {
  const problem = await alteration(deps, task, signal);
  if (problem === undefined) return;
  throw new TaskdError("altered", `Cannot approve the task ${task.id}: ${problem}`, {
    hint: "Deny it, look at who could write below audit_root and stage_root, then run it again with taskd retry",
  });
}

async function alteration(deps: EngineDeps, task: Task, signal: AbortSignal): Promise<string | undefined> {
  const { tasks } = deps;
  const verdict = await tasks.verify(task.id);
  if (!verdict.intact) return `row ${verdict.fault.seq} of its trace is ${verdict.fault.problem}`;
  for (const what of ["brief", "diff"] as const) {
    try {
      await keptFile(tasks, task.id, what);
    } catch (error) {
      if (hasCode(error, "altered", "not_found", "denied", "too_large")) return error.message;
      throw error;
    }
  }
  return await stagedProblem(deps, task, signal);
}

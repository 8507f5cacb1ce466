/**
 * What becomes of a task whose broker stopped, decided from its record alone: what was under way has failed and says
 * so; what waited for a person goes on waiting; what was approved is pushed, unless the remote has it already; a watch
 * goes on.
 */

import { type Move, STAGES } from "./stages.ts";
import type { Task } from "./task.ts";

/** The contract's words for a watch that no broker continues. */
export const NO_CI_CONCLUSION = "no CI conclusion was observed";

export type Recovered = "ended" | "kept" | "watching" | "unpushed";

/**
 * Carries out what the table of stages has for a task whose broker stopped.
 *
 * @param options `watch_ci`: whether checks are watched, by the present configuration.
 * @throws {TaskdError} when a row cannot be written; the task is then as it was.
 */
export async function recoverTask(task: Task, { watch_ci }: { watch_ci: boolean }): Promise<Recovered> {
  const { stage, pushed } = task.record;
  if (stage === "done") return "ended";
  const { at_restart, meaning } = STAGES[stage];
  switch (at_restart.kind) {
    case "fail": {
      const reason = `the broker stopped while the task was in ${stage}: ${meaning}`;
      await task.move({ from: stage, to: "done", outcome: at_restart.outcome, reason } as Move);
      return "ended";
    }
    case "keep":
      return "kept";
    case "push":
      return "unpushed";
    case "resume":
      if (watch_ci) return "watching";
      if (pushed === undefined) return "kept";
      await task.append({ type: "ci", state: "no_conclusion" });
      await task.move({ from: "awaiting_ci", to: "done", outcome: "pushed", reason: NO_CI_CONCLUSION, pushed });
      return "ended";
  }
}

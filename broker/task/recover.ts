/**
 * What becomes of a task whose broker stopped, decided from its record alone: what was under way has failed and says
 * so; what waited for a person goes on waiting; what was being pushed is decided by looking at the remote, never by
 * guessing; a watch goes on.
 */

import type { PushAttempt, TaskRecord } from "./schema.ts";
import { type Move, type Stage, STAGES } from "./stages.ts";
import type { Task } from "./task.ts";

export type Recovery =
  /** It has ended. */
  | { kind: "none" }
  /** It waits for approval, as before. */
  | { kind: "keep" }
  /** What it was doing is lost. */
  | { kind: "fail"; move: Move }
  /** Any of these may have arrived; the last one is the likeliest. */
  | { kind: "look"; attempts: PushAttempt[] }
  /** Its checks are still to be watched. */
  | { kind: "watch" };

/** The contract's words for a watch that no broker continues. */
export const NO_CI_CONCLUSION = "no CI conclusion was observed";

function lostIn(from: Stage): string {
  return `the broker stopped while the task was in ${from}: ${STAGES[from].meaning}`;
}

export function recover(record: TaskRecord): Recovery {
  const { stage } = record;
  switch (stage) {
    case "done":
      return { kind: "none" };
    case "awaiting_approval":
      return { kind: "keep" };
    case "awaiting_ci":
      return { kind: "watch" };
    case "pushing":
      if (record.push_attempts.length > 0) return { kind: "look", attempts: record.push_attempts };
      return { kind: "fail", move: { from: stage, to: "done", outcome: "push_failed", reason: lostIn(stage) } };
    case "running":
    case "collecting":
    case "admission":
    case "staging":
    case "setting_up": {
      const { outcome } = STAGES[stage].at_restart;
      return { kind: "fail", move: { from: stage, to: "done", outcome, reason: lostIn(stage) } as Move };
    }
  }
}

export interface RecoveryHooks {
  /** Whether the remote has this very commit at this branch. Rejects when that cannot be known now. */
  wasPushed(attempt: PushAttempt): Promise<boolean>;
  /**
   * Called before the task moves on because the change has arrived: what belongs to the push is finished.
   *
   * @returns URL of the pull request, when there is one.
   */
  arrived?(attempt: PushAttempt): Promise<string | undefined>;
  /** Whether checks are watched, by the present configuration. */
  watch_ci: boolean;
}

export type Recovered =
  | { kind: "ended" | "kept" | "watching" }
  /** The remote could not be looked at: the task stays as it is, until it is asked again. */
  | { kind: "undecided"; cause: unknown };

/**
 * Carries out what {@linkcode recover} decides.
 *
 * @throws {TaskdError} when a row cannot be written; the task is then as it was.
 */
export async function recoverTask(task: Task, hooks: RecoveryHooks): Promise<Recovered> {
  const recovery = recover(task.record);
  switch (recovery.kind) {
    case "none":
      return { kind: "ended" };
    case "keep":
      return { kind: "kept" };
    case "fail":
      await task.move(recovery.move);
      return { kind: "ended" };
    case "watch":
      return await watchOn(task, hooks);
    case "look":
      return await look(task, recovery.attempts, hooks);
  }
}

async function watchOn(task: Task, hooks: RecoveryHooks): Promise<Recovered> {
  if (hooks.watch_ci) return { kind: "watching" };
  const { pushed } = task.record;
  if (pushed === undefined) return { kind: "kept" };
  await task.append({ type: "ci", state: "no_conclusion" });
  await task.move({ from: "awaiting_ci", to: "done", outcome: "pushed", reason: NO_CI_CONCLUSION, pushed });
  return { kind: "ended" };
}

async function look(task: Task, attempts: readonly PushAttempt[], hooks: RecoveryHooks): Promise<Recovered> {
  for (const attempt of attempts.toReversed()) {
    let arrived: boolean;
    try {
      arrived = await hooks.wasPushed(attempt);
    } catch (cause) {
      return { kind: "undecided", cause };
    }
    if (!arrived) continue;
    const pull_request = await hooks.arrived?.(attempt);
    const { branch, commit } = attempt;
    const pushed = { branch, commit, ...(pull_request === undefined ? {} : { pull_request }) };
    // Without a pull request there is nothing to watch.
    if (hooks.watch_ci && pull_request !== undefined) {
      await task.move({ from: "pushing", to: "awaiting_ci", pushed });
      return { kind: "watching" };
    }
    const reason = "the broker stopped while it pushed; the change had arrived";
    await task.move({ from: "pushing", to: "done", outcome: "pushed", reason, pushed });
    return { kind: "ended" };
  }
  const reason = "the broker stopped while it pushed; the change had not arrived";
  await task.move({ from: "pushing", to: "done", outcome: "push_failed", reason });
  return { kind: "ended" };
}

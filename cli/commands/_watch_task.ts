/**
 * Watching a task for a person: its stages as they come, the last words with what to do next, and the exit status. The
 * one way of submit, retry, approve and push.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Submitted, TaskView } from "../../broker/api/wire.ts";
import { systemClock } from "../../lib/clock.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { EXIT_DATA_WAITS, EXIT_FAILURE, EXIT_OK, EXIT_PUSH_FAILED } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { type FollowOptions, followTask, type TaskProgress } from "./_follow_task.ts";
import { eventLines } from "./_task_events.ts";
import { isSuccess, nextSteps, shortId, spendWords } from "./_task_text.ts";

/** A task that was accepted, and how far it was seen to come. */
export interface FollowedTask extends TaskProgress, Pick<Submitted, "id" | "links"> {
  /** False when nothing was waited for. */
  followed: boolean;
  /** The record, of a task whose landing was waited for. */
  task?: TaskView;
}

/** As {@linkcode exitCodeOf}, of what was approved: at the gate again, nothing of it has landed. */
export function landingExitCode(task: FollowedTask): number {
  return task.stage === "awaiting_approval" ? EXIT_PUSH_FAILED : exitCodeOf(task);
}

/** A task that is not followed has succeeded once it is accepted. */
export function exitCodeOf(task: FollowedTask): number {
  if (!task.followed || isSuccess(task)) return EXIT_OK;
  if (task.stage === "push_failed") return EXIT_PUSH_FAILED;
  return task.stage === "data_waits" ? EXIT_DATA_WAITS : EXIT_FAILURE;
}

export async function watchTask(
  io: Io,
  broker: BrokerClient,
  { id, links }: Pick<Submitted, "id" | "links">,
  following: Omit<FollowOptions, "io">,
): Promise<FollowedTask> {
  try {
    const progress = await followTask(broker, id, { io, ...following });
    if (!io.json) { for (const line of lastWords(id, progress)) io.note(line); }
    return { id, links, followed: true, ...progress };
  } catch (error) {
    if (!hasCode(error, "interrupted") && !io.signal.aborted) throw error;
    throw new TaskdError("interrupted", `Stopped watching the task ${id}: it goes on by itself`, {
      hint: `Come back with: taskd logs ${shortId(id)} -f`,
    });
  }
}

/**
 * Waits until what was approved has landed, or waits for another round.
 *
 * @param task As it was before what is waited for: only later events count.
 * @param timeout_ms Milliseconds that it waits at most.
 * @throws {TaskdError} `timed_out`; the round goes on.
 */
export async function watchLanding(
  io: Io,
  broker: BrokerClient,
  task: Pick<TaskView, "id" | "links" | "seq">,
  timeout_ms: number,
): Promise<FollowedTask> {
  const over = new AbortController();
  const done = new AbortController();
  systemClock.sleep(timeout_ms, done.signal).then(() => over.abort(), () => {});
  try {
    const seen = await watchTask(io, broker, task, {
      until: "gate",
      after: task.seq,
      signal: over.signal,
      show: (event) => {
        if (!io.json) showEvent(event, io);
      },
    });
    return { ...seen, task: await broker.task(task.id) };
  } catch (error) {
    if (!over.signal.aborted || io.signal.aborted) throw error;
    const waited = formatDuration(timeout_ms);
    throw new TaskdError("timed_out", `The task ${task.id} is approved, and has not landed within ${waited}`, {
      hint: `It goes on by itself; come back with: taskd logs ${shortId(task.id)} -f`,
    });
  } finally {
    done.abort();
  }
}

/** On a terminal the last output has its place in the line that changes; elsewhere every line is printed. */
export function showEvent(event: Parameters<typeof eventLines>[0], io: Io): void {
  if (event.event === "output" && io.live() !== undefined) return;
  for (const line of eventLines(event)) io.note(line);
}

function lastWords(id: string, progress: TaskProgress): string[] {
  const { spend, pushed } = progress;
  const next = nextSteps(id, progress);
  return [
    ...(spend === undefined ? [] : [`Spent: ${spendWords({ spend })}`]),
    ...(pushed === undefined
      ? []
      : [`Pushed: ${pushed.branch}${pushed.pull_request ? ` ${pushed.pull_request}` : ""}`]),
    ...(next.length === 0 ? [] : [`Next: ${next.join(" or ")}`]),
  ];
}

/**
 * The commands that start a task: submit, retry. Once it is accepted they print its id, show how it goes, and say what
 * to do next.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Submitted } from "../../broker/api/wire.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import { brokerCommand, type BrokerModule } from "../plan/command_module.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import { followTask, type TaskProgress } from "./_follow_task.ts";
import type { Io } from "../text/io.ts";
import { readSubmission } from "./_submission.ts";
import { eventLines } from "./_task_events.ts";
import { isSuccess, nextSteps, shortId, spendWords } from "./_task_text.ts";

/** A task that was accepted, and how far it was seen to come. */
interface FollowedTask extends TaskProgress, Pick<Submitted, "id" | "links"> {
  /** False with `--detach`. */
  followed: boolean;
}

export const submit = followed(async (args, io, broker) => await broker.submit(await readSubmission(args, io)));

export const retry = followed(async (args, _io, broker) => await broker.retry(args.positional("id")));

function followed(start: (args: Args, io: Io, broker: BrokerClient) => Promise<Submitted>): BrokerModule {
  return brokerCommand<FollowedTask>({
    async run(args, io, broker) {
      checkFollowing(args, io);
      return await follow(args, io, broker, await start(args, io, broker));
    },
    // A detached task has succeeded once it is accepted.
    exitCode: (task) => !task.followed || isSuccess(task) ? EXIT_OK : EXIT_FAILURE,
  });
}

/** What `--detach`, `--wait` and `--events` mean together, before anything is sent. */
function checkFollowing(args: Args, io: Io): void {
  if (args.on("detach") && args.on("wait")) {
    throw new TaskdError("usage", "Cannot both wait for a task and detach from it: give --wait or --detach");
  }
  if (args.on("events") && (!io.json || args.on("detach"))) {
    throw new TaskdError("usage", "Flag --events goes with --json, and not with --detach");
  }
}

async function follow(args: Args, io: Io, broker: BrokerClient, task: Submitted): Promise<FollowedTask> {
  const { id, links } = task;
  // At once: with the id a person can come back to the task even if this call fails.
  if (!io.json) io.out(id);
  if (args.on("detach")) return { id, stage: task.stage, links, followed: false };
  const wait = args.on("wait");
  try {
    const progress = await followTask(broker, id, {
      io,
      until: wait ? "end" : "gate",
      show: (event) => {
        if (io.json && args.on("events")) io.outJson(event);
        else if (!io.json) show(event, io);
        if (wait && !io.json && event.event === "stage" && event.data.stage === "awaiting_approval") {
          io.note(`It waits for approval: taskd review ${shortId(id)}`);
        }
      },
    });
    if (!io.json) { for (const line of lastWords(id, progress)) io.note(line); }
    return { id, links, followed: true, ...progress };
  } catch (error) {
    if (!hasCode(error, "interrupted") && !io.signal.aborted) throw error;
    throw new TaskdError("interrupted", `Stopped watching the task ${id}: it goes on by itself`, {
      hint: `Come back with: taskd logs ${shortId(id)} -f`,
    });
  }
}

/** On a terminal the last output has its place in the line that changes; elsewhere every line is printed. */
function show(event: Parameters<typeof eventLines>[0], io: Io): void {
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

/**
 * The commands that start a task, or another round for an approved one: submit, retry, push. They show how it goes, and
 * say what to do next.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Submitted, TaskView } from "../../broker/api/wire.ts";
import { openConflicts } from "../../broker/databases/evidence.ts";
import { readDigest } from "../../broker/task/decisions.ts";
import { decideRequest } from "./_conflicts.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import { brokerCommand, type BrokerModule } from "../plan/command_module.ts";
import type { Io } from "../text/io.ts";
import { readSubmission } from "./_submission.ts";
import { isDigestOf, shortId } from "./_task_text.ts";
import { exitCodeOf, type FollowedTask, landingExitCode, showEvent, watchLanding, watchTask } from "./_watch_task.ts";

export const submit = followed(async (args, io, broker) => await broker.submit(await readSubmission(args, io)));

export const retry = followed(async (args, _io, broker) => await broker.retry(args.positional("id")));

function followed(start: (args: Args, io: Io, broker: BrokerClient) => Promise<Submitted>): BrokerModule {
  return brokerCommand<FollowedTask>({
    async run(args, io, broker) {
      checkFollowing(args, io);
      return await follow(args, io, broker, await start(args, io, broker));
    },
    exitCode: exitCodeOf,
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
  return await watchTask(io, broker, { id, links }, {
    until: wait ? "end" : "gate",
    show: (event) => {
      if (io.json && args.on("events")) io.outJson(event);
      else if (!io.json) showEvent(event, io);
      if (wait && !io.json && event.event === "stage" && event.data.stage === "awaiting_approval") {
        io.note(`It waits for approval: taskd review ${shortId(id)}`);
      }
    },
  });
}

/** Begins another round for an approved change that waits, and follows it. */
export const push = brokerCommand<FollowedTask>({
  async run(args, io, broker) {
    const task = await broker.task(args.positional("id"));
    const decide = decideRequest(args);
    await broker.push(task.id, { ...decide && { decide }, ...conflictsRead(args.text("conflicts"), task) });
    if (!args.on("wait")) return { id: task.id, links: task.links, stage: "pushing", followed: false };
    return await watchLanding(io, broker, task, args.numberOf("timeout"));
  },
  exitCode: landingExitCode,
});

/** What `--conflicts` says was read, whole. */
function conflictsRead(named: string | undefined, task: TaskView): { conflicts_read_sha256?: string } {
  if (named === undefined) return {};
  const conflicts_read_sha256 = readDigest(openConflicts(task));
  if (isDigestOf(conflicts_read_sha256, named, { flag: "--conflicts", id: task.id })) return { conflicts_read_sha256 };
  throw new TaskdError(
    "conflict",
    `Cannot decide the task ${task.id}: what is in conflict is not what was read any more`,
    {
      hint: `Read it again: taskd review ${shortId(task.id)}`,
    },
  );
}

/**
 * The command `taskd tasks`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { TaskListItem } from "../../broker/api/wire.ts";
import { isStage, STAGES } from "../../broker/task/stages.ts";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { textTable } from "../text/text_table.ts";
import { age, shortId, spendWord, standing } from "./_task_text.ts";

/** The tasks. */
export interface TasksResult {
  tasks: TaskListItem[];
  /** Whether there are older ones. */
  more: boolean;
}

/** Tasks asked for at a time. */
const PAGE = 500;

/** Lists them, the newest first. */
export async function run(args: Args, _io: Io, broker: BrokerClient): Promise<TasksResult> {
  const stage = args.text("stage");
  if (stage !== undefined && !isStage(stage)) {
    throw new TaskdError("usage", `There is no stage ${JSON.stringify(stage.slice(0, 64))}`, {
      hint: `Stages: ${Object.keys(STAGES).join(", ")}`,
    });
  }
  const wanted = args.on("all") ? Infinity : args.numberOf("limit");
  const tasks: TaskListItem[] = [];
  let before: string | undefined;
  do {
    const page = await broker.tasks({
      limit: Math.min(PAGE, wanted - tasks.length),
      ...(before === undefined ? {} : { before }),
      ...(stage === undefined ? {} : { stage }),
    });
    tasks.push(...page.tasks);
    before = page.next;
  } while (before !== undefined && tasks.length < wanted);
  return { tasks, more: before !== undefined };
}

/** A table. */
export async function render({ tasks, more }: TasksResult, io: Io): Promise<string> {
  if (tasks.length === 0) return "There are no tasks";
  const now_ms = systemClock.now();
  const rows = tasks.map((task) => [
    shortId(task.id),
    age(task.created_at, now_ms),
    standing(task),
    task.agent,
    spendWord(task),
    task.repo,
    task.instruction,
  ]);
  const head = ["ID", "AGE", "STAGE", "AGENT", "SPEND", "REPO", "INSTRUCTION"];
  const table = await textTable(rows, { head, right: [1, 4], names: [5], texts: [6], columns: io.columns });
  return more ? `${table}\nThere are older ones: taskd tasks --all` : table;
}

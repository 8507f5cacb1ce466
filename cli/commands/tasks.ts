/** The commands that list tasks: tasks, pending, and ui, which prints the address of the pages that do. */

import type { TaskListItem } from "../../broker/api/wire.ts";
import type { Stage } from "../../broker/task/stages.ts";
import { systemClock } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { brokerCommand } from "../plan/command_module.ts";
import { textTable } from "../text/text_table.ts";
import { age, shortId, spendWord, standing } from "./_task_text.ts";

/** Tasks asked for at a time. */
const PAGE = 500;

export const tasks = brokerCommand({
  async run(args, _io, broker) {
    const stage = args.choice<Stage>("stage");
    const requested = args.on("all") ? Infinity : args.numberOf("limit");
    const tasks: TaskListItem[] = [];
    let before: string | undefined;
    do {
      const page = await broker.tasks({
        limit: Math.min(PAGE, requested - tasks.length),
        ...(before === undefined ? {} : { before }),
        ...(stage === undefined ? {} : { stage }),
      });
      tasks.push(...page.tasks);
      before = page.next;
    } while (before !== undefined && tasks.length < requested);
    return { tasks, more: before !== undefined };
  },
  async render({ tasks, more }, { columns }) {
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
    const table = await textTable(rows, { head, right: [1, 4], names: [5], texts: [6], columns });
    return more ? `${table}\nThere are older ones: taskd tasks --all` : table;
  },
});

export const pending = brokerCommand({
  async run(_args, _io, broker) {
    return { tasks: await broker.pending() };
  },
  async render({ tasks }, { columns }) {
    if (tasks.length === 0) return "No task waits for approval";
    const now_ms = systemClock.now();
    const rows = tasks.map((task) => [
      shortId(task.id),
      age(task.since, now_ms),
      task.expires_in_ms === undefined ? "never" : formatDuration(task.expires_in_ms),
      spendWord(task),
      String(task.files_changed),
      String(task.lines_changed),
      [...(task.sensitive ? ["sensitive"] : []), ...task.gate.second_look].join(",") || "-",
      task.repo,
      task.instruction,
    ]);
    const head = ["ID", "WAITS", "EXPIRES", "SPEND", "FILES", "LINES", "LOOK TWICE", "REPO", "INSTRUCTION"];
    return await textTable(rows, { head, right: [1, 2, 3, 4, 5], names: [7], texts: [8], columns });
  },
});

export const ui = brokerCommand({
  run: async (_args, _io, broker) => ({ url: await broker.uiUrl() }),
  render: ({ url }) => url,
});

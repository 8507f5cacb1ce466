/** The commands of the queue: queue add, list, cancel. */

import { systemClock } from "../../lib/clock.ts";
import { brokerCommand } from "../plan/command_module.ts";
import { textTable } from "../text/text_table.ts";
import { readSubmission } from "./_submission.ts";
import { age, shortId } from "./_task_text.ts";

/** Queues a task, which is durable when this returns; prints its id alone, for scripts. */
export const add = brokerCommand({
  async run(args, io, broker) {
    return { item: await broker.enqueue(await readSubmission(args, io)) };
  },
  render: ({ item }) => item.id,
});

export const list = brokerCommand({
  async run(_args, _io, broker) {
    return { items: await broker.queue() };
  },
  async render({ items }, { columns }) {
    if (items.length === 0) return "The queue is empty";
    const now_ms = systemClock.now();
    const rows = items.map((item) => [
      shortId(item.id),
      age(item.queued_at, now_ms),
      item.state,
      item.task_id === undefined ? "-" : shortId(item.task_id),
      // Empty until it begins: the default of then.
      item.agent || "-",
      item.repo,
      item.instruction,
      item.reason ?? "-",
    ]);
    const head = ["ID", "AGE", "STATE", "TASK", "AGENT", "REPO", "INSTRUCTION", "REASON"];
    return await textTable(rows, { head, right: [1], names: [5], texts: [6, 7], columns });
  },
});

export const cancel = brokerCommand({
  async run(args, _io, broker) {
    const id = args.positional("id");
    await broker.cancelQueued(id);
    return { id };
  },
  render: ({ id }) => `Cancelled ${id}`,
});

/**
 * The command `taskd queue list`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { QueueItemView } from "../../broker/api/wire.ts";
import { systemClock } from "../../lib/clock.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { textTable } from "../text/text_table.ts";
import { age, shortId } from "./_task_text.ts";

/** The queue. */
export interface QueueListResult {
  items: QueueItemView[];
}

/** Asks for it. */
export async function run(_args: Args, _io: Io, broker: BrokerClient): Promise<QueueListResult> {
  return { items: await broker.queue() };
}

/** A table. */
export async function render({ items }: QueueListResult, io: Io): Promise<string> {
  if (items.length === 0) return "The queue is empty";
  const now_ms = systemClock.now();
  const rows = items.map((item) => [
    shortId(item.id),
    age(item.queued_at, now_ms),
    item.reason === undefined ? item.state : `${item.state}: ${item.reason}`,
    item.task_id === undefined ? "-" : shortId(item.task_id),
    // Empty until it begins: the default of then.
    item.agent || "-",
    item.repo,
    item.instruction,
  ]);
  const head = ["ID", "AGE", "STATE", "TASK", "AGENT", "REPO", "INSTRUCTION"];
  return await textTable(rows, { head, right: [1], names: [5], texts: [6], columns: io.columns });
}

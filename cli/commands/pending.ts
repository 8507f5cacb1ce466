/**
 * The command `taskd pending`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { PendingTask } from "../../broker/api/wire.ts";
import { systemClock } from "../../lib/clock.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { textTable } from "../text/text_table.ts";
import { age, shortId, spendWord } from "./_task_text.ts";

/** The tasks at the gate. */
export interface PendingResult {
  tasks: PendingTask[];
}

/** Asks for them. */
export async function run(_args: Args, _io: Io, broker: BrokerClient): Promise<PendingResult> {
  return { tasks: await broker.pending() };
}

/** A table. */
export async function render({ tasks }: PendingResult, io: Io): Promise<string> {
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
  return await textTable(rows, { head, right: [1, 2, 3, 4, 5], names: [7], texts: [8], columns: io.columns });
}

/**
 * The output of a task as plain text, in the order in which it came, whether from its
 * setup or its agent; safe to show on a terminal.
 */

import { sanitizeText } from "../../lib/text/sanitize.ts";
import type { Row } from "../task/rows.ts";
import type { TaskStore } from "../task/task_store.ts";

const encoder = new TextEncoder();

/**
 * The log of the task `id`, a whole id.
 *
 * @param last_seq The last row that is of interest; `Infinity` goes on with what is still to come.
 */
export async function* taskLog(
  id: string,
  { tasks, last_seq, signal }: { tasks: TaskStore; last_seq: number; signal: AbortSignal },
): AsyncGenerator<Uint8Array, void> {
  for await (const row of tasks.follow(id, { signal })) {
    if (row.type === "output") yield encoder.encode(shown(row));
    if (row.seq >= last_seq) return;
  }
}

function shown({ text, cut_chars }: Extract<Row, { type: "output" }>): string {
  const line = sanitizeText(text);
  const cut = cut_chars === undefined ? "" : `[${cut_chars} more characters were cut]\n`;
  return `${line.endsWith("\n") ? line : `${line}\n`}${cut}`;
}

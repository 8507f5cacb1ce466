/**
 * The output of a task as plain text, in the order in which it came, whether from its
 * setup or its agent; safe to show on a terminal.
 */

import { sanitizeText } from "../../lib/text/sanitize.ts";
import type { Row } from "../task/rows.ts";
import type { TaskStore } from "../task/task_store.ts";
import type { PieceSource } from "./pull_stream.ts";

const encoder = new TextEncoder();

/**
 * The log of the task `id`, a whole id.
 *
 * @param last_seq The last row that is of interest; `Infinity` goes on with what is still to come.
 */
export function taskLog(id: string, { tasks, last_seq }: { tasks: TaskStore; last_seq: number }): PieceSource {
  const stop = new AbortController();
  const rows = tasks.follow(id, { signal: stop.signal });
  let seq = 0;
  return {
    async next() {
      while (seq < last_seq) {
        const { done, value } = await rows.next();
        if (done) return undefined;
        seq = value.seq;
        if (value.type === "output") return encoder.encode(shown(value));
      }
      return undefined;
    },
    end() {
      stop.abort();
      void rows.return().catch(() => {});
    },
  };
}

function shown({ text, cut_chars }: Extract<Row, { type: "output" }>): string {
  const line = sanitizeText(text);
  const cut = cut_chars === undefined ? "" : `[${cut_chars} more characters were cut]\n`;
  return `${line.endsWith("\n") ? line : `${line}\n`}${cut}`;
}

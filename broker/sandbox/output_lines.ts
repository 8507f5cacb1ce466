/**
 * Output of unknown origin as lines that are safe to show: invalid UTF-8 is replaced, control characters are escaped,
 * a long line is cut, and after a total nothing is passed on, though all of it is read.
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { MAX_LINE_LENGTH } from "./runtime.ts";

export interface OutputBudget {
  left_bytes: number;
  truncated: boolean;
}

/** Reads until the stream ends; an abort of `signal` ends it as if it had. */
export async function readLines(
  stream: ReadableStream<Uint8Array>,
  budget: OutputBudget,
  onLine: (text: string) => void,
  signal?: AbortSignal,
): Promise<void> {
  const decoder = new TextDecoder();
  let line = "";
  let cut = false;
  const take = (text: string) => {
    line += text;
    if (line.length <= MAX_LINE_LENGTH) return;
    line = line.slice(0, MAX_LINE_LENGTH);
    cut = true;
  };
  const end = () => {
    onLine(sanitizeLine(line.replace(/\r$/, "")) + (cut ? " [line cut]" : ""));
    line = "";
    cut = false;
  };
  const consume = (text: string) => {
    const parts = text.split("\n");
    const rest = parts.pop()!;
    for (const part of parts) {
      take(part);
      end();
    }
    take(rest);
  };
  const reader = stream.getReader();
  const leave = () => void reader.cancel().catch(() => {});
  signal?.addEventListener("abort", leave);
  try {
    for (let { value } = await reader.read(); value !== undefined; { value } = await reader.read()) {
      const part = value.subarray(0, budget.left_bytes);
      budget.left_bytes -= part.length;
      if (part.length < value.length) budget.truncated = true;
      if (part.length > 0) consume(decoder.decode(part, { stream: true }));
    }
  } finally {
    signal?.removeEventListener("abort", leave);
    leave();
  }
  consume(decoder.decode());
  if (line !== "") end();
}

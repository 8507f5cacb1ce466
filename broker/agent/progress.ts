/**
 * The built-in agent's progress: JSON, one row per line, on its standard output. The last row is the
 * result. Texts are short, on one line, and free of control characters; who reads them checks that again.
 */

import { escapeJson, sanitizeLine } from "../../lib/text/sanitize.ts";

/** How an agent's run can end, with the process's exit code. */
export const OUTCOMES = {
  /** It called `finish`, or stopped calling tools. */
  finished: 0,
  failed: 1,
  turn_limit: 3,
  /** The gateway answered 402: the budget is spent. */
  budget_exhausted: 4,
  /** The gateway answered 429: the requests are used up. */
  request_cap: 5,
  /** The gateway answered 401: the task has ended. */
  token_refused: 6,
  request_refused: 7,
  /** Neither answered, after all attempts. */
  model_unavailable: 8,
  bad_model_output: 9,
} as const;

export type AgentOutcome = keyof typeof OUTCOMES;

export type AgentProgress =
  | { type: "turn"; turn: number }
  | { type: "said"; turn: number; text: string }
  | { type: "tool"; turn: number; tool: string; ok: boolean; summary: string }
  | { type: "waiting"; wait_ms: number; summary: string }
  | { type: "result"; outcome: AgentOutcome; summary: string; turns: number; requests: number };

export const MAX_PROGRESS_TEXT = 2_000;

/** `text` on one line, safe to show, and not longer than `max`. */
export function shortLine(text: string, max = MAX_PROGRESS_TEXT): string {
  const line = sanitizeLine(text.slice(0, max + 1).replaceAll(/\s+/g, " ").trim());
  return line.length <= max ? line : `${line.slice(0, max - 1)}…`;
}

export function encodeProgress(row: AgentProgress): string {
  const safe = Object.fromEntries(
    Object.entries(row).map(([key, value]) => [key, typeof value === "string" ? shortLine(value) : value]),
  );
  return `${escapeJson(JSON.stringify(safe))}\n`;
}

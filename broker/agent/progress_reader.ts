/**
 * Reads the rows of progress that a sandbox printed. The sandbox may have been taken over, so nothing is believed but
 * the shape, and texts are made safe once more.
 */

import * as v from "valibot";
import { type AgentProgress, MAX_PROGRESS_TEXT, OUTCOMES, shortLine } from "./progress.ts";
import { parseJson } from "../../lib/text/json.ts";

const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const text = v.pipe(v.string(), v.transform((value) => shortLine(value, MAX_PROGRESS_TEXT)));

const ProgressSchema: v.GenericSchema<unknown, AgentProgress> = v.variant("type", [
  v.strictObject({ type: v.literal("turn"), turn: count }),
  v.strictObject({ type: v.literal("said"), turn: count, text }),
  v.strictObject({ type: v.literal("tool"), turn: count, tool: text, ok: v.boolean(), summary: text }),
  v.strictObject({ type: v.literal("waiting"), wait_ms: count, summary: text }),
  v.strictObject({
    type: v.literal("result"),
    outcome: v.picklist(Object.keys(OUTCOMES) as (keyof typeof OUTCOMES)[]),
    summary: text,
    turns: count,
    requests: count,
  }),
]);

/** The row that `line` is; undefined for anything else, which is then only text. */
export function parseProgress(line: string): AgentProgress | undefined {
  if (!line.startsWith("{")) return undefined;
  const result = v.safeParse(ProgressSchema, parseJson(line));
  return result.success ? result.output : undefined;
}

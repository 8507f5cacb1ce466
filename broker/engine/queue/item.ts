/**
 * An item of the queue: what was asked for, and its state. Each is one JSON file that is replaced as a whole, so that a
 * crash leaves the old item or the new one. The item's task is the record of what became of it; the file only has to
 * say which task that is, or that there is none yet.
 */

import * as v from "valibot";
import { parseSealedJson, sealJson } from "../../../lib/sealed_json.ts";
import { escapeJson } from "../../../lib/text/sanitize.ts";
import { QUEUE_STATES, type QueueState } from "../../api/wire.ts";
import { SUBMIT_REQUEST, type TaskRecord } from "../../task/schema.ts";
import { DECIDER } from "../../task/stages.ts";
import { COUNT, RANDOM_ID, TEXT, TIME } from "../../task/value_schemas.ts";
import { NO_CI_CONCLUSION } from "../../task/recover.ts";

export const FINAL_STATES: ReadonlySet<QueueState> = new Set(["completed", "ci_failed", "cancelled", "dead_letter"]);

const ITEM = v.strictObject({
  v: v.literal(1),
  id: RANDOM_ID,
  /** Its place: items begin in the order of their numbers. */
  number: v.pipe(COUNT, v.minValue(1)),
  request: SUBMIT_REQUEST,
  /** As in the order of its task. */
  over_network: v.exactOptional(v.literal(true)),
  submitted_by: v.exactOptional(DECIDER),
  state: v.picklist(QUEUE_STATES),
  queued_at: TIME,
  updated_at: TIME,
  task_id: v.exactOptional(RANDOM_ID),
  reason: v.exactOptional(TEXT),
});

export type QueueItem = v.InferOutput<typeof ITEM>;

export function encodeItem(item: QueueItem): Uint8Array {
  return new TextEncoder().encode(`${sealJson(escapeJson(JSON.stringify(item)))}\n`);
}

/** The item that `text` holds; undefined when it holds none. */
export function parseItem(text: string): QueueItem | undefined {
  const parsed = v.safeParse(ITEM, parseSealedJson(text));
  return parsed.success ? parsed.output : undefined;
}

/**
 * The items in a queue's directory, and the paths of those that are damaged. Throws the file system's errors as they are.
 */
export function readItems(directory: string): { items: QueueItem[]; damaged: string[] } {
  const items: QueueItem[] = [];
  const damaged: string[] = [];
  for (const { name } of Deno.readDirSync(directory)) {
    if (!name.endsWith(".json")) continue;
    const path = `${directory}/${name}`;
    // Twice: a bit may flip in a read.
    const item = parseItem(Deno.readTextFileSync(path)) ?? parseItem(Deno.readTextFileSync(path));
    if (item === undefined || name !== `${item.id}.json`) damaged.push(path);
    else items.push(item);
  }
  return { items, damaged };
}

export function standing(record: Pick<TaskRecord, "stage" | "outcome" | "reason" | "ci">): {
  state: QueueState;
  reason?: string;
} {
  const { stage, outcome, ci, reason } = record;
  if (stage === "awaiting_approval" || stage === "awaiting_ci") return { state: stage };
  // Also while an approved change waits for another round.
  if (stage !== "done" || outcome === undefined) return { state: "running" };
  const why = reason === undefined ? {} : { reason };
  switch (outcome) {
    case "no_diff":
    case "promoted":
      return { state: "completed", ...why };
    case "pushed":
      if (ci?.state === "failed") return { state: "ci_failed", reason: ci.detail ?? "a check failed" };
      if (ci?.state === "no_conclusion") return { state: "dead_letter", reason: ci.detail ?? NO_CI_CONCLUSION };
      return { state: "completed", ...why };
    case "denied":
    case "cancelled":
      return { state: "cancelled", ...why };
    case "timed_out":
    case "setup_failed":
    case "agent_failed":
    case "policy_blocked":
    case "push_failed":
      return { state: "dead_letter", reason: `${outcome}: ${reason ?? ""}` };
  }
}

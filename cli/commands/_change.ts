/**
 * A task's change as review and approve show it: the brief first, then the diff.
 *
 * @module
 */

import { crypto } from "@std/crypto/crypto";
import { renderBrief } from "../../broker/task/brief.ts";
import type { TrustBrief } from "../../broker/task/schema.ts";
import type { BrokerClient } from "../../broker/client/client.ts";
import type { TaskView } from "../../broker/api/wire.ts";
import type { Gate } from "../../broker/task/stages.ts";
import { TaskdError } from "../../lib/errors.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { decodeDiff, diffText } from "../text/diff_text.ts";
import { briefOf } from "./inspect.ts";

/** A change. */
export interface GateChange {
  task: TaskView;
  brief: TrustBrief | null;
  /** As git writes it: anything can be in it. */
  diff: string;
}

/**
 * Asks for a task's change.
 *
 * @throws {TaskdError} `not_found` before there is one; `corrupt` when the diff is not the one that the task's record names:
 * nobody should decide by it.
 */
export async function readChange(broker: BrokerClient, task: TaskView): Promise<GateChange> {
  const { bytes } = await broker.diff(task.id);
  const recorded = recordedDigest(task);
  if (recorded !== undefined && recorded !== new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex()) {
    throw new TaskdError("corrupt", `Cannot show the change of the task ${task.id}: its diff was altered on the disk`, {
      hint: "The change itself is in git and is not touched; deny the task and run it again",
    });
  }
  return { task, brief: await briefOf(broker, task.id), diff: decodeDiff(bytes) };
}

/** SHA-256 of the diff's text, as it was written down when the change was collected. */
function recordedDigest({ evidence }: TaskView): string | undefined {
  const { change } = evidence;
  if (typeof change !== "object" || change === null || Array.isArray(change)) return undefined;
  return typeof change.shown_sha256 === "string" ? change.shown_sha256 : undefined;
}

/** What the gate asks about; undefined when the task does not wait for approval. */
export function openGate({ stage, gate }: TaskView): Gate | undefined {
  return stage === "awaiting_approval" ? gate : undefined;
}

/** The brief, safe to print. */
export function knownText({ task, brief }: Pick<GateChange, "task" | "brief">): string {
  const { trace } = task;
  return [
    ...(trace.intact ? [] : [`THE RECORD OF THIS TASK IS ALTERED OR DAMAGED: ${sanitizeLine(trace.fault)}`, ""]),
    ...(task.sensitive ? ["This task is marked as sensitive.", ""] : []),
    "instruction:",
    ...task.instruction.split("\n").map((line) => `  ${sanitizeLine(line)}`),
    "",
    brief === null ? "There is no brief: nothing was established about this change" : renderBrief(brief).trimEnd(),
  ].join("\n");
}

/** The diff, safe to print. */
export function shownDiff({ diff }: Pick<GateChange, "diff">, colours: boolean): string {
  return diff === "" ? "The diff is empty" : diffText(diff, colours);
}

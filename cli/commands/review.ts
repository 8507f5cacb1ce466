/**
 * The command `taskd review`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { type GateChange, knownText, openGate, readChange, shownDiff } from "./_change.ts";
import { approveCommand, shortId, standing } from "./_task_text.ts";

/** A change, and how to approve it. */
export interface ReviewResult extends GateChange {
  /** Null when the task does not wait for approval. */
  approve_command: string | null;
}

/** Prints the change; with --json it is the result. */
export async function run(args: Args, io: Io, broker: BrokerClient): Promise<ReviewResult | undefined> {
  const change = await readChange(broker, await broker.task(args.positional("id")));
  const { task } = change;
  const gate = openGate(task);
  const approve_command = gate === undefined ? null : approveCommand(task.id, gate);
  if (io.json) return { ...change, approve_command };
  io.styled(knownText(change));
  io.styled(`\n${shownDiff(change, io.colours || args.on("color"))}\n`);
  io.out(
    approve_command === null ? `The task is at ${standing(task)}: there is nothing to approve` : [
      "To approve exactly this change:",
      `  ${approve_command}`,
      "To refuse it:",
      `  taskd deny ${shortId(task.id)} "why"`,
    ].join("\n"),
  );
  return undefined;
}

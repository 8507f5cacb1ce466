/**
 * The command `taskd checkpoint`.
 *
 * @module
 */

import type { CheckpointResult } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName, count } from "./_result_text.ts";

/** Stores and names the current content. */
export async function run(args: Args, io: Io, ops: Operations): Promise<CheckpointResult> {
  const note = args.text("note");
  return await ops.call("checkpoint", {
    ...args.address("branch"),
    name: args.positional("checkpoint"),
    ...(note === undefined ? {} : { note }),
  }, io.progress(`checkpoint ${args.positional("branch")}`));
}

/** One line. */
export function render(result: CheckpointResult): string {
  const name = `${branchName(result)}@${result.checkpoint}`;
  const changed = result.pages === 0
    ? "nothing had changed"
    : `${result.kind} of ${count(result.pages, "page")}, ${formatBytes(result.stored_bytes)} stored`;
  const doubt = result.overwrite_detected === undefined
    ? ""
    : "\nThe store's head may not be what was written: another program writes to the store; see `taskd verify`";
  return `Checkpointed ${name} (txid ${result.txid}, ${changed})${doubt}`;
}

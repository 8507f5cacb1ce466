/**
 * The command `taskd session close`.
 *
 * @module
 */

import type { CloseAnswer } from "../../lib/protocol/messages.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName } from "./_result_text.ts";

/** Flushes and closes. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<CloseAnswer> {
  return await ops.call("close", args.address("branch"));
}

/** What was closed, and why it had failed if it had. */
export function render(result: CloseAnswer): string {
  if (result.error === undefined) return `Closed ${branchName(result)} (txid ${result.txid})`;
  return `Closed ${branchName(result)}, which had failed: ${sanitizeLine(result.error.message)}`;
}

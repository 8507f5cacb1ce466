/**
 * The commands `taskd protect` and `taskd unprotect`.
 *
 * @module
 */

import type { OpAnswer } from "../../lib/protocol/messages.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName } from "./_result_text.ts";

/** Protects the branch, or ends its protection. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<OpAnswer<"protect">> {
  return await ops.call("protect", { ...args.address("branch"), on: args.command === "protect" });
}

/** One line. */
export function render(result: OpAnswer<"protect">): string {
  return `${result.protected ? "Protected" : "Unprotected"} ${branchName(result)}`;
}

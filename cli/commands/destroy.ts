/**
 * The command `taskd destroy`.
 *
 * @module
 */

import type { OpAnswer } from "../../lib/protocol/messages.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName } from "./_result_text.ts";

/** Removes the branch. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<OpAnswer<"destroy">> {
  return await ops.call("destroy", { ...args.address("branch"), force: args.on("force") });
}

/** One line. */
export function render(result: OpAnswer<"destroy">): string {
  return `Destroyed ${branchName(result)}`;
}

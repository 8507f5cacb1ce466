/**
 * The command `taskd destroy`.
 *
 * @module
 */

import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName } from "./_result_text.ts";

/** The branch that is gone. */
export interface DestroyResult {
  db: string;
  branch: string;
}

/** Removes the branch. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<DestroyResult> {
  return await ops.branches.destroy(args.address("branch"), { force: args.on("force") });
}

/** One line. */
export function render(result: DestroyResult): string {
  return `Destroyed ${branchName(result)}`;
}

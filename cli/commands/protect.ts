/**
 * The command `taskd protect`.
 *
 * @module
 */

import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName, type ProtectResult } from "./_result_text.ts";

/** Refuses to destroy the branch from now on. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<ProtectResult> {
  return await ops.branches.protect(args.address("branch"), true);
}

/** One line. */
export function render(result: ProtectResult): string {
  return `Protected ${branchName(result)}`;
}

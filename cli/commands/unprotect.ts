/**
 * The command `taskd unprotect`.
 *
 * @module
 */

import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName, type ProtectResult } from "./_result_text.ts";

/** Allows the branch to be destroyed again. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<ProtectResult> {
  return await ops.branches.protect(args.address("branch"), false);
}

/** One line. */
export function render(result: ProtectResult): string {
  return `Unprotected ${branchName(result)}`;
}

/**
 * The command `taskd compact`.
 *
 * @module
 */

import type { CompactResult } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName, count } from "./_result_text.ts";

/** Rewrites the branch. */
export async function run(args: Args, io: Io, ops: Operations): Promise<CompactResult> {
  return await ops.call("compact", args.address("branch"), io.progress(`compact ${args.positional("branch")}`));
}

/** One line. */
export function render(result: CompactResult): string {
  const before = count(result.objects_before, "object");
  return `Compacted ${branchName(result)}: ${before} became one of ${formatBytes(result.stored_bytes)}`;
}

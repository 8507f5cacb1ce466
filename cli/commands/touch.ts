/**
 * The command `taskd touch`.
 *
 * @module
 */

import { formatDuration } from "../../lib/text/duration.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations, TouchResult } from "../plan/operations.ts";
import { branchName } from "./_result_text.ts";

/** Starts the time to live anew; a time of 0 removes it. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<TouchResult> {
  const ttl_ms = args.number("ttl");
  return await ops.branches.touch(args.address("branch"), ttl_ms === undefined ? {} : { ttl_ms: ttl_ms || null });
}

/** One line. */
export function render(result: TouchResult): string {
  const life = result.ttl_ms === undefined ? "never expires" : `expires in ${formatDuration(result.ttl_ms)}`;
  return `Touched ${branchName(result)}: it ${life}`;
}

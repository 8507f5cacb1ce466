/**
 * The command `taskd touch`.
 *
 * @module
 */

import type { TouchResult } from "../../lib/store/results.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { changedLifetime, lifetimeText } from "./_lifetime.ts";
import { branchName } from "./_result_text.ts";

/** Restarts the time to live; a time of 0 ends it. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<TouchResult> {
  return await ops.call("touch", { ...args.address("branch"), ...changedLifetime(args) });
}

/** One line. */
export function render(result: TouchResult): string {
  const ttl = lifetimeText(result);
  return `Touched ${branchName(result)}: it ${ttl === undefined ? "never expires" : `expires in ${ttl}`}`;
}

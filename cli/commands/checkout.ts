/**
 * The command `taskd checkout`.
 *
 * @module
 */

import type { CheckoutResult } from "../../lib/store/results.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";

/** Makes the file. */
export async function run(args: Args, io: Io, ops: Operations): Promise<CheckoutResult> {
  const label = `checkout ${args.positional("address")}`;
  return await ops.branches.checkout(args.address("address"), {
    force: args.on("force"),
    onProgress: io.progress(label),
    signal: io.signal,
  });
}

/** The path alone, so that a script can use it. */
export function render(result: CheckoutResult): string {
  return result.path;
}

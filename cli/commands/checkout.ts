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
  const onProgress = io.progress(`checkout ${args.positional("address")}`);
  const { checkpoint, ...branch } = args.address("address");
  if (checkpoint !== undefined) return await ops.call("checkout-at", { ...branch, checkpoint }, onProgress);
  return await ops.call("checkout", { ...branch, force: args.on("force") }, onProgress);
}

/** The path alone, so that a script can use it. */
export function render(result: CheckoutResult): string {
  return result.path;
}

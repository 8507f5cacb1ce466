/**
 * The command `taskd session open`.
 *
 * @module
 */

import type { OpenAnswer } from "../../lib/protocol/messages.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";

/** Opens the session. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<OpenAnswer> {
  return await ops.call("open", args.address("branch"));
}

/** The path alone, so that a script can use it. */
export function render(result: OpenAnswer): string {
  return result.checkout;
}

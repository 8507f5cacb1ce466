/**
 * The command `taskd session open`.
 *
 * @module
 */

import type { OpenAnswer } from "../../lib/protocol/messages.ts";
import type { Args } from "../args.ts";
import type { Io } from "../io.ts";
import { liveSessions, type Operations } from "../operations.ts";

/** Opens the session. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<OpenAnswer> {
  return await liveSessions(ops).open(args.address("branch"));
}

/** The path alone, so that a script can use it. */
export function render(result: OpenAnswer): string {
  return result.checkout;
}

/**
 * The command `taskd rollback`.
 *
 * @module
 */

import { parseName } from "../../lib/store/names.ts";
import type { RepointResult } from "../../lib/store/results.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { repointFlags, repointText } from "./_repoint.ts";
import { branchName } from "./_result_text.ts";

/** Takes the branch back. */
export async function run(args: Args, io: Io, ops: Operations): Promise<RepointResult> {
  const to = parseName(args.text("to") ?? "", "checkpoint");
  return await ops.call(
    "rollback",
    { ...args.address("branch"), to, ...repointFlags(args) },
    io.progress(`rollback ${args.positional("branch")}`),
  );
}

/** What was done, and what to do next. */
export function render(result: RepointResult, _io: Io, args: Args): string {
  return repointText(`Rolled ${branchName(result)} back to ${args.text("to")}`, result);
}

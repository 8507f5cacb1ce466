/**
 * The command `taskd promote`.
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

/** Repoints the other branch. */
export async function run(args: Args, io: Io, ops: Operations): Promise<RepointResult> {
  const from = args.address("branch");
  const onto = parseName(args.text("onto") ?? "", "branch");
  return await ops.call(
    "promote",
    { ...from, onto, ...repointFlags(args) },
    io.progress(`promote ${args.positional("branch")}`),
  );
}

/** What was done, and what to do next. */
export function render(result: RepointResult, _io: Io, args: Args): string {
  return repointText(`Promoted ${args.positional("branch")} onto ${branchName(result)}`, result);
}

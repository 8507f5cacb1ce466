/**
 * The command `taskd fork`.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import { type Address, parseName } from "../../lib/store/names.ts";
import type { ForkResult } from "../../lib/store/results.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { newLifetime } from "./_lifetime.ts";
import { branchName } from "./_result_text.ts";

/** Makes the branch. */
export async function run(args: Args, io: Io, ops: Operations): Promise<ForkResult> {
  const { checkpoint, ...branch } = startOf(args);
  return await ops.call("fork", {
    ...branch,
    ...(checkpoint === undefined ? {} : { at: checkpoint }),
    ...newLifetime(args),
    new_branch: args.positional("new-branch"),
    materialize: args.on("materialize"),
  }, io.progress(`fork ${args.positional("address")}`));
}

function startOf(args: Args): Address {
  const address = args.address("address");
  const at = args.text("at");
  if (at === undefined) return address;
  if (address.checkpoint !== undefined) {
    throw new TaskdError("usage", `Fork is given two checkpoints, ${address.checkpoint} and ${JSON.stringify(at)}`, {
      hint: "Name the checkpoint in the address or with --at, not both",
    });
  }
  return { ...address, checkpoint: parseName(at, "checkpoint") };
}

/** One line. */
export function render(result: ForkResult): string {
  return `Forked ${branchName(result)} (${result.mode}, txid ${result.txid})`;
}

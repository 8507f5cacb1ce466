/**
 * The command `taskd lease`.
 *
 * @module
 */

import type { LeaseInfo } from "../../lib/store/store.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { textList } from "../text/text_table.ts";
import { branchName, stamp } from "./_result_text.ts";

/** Reads the lease. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<LeaseInfo> {
  return await ops.call("lease", args.address("branch"));
}

/** Names and values. */
export async function render(result: LeaseInfo): Promise<string> {
  return await textList([
    ["branch", branchName(result)],
    ["lease", result.live ? "live" : "none"],
    ["epoch", String(result.epoch)],
    ["holder", result.holder],
    ["expires", result.expires_at === undefined ? undefined : stamp(result.expires_at)],
  ]);
}

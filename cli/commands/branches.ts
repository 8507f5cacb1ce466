/**
 * The command `taskd branches`.
 *
 * @module
 */

import type { BranchInfo } from "../../lib/store/results.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { textTable } from "../text/text_table.ts";
import { branchName, stamp } from "./_result_text.ts";

/** The branches. */
export interface BranchesResult {
  branches: BranchInfo[];
}

/** Lists them. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<BranchesResult> {
  return { branches: await ops.branches.branches(args.optional("db")) };
}

/** A table, and a line for each branch that cannot be read. */
export async function render(result: BranchesResult, io: Io): Promise<string> {
  if (result.branches.length === 0) return "There are no branches";
  const rows = result.branches.map((branch) => [
    branchName(branch),
    branch.state,
    `storage=${branch.shared ? "shared" : "materialized"}`,
    String(branch.txid),
    String(branch.checkpoints.length),
    branch.ttl_ms === undefined ? "never" : formatDuration(branch.ttl_ms),
    stamp(branch.touched_at),
    branch.protected ? "protected" : "",
  ]);
  const head = ["BRANCH", "STATE", "STORAGE", "TXID", "CHECKPOINTS", "TTL", "TOUCHED", ""];
  const table = await textTable(rows, { head, right: [3, 4], names: [0], columns: io.columns });
  const problems = result.branches.flatMap((branch) =>
    branch.problem === undefined ? [] : [`${branchName(branch)}: ${sanitizeLine(branch.problem)}`]
  );
  return [table, ...problems].join("\n");
}

/**
 * The command `taskd branches`.
 *
 * @module
 */

import type { OpAnswer } from "../../lib/protocol/messages.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { textTable } from "../text/text_table.ts";
import { lifetimeText } from "./_lifetime.ts";
import { branchName, stamp } from "./_result_text.ts";

/** Lists them. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<OpAnswer<"branches">> {
  const db = args.optional("db");
  return await ops.call("branches", db === undefined ? {} : { db });
}

/** A table, and a line for each branch that cannot be read. */
export async function render(result: OpAnswer<"branches">, io: Io): Promise<string> {
  if (result.branches.length === 0) return "There are no branches";
  const rows = result.branches.map((branch) => [
    branchName(branch),
    branch.state,
    `storage=${branch.shared ? "shared" : "materialized"}`,
    String(branch.txid),
    String(branch.checkpoints.length),
    lifetimeText(branch) ?? "never",
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

/**
 * The command `taskd databases`.
 *
 * @module
 */

import type { OpAnswer } from "../../lib/protocol/messages.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { textTable } from "../text/text_table.ts";

/** Lists them. */
export async function run(_args: Args, _io: Io, ops: Operations): Promise<OpAnswer<"databases">> {
  return await ops.call("databases", {});
}

/** A table. */
export async function render(result: OpAnswer<"databases">, io: Io): Promise<string> {
  if (result.databases.length === 0) return "There are no databases";
  const rows = result.databases.map((database) => [database.db, String(database.branches)]);
  return await textTable(rows, { head: ["DATABASE", "BRANCHES"], right: [1], names: [0], columns: io.columns });
}

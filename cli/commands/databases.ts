/**
 * The command `taskd databases`.
 *
 * @module
 */

import type { DatabaseInfo } from "../../lib/store/results.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { textTable } from "../text/text_table.ts";

/** The databases. */
export interface DatabasesResult {
  databases: DatabaseInfo[];
}

/** Lists them. */
export async function run(_args: Args, _io: Io, ops: Operations): Promise<DatabasesResult> {
  return { databases: await ops.branches.databases() };
}

/** A table. */
export async function render(result: DatabasesResult, io: Io): Promise<string> {
  if (result.databases.length === 0) return "There are no databases";
  const rows = result.databases.map((database) => [database.db, String(database.branches)]);
  return await textTable(rows, { head: ["DATABASE", "BRANCHES"], right: [1], names: [0], columns: io.columns });
}

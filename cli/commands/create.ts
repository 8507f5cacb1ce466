/**
 * The command `taskd create`.
 *
 * @module
 */

import type { CreateResult } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { branchName } from "./_result_text.ts";

/** Creates the database. */
export async function run(args: Args, io: Io, ops: Operations): Promise<CreateResult> {
  const db = args.positional("db");
  const from = args.text("from");
  return await ops.call("create", { db, ...(from === undefined ? {} : { from }) }, io.progress(`create ${db}`));
}

/** One line. */
export function render(result: CreateResult): string {
  const sizes = `${formatBytes(result.size_bytes)}, ${formatBytes(result.stored_bytes)} stored`;
  return `Created ${branchName(result)} (${sizes})`;
}

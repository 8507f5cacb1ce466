/**
 * The command `taskd session flush`.
 *
 * @module
 */

import type { FlushResult } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { count } from "./_result_text.ts";

/** Makes every commit durable. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<FlushResult> {
  return await ops.call("flush", args.address("branch"));
}

/** One line. */
export function render(result: FlushResult, _io: Io, args: Args): string {
  const what = result.kind === "none"
    ? "nothing new"
    : `${result.kind} of ${count(result.pages, "page")}, ${formatBytes(result.bytes)}`;
  return `Flushed ${args.positional("branch")} (txid ${result.txid}, ${what})`;
}

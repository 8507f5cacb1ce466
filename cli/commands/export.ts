/**
 * The command `taskd export`.
 *
 * @module
 */

import { hasCode } from "../../lib/errors.ts";
import type { ExportResult } from "../../lib/store/store.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";

/** Writes the file, after the live session, if there is one, has made its commits durable. */
export async function run(args: Args, io: Io, ops: Operations): Promise<ExportResult> {
  const address = args.address("address");
  if (ops.hasDaemon && address.checkpoint === undefined) {
    await ops.call("flush", address).catch((error) => {
      if (!hasCode(error, "no_session")) throw error;
    });
  }
  return await ops.call("export", {
    ...address,
    path: args.positional("file"),
    force: args.on("force"),
  }, io.progress(`export ${args.positional("address")}`));
}

/** One line. */
export function render(result: ExportResult): string {
  return `Wrote ${sanitizeLine(result.path)} (${formatBytes(result.size_bytes)}, txid ${result.txid})`;
}

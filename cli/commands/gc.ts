/**
 * The command `taskd gc`.
 *
 * @module
 */

import type { GcResult } from "../../lib/store/gc.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import type { Operations } from "../plan/operations.ts";
import { count } from "./_result_text.ts";

/** What a pass did, or would do. */
export type GcReport = GcResult & { dry_run: boolean };

/** Runs one pass. */
export async function run(args: Args, _io: Io, ops: Operations): Promise<GcReport> {
  const dry_run = args.on("dry-run");
  const result = await ops.call("gc", { grace_ms: args.numberOf("grace"), dry_run });
  return { ...result, dry_run };
}

/** One line for each thing that can become of an object. */
export function render(result: GcReport): string {
  const [deleted, marked] = result.dry_run ? ["would be deleted", "would be marked"] : ["deleted", "marked"];
  return [
    `${count(result.marked, "object")} reached by branches`,
    `${count(result.deleted, "object")} ${deleted} (${formatBytes(result.bytes_deleted)})`,
    `${count(result.tombstoned, "object")} newly ${marked} as unreachable`,
    `${count(result.backlog, "object")} waiting for a grace period to end`,
    `${count(result.kept, "object")} left alone`,
  ].join("\n");
}

/**
 * The command `taskd prune`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Pruned } from "../../broker/api/wire.ts";
import { systemClock } from "../../lib/clock.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { count } from "./_result_text.ts";

/** Removes records, or lists those it would remove. */
export async function run(args: Args, _io: Io, broker: BrokerClient): Promise<Pruned> {
  // Older than the epoch is older than everything: a date can be no earlier.
  const before = new Date(Math.max(0, systemClock.now() - args.numberOf("older-than"))).toISOString();
  return await broker.prune({ before, dry_run: args.on("dry-run") });
}

/** The ids, and how many. */
export function render({ pruned, dry_run }: Pruned): string {
  const words = dry_run ? "would be removed" : "removed";
  return [...pruned, `${count(pruned.length, "task")} ${words}`].join("\n");
}

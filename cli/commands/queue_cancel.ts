/**
 * The command `taskd queue cancel`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";

/** The item, as it was named. */
export interface QueueCancelResult {
  id: string;
}

/** Takes it off the queue. */
export async function run(args: Args, _io: Io, broker: BrokerClient): Promise<QueueCancelResult> {
  const id = args.positional("id");
  await broker.cancelQueued(id);
  return { id };
}

/** One line. */
export function render({ id }: QueueCancelResult): string {
  return `Cancelled ${id}`;
}

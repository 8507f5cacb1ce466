/**
 * The command `taskd queue add`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { QueueItemView } from "../../broker/api/wire.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { readSubmission } from "./_submission.ts";

/** The item. */
export interface QueueAddResult {
  item: QueueItemView;
}

/** Queues a task; it is durable when this returns. */
export async function run(args: Args, io: Io, broker: BrokerClient): Promise<QueueAddResult> {
  return { item: await broker.enqueue(await readSubmission(args, io)) };
}

/** The id alone, for scripts. */
export function render({ item }: QueueAddResult): string {
  return item.id;
}

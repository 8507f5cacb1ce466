/**
 * The command `taskd kill`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";

/** The task. */
export interface EndedResult {
  id: string;
  /** Whether it has ended; otherwise it is about to. */
  ended: boolean;
}

/** Ends a task, without waiting for what its agent may be owed. */
export async function run(args: Args, _io: Io, broker: BrokerClient): Promise<EndedResult> {
  const { id } = await broker.task(args.positional("id"));
  await broker.kill(id, args.optional("reason") ?? "");
  return { id, ended: (await broker.task(id)).stage === "done" };
}

/** One line. */
export function render({ id, ended }: EndedResult): string {
  if (ended) return `Ended ${id}`;
  return `Ending ${id}: its sandbox is being stopped, and an answer that was already asked for is metered, for a ` +
    "minute at most";
}

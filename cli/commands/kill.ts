/**
 * The command `taskd kill`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../args.ts";
import type { Io } from "../io.ts";

/** The task. */
export interface EndedResult {
  id: string;
}

/** Ends a task. */
export async function run(args: Args, _io: Io, broker: BrokerClient): Promise<EndedResult> {
  const { id } = await broker.task(args.positional("id"));
  await broker.kill(id, args.optional("reason") ?? "");
  return { id };
}

/** One line. */
export function render({ id }: EndedResult): string {
  return `Ended ${id}`;
}

/**
 * The command `taskd deny`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";

/** The task. */
export interface DeniedResult {
  id: string;
}

/** Refuses the change of a task at the gate. */
export async function run(args: Args, _io: Io, broker: BrokerClient): Promise<DeniedResult> {
  const { id } = await broker.task(args.positional("id"));
  await broker.deny(id, args.optional("reason") ?? "");
  return { id };
}

/** One line. */
export function render({ id }: DeniedResult): string {
  return `Denied ${id}: nothing is pushed`;
}

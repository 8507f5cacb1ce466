/**
 * The command `taskd retry`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { checkFollowing, follow, type FollowedTask } from "./_following.ts";

export { exitCode, render } from "./_following.ts";

/** Submits the task again and follows the new one. */
export async function run(args: Args, io: Io, broker: BrokerClient): Promise<FollowedTask> {
  checkFollowing(args, io);
  return await follow(args, io, broker, await broker.retry(args.positional("id")));
}

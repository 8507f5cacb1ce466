/**
 * The command `taskd submit`.
 *
 * @module
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { checkFollowing, follow, type FollowedTask } from "./_following.ts";
import { readSubmission } from "./_submission.ts";

export { exitCode, render } from "./_following.ts";

/** Submits a task and follows it. */
export async function run(args: Args, io: Io, broker: BrokerClient): Promise<FollowedTask> {
  checkFollowing(args, io);
  return await follow(args, io, broker, await broker.submit(await readSubmission(args, io)));
}

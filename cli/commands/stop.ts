/**
 * The command `taskd stop`.
 */

import { stopBroker } from "../../broker/client/lifecycle.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { findOptions, terminating } from "./_environment.ts";

export interface StopResult {
  pid: number;
}

export async function run(args: Args, io: Io): Promise<StopResult> {
  const pid = await stopBroker({
    ...findOptions(args),
    terminate: terminating(args, io.signal),
    timeout_ms: args.numberOf("timeout"),
    signal: io.signal,
  });
  if (pid !== undefined) return { pid };
  throw new TaskdError("broker_unreachable", "Cannot stop the broker: none is running", {
    hint: "There is nothing to do",
  });
}

export function render({ pid }: StopResult): string {
  return `Stopped the broker (pid ${pid})`;
}

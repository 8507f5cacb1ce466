/** The command `taskd stop`. */

import { stopBroker } from "../../broker/client/lifecycle.ts";
import { TaskdError } from "../../lib/errors.ts";
import { localCommand } from "../plan/command_module.ts";
import { findOptions, terminating } from "./_environment.ts";

export const stop = localCommand({
  async run(args, io) {
    const pid = await stopBroker({
      ...findOptions(args),
      terminate: terminating(args, io.signal),
      timeout_ms: args.numberOf("timeout"),
      signal: io.signal,
    });
    if (pid !== undefined) return { pid };
    throw new TaskdError("broker_unreachable", "Cannot stop the broker: none is running", {
      hint: "There is nothing to do: taskd serve is another daemon, which Ctrl-C or kill ends",
    });
  },
  render: ({ pid }) => `Stopped the broker (pid ${pid})`,
});

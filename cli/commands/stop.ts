/** The command `taskd stop`. */

import { findBroker, stopBroker } from "../../broker/client/lifecycle.ts";
import { TaskdError } from "../../lib/errors.ts";
import { localCommand } from "../plan/command_module.ts";
import { settleFound } from "./_running_tasks.ts";
import { findOptions, terminating } from "./_environment.ts";

export const stop = localCommand({
  async run(args, io) {
    const options = findOptions(args);
    await settleFound(await findBroker(options), args, io);
    const pid = await stopBroker({
      ...options,
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

/** The promise about what a broker makes. */

import { holdBroker } from "../../cli/redteam/file_modes.ts";
import type { CommonPromise } from "./context.ts";

export const MADE_PROMISES: readonly CommonPromise[] = [
  {
    id: "files.made",
    promise: "What a broker makes is for its user alone: directories 0700, records, diffs, logs and the socket 0600",
    attacks: "Every file and directory of a broker that has run a task, under a umask of 0",
    async run(trial, context) {
      const { broker } = await context.atGate();
      const directory = `${broker.home}/.taskd`;
      const installed = { directory, audit_root: broker.audit, squid_run_dir: `${directory}/squid` };
      await holdBroker(trial, { ...installed, live_socket: broker.broker.socket });
    },
  },
];

/** The command `taskd init`. */

import { seedHome } from "../../broker/settings/seed.ts";
import { localCommand } from "../plan/command_module.ts";

export const init = localCommand({
  run: (args) => seedHome(args.broker.home),
  render: ({ directory, created, kept }) =>
    [
      ...created.map((path) => `Wrote ${path}`),
      ...kept.map((path) => `Kept ${path}, which was there`),
      created.length === 0 ? `${directory} was set up already` : "Next: taskd setup",
    ].join("\n"),
});

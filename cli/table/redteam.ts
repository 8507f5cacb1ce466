/**
 * The command that attacks the installation it belongs to.
 */

import type { CommandSpec } from "../plan/command_spec.ts";
import { redteamNeeds } from "./_broker_needs.ts";
import { RUNTIME_NAMES } from "./broker_admin.ts";

export const REDTEAM_COMMANDS: readonly CommandSpec[] = [
  {
    name: "redteam",
    group: "Broker",
    summary: "Attack this installation, and say for each promise whether it held",
    details:
      "Runs attacks on every security promise against the installed program, runtime and images, in a folder and on " +
      "ports of its own: no key is used, nothing is spent, nothing leaves the machine, nothing is left behind. A broker " +
      "that runs is not disturbed; the modes of its files are checked. Exits with 1 when an attack succeeds.",
    positionals: [],
    flags: [
      {
        name: "runtime",
        kind: "string",
        value: "RUNTIME",
        choices: RUNTIME_NAMES,
        help: "Whose containers are attacked; by default the setting runtime. deno leaves containers out",
      },
      {
        name: "only",
        kind: "string",
        value: "NAME",
        repeatable: true,
        help: "A promise, such as egress.server_name, or a group of them, such as egress; may be repeated",
      },
    ],
    examples: [
      { words: "redteam", why: "Everything, in about a minute" },
      { words: "redteam --only egress --only control.gate", why: "One group and one promise" },
      { words: "redteam --json", why: "For a program: each promise with what went through" },
    ],
    output: "data",
    uses: "home",
    config: "required",
    needs: redteamNeeds,
  },
];

/**
 * The command that shows what the program does.
 */

import type { CommandSpec } from "../plan/command_spec.ts";
import { ANYWHERE, NO_PERMISSIONS, type PermissionSet } from "../plan/permissions.ts";
import type { Plan } from "../plan/plan.ts";
import { hostOf } from "../plan/plan.ts";

export const DEMO_RUNTIMES = ["deno", "podman"] as const;

/** Sizes of the demo's database, in MiB. */
export const DEMO_SIZES_MB = { smallest: 12, usual: 30, largest: 9_999 } as const;

/** Where programs and packages are, and other images than the usual ones. */
export const DEMO_VARIABLES: readonly string[] = ["JSR_URL", "PATH", "SANDBOX_IMAGE", "TASKD_ANCHOR_IMAGE"];

/**
 * What the demo works with: the temporary directory. The network has no list, because its sockets lie in a directory
 * that it makes; programs have none, because git and the SQLite clients are wherever PATH leads, and what it starts it
 * also ends.
 */
function demoNeeds(plan: Plan): PermissionSet {
  const { temporary, tool_variables } = hostOf(plan);
  return {
    ...NO_PERMISSIONS,
    read: [temporary],
    write: [temporary],
    net: [ANYWHERE],
    run: [ANYWHERE],
    env: [...tool_variables, ...DEMO_VARIABLES],
  };
}

export const DEMO_COMMANDS: readonly CommandSpec[] = [
  {
    name: "demo",
    group: "Program",
    summary: "Show both halves on real input, in half a minute",
    details:
      "An agent with a scripted model fixes a program and its data, and one approval pushes the one and promotes " +
      "the other; then migrations are tried on branches of a shop's database while an application writes to it. It " +
      "works in a temporary directory, with daemons and a home directory of its own, and leaves nothing behind. It " +
      "needs git and an SQLite client (the sqlite3 shell or Python 3), and no network, key or container.",
    positionals: [],
    flags: [
      { name: "keep", kind: "boolean", help: "Leave the directory, to look around" },
      { name: "quick", kind: "boolean", help: `A shop of ${DEMO_SIZES_MB.smallest} MB` },
      {
        name: "size",
        kind: "integer",
        value: "MB",
        minimum: DEMO_SIZES_MB.smallest,
        help: `Size of the shop; by default ${DEMO_SIZES_MB.usual}`,
      },
      {
        name: "runtime",
        kind: "string",
        value: "RUNTIME",
        choices: DEMO_RUNTIMES,
        default: "deno",
        help: "What the agent runs in: deno, the embedded sandbox, or podman",
      },
    ],
    examples: [
      { words: "demo", why: "The first thing to run: nothing has to be set up" },
      { words: "demo --quick --json", why: "For a program: each step with its time, and what was found" },
    ],
    output: "data",
    uses: "home",
    config: "may_be_broken",
    needs: demoNeeds,
  },
];

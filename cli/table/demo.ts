/** The command that shows what the program does. */

import type { CommandSpec } from "../plan/command_spec.ts";
import { ANYWHERE, type PermissionSet, unionOf } from "../plan/permissions.ts";
import { hostOf, type Plan } from "../plan/plan.ts";
import { atHome, commands, integer, on, text } from "./_row.ts";

export const DEMO_RUNTIMES = ["deno", "podman"] as const;

/** Sizes of the demo's database, in MiB. */
export const DEMO_SIZES_MB = { smallest: 12, usual: 30, largest: 8_192 } as const;

/** Where programs and packages are, and other images than the usual ones. */
export const DEMO_VARIABLES: readonly string[] = ["JSR_URL", "PATH", "SANDBOX_IMAGE", "TASKD_ANCHOR_IMAGE"];

/**
 * What the demo works with: the temporary directory. The network has no list, because its sockets lie in a directory
 * that it makes; programs have none, because git and the SQLite clients are wherever PATH leads, and what it starts it
 * also ends.
 */
function demoNeeds(plan: Plan): PermissionSet {
  const { temporary, tool_variables } = hostOf(plan);
  return unionOf({
    read: [temporary],
    write: [temporary],
    net: [ANYWHERE],
    run: [ANYWHERE],
    env: [...tool_variables, ...DEMO_VARIABLES],
    // Its clients make sure that the daemons' sockets are its own.
    sys: ["uid"],
  });
}

export const DEMO_COMMANDS: readonly CommandSpec[] = commands("Program", atHome("may_be_broken", demoNeeds), [
  {
    name: "demo",
    summary: "Show both halves on real input, in half a minute",
    details:
      "A shop sells all the while into a database that is open. An agent with a scripted model fixes a program and " +
      "the rows that it wrote; both daemons are killed; a person approves, decides what the shop has changed " +
      "meanwhile, and the one is pushed, the other merged. Then a migration is merged from a branch, and a bad " +
      "statement is taken back. Each command is printed and run. It works in a temporary directory, with daemons " +
      "and a home directory of its own, and leaves nothing behind. It needs git and an SQLite client (the sqlite3 " +
      "shell or Python 3), and no network, key or container.",
    flags: [
      on("keep", "Leave the directory, to look around"),
      on("quick", `A shop of ${DEMO_SIZES_MB.smallest} MiB`),
      integer(
        "size MIB",
        `Size of the shop in MiB, at most ${DEMO_SIZES_MB.largest}; by default ${DEMO_SIZES_MB.usual}`,
        { minimum: DEMO_SIZES_MB.smallest },
      ),
      text("runtime RUNTIME", "What the agent runs in: deno, the embedded sandbox, or podman", {
        choices: DEMO_RUNTIMES,
        default: "deno",
      }),
    ],
    examples: [
      { words: "demo", why: "The first thing to run: nothing has to be set up" },
      { words: "demo --quick --json", why: "For a program: each command with its time, and what was found" },
    ],
  },
]);

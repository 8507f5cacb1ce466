/**
 * The one command table, and what is derived from it for whoever starts the
 * program: its launch flags.
 *
 * @module
 */

import { type CommandSpec, type FlagSpec, GROUPS, type Plan } from "./command.ts";
import { NO_PERMISSIONS, PERMISSION_KINDS, type PermissionSet, unionOf } from "./permissions.ts";
import { BRANCH_COMMANDS } from "./table/branches.ts";
import { DAEMON_COMMANDS } from "./table/daemon.ts";
import { HISTORY_COMMANDS } from "./table/history.ts";

/** The program's name, as people type it. */
export const PROGRAM = "taskd";

/** Every command, in the order of the overview. */
export const COMMANDS: readonly CommandSpec[] = [...BRANCH_COMMANDS, ...HISTORY_COMMANDS, ...DAEMON_COMMANDS]
  .toSorted((a, b) => GROUPS.indexOf(a.group) - GROUPS.indexOf(b.group));

/** Flags that every command accepts. */
export const GLOBAL_FLAGS: readonly FlagSpec[] = [
  {
    name: "store",
    kind: "string",
    value: "DIRECTORY",
    env: "BSTORE_STORE",
    default: "~/.taskd/store",
    help: "Where the branches are kept: a directory or file:///path",
  },
  {
    name: "socket",
    kind: "file",
    value: "FILE",
    help: "The daemon's unix socket; by default taskd.sock in the store's directory",
  },
  { name: "json", kind: "boolean", help: "Print one JSON object: the result, or the error" },
  { name: "quiet", kind: "boolean", help: "Print results that were asked for and errors, nothing else" },
  { name: "print-permissions", kind: "boolean", help: "Print what this very call may touch, and do nothing" },
];

/** The command of a name; undefined when there is none. */
export function findCommand(name: string): CommandSpec | undefined {
  return COMMANDS.find((command) => command.name === name);
}

/** The environment variables that the program reads: flags' stand-ins, and where `~` is. */
export function environmentNames(): string[] {
  const flags = [...GLOBAL_FLAGS, ...COMMANDS.flatMap((command) => command.flags)];
  return [...new Set(["HOME", ...flags.flatMap((flag) => flag.env ?? [])])];
}

/**
 * The flags the program is started with. They bound everything any command can do; each call then narrows itself to
 * its own set. Paths and sockets are only known at run time, hence read, write and net without a list; and sys without
 * one because the runtime's flag does not know the name `umask`, while a Worker's permissions do.
 */
export function launchFlags(): string[] {
  const listed = { ...launchGrants(), env: environmentNames() };
  const flags = ["--no-prompt", "--unstable-worker-options"];
  for (const kind of PERMISSION_KINDS) {
    // The runtime allows imports from the registry by itself.
    if (kind === "import" || listed[kind].length === 0) continue;
    const isListed = kind === "run" || kind === "env";
    flags.push(isListed ? `--allow-${kind}=${listed[kind].join(",")}` : `--allow-${kind}`);
  }
  return flags;
}

function launchGrants(): PermissionSet {
  let union = NO_PERMISSIONS;
  for (const command of COMMANDS) {
    for (const route of ["store", "socket"] as const) union = unionOf(union, command.needs(samplePlan(command, route)));
  }
  return union;
}

/** A plan with every argument and flag given, to ask the table what a command may ever need. */
function samplePlan(command: CommandSpec, route: Plan["route"]): Plan {
  return {
    command: command.name,
    positionals: Object.fromEntries(command.positionals.map((positional) => [positional.name, "/sample"])),
    flags: Object.fromEntries([...GLOBAL_FLAGS, ...command.flags].map((flag) => [flag.name, "/sample"])),
    store: "/sample",
    socket: "/sample/taskd.sock",
    route,
  };
}

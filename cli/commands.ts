/**
 * The one command table, and what is derived from it for whoever starts the
 * program: its launch flags.
 *
 * @module
 */

import { S3_ENV, S3_SYS } from "../lib/backend/s3_permissions.ts";
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
    value: "LOCATION",
    env: "BSTORE_STORE",
    default: "~/.taskd/store",
    help: "Where the branches are kept: a directory, file:///path or s3://bucket/prefix",
  },
  {
    name: "s3-endpoint",
    kind: "string",
    value: "URL",
    env: "BSTORE_S3_ENDPOINT",
    other_env: "AWS_ENDPOINT_URL_S3",
    help: "The server of s3:// stores; by default AWS",
  },
  {
    name: "s3-region",
    kind: "string",
    value: "REGION",
    env: "BSTORE_S3_REGION",
    other_env: "AWS_REGION",
    help: "Its region; by default us-east-1",
  },
  {
    name: "s3-path-style",
    kind: "boolean",
    undecided: true,
    env: "BSTORE_S3_PATH_STYLE",
    help: "The bucket is in the path and not in the host's name; by default so with an endpoint",
  },
  {
    name: "workspace",
    kind: "file",
    value: "DIRECTORY",
    env: "BSTORE_WORKSPACE",
    help: "Checkouts, caches and locks of an s3:// store; by default below ~/.taskd/workspaces",
  },
  {
    name: "socket",
    kind: "file",
    value: "FILE",
    help: "The daemon's unix socket; by default taskd.sock in the store's directory or workspace",
  },
  { name: "json", kind: "boolean", help: "Print one JSON object: the result, or the error" },
  { name: "quiet", kind: "boolean", help: "Print results that were asked for and errors, nothing else" },
  { name: "print-permissions", kind: "boolean", help: "Print what this very call may touch, and do nothing" },
];

/** The command of a name; undefined when there is none. */
export function findCommand(name: string): CommandSpec | undefined {
  return COMMANDS.find((command) => command.name === name);
}

/** The environment variables that the program reads: flags' stand-ins, where `~` is, and what the SDK of S3 asks. */
export function environmentNames(): string[] {
  const flags = [...GLOBAL_FLAGS, ...COMMANDS.flatMap((command) => command.flags)];
  const named = flags.flatMap((flag) => [flag.env ?? [], flag.other_env ?? []].flat());
  const families = S3_ENV.filter((name) => name.endsWith("*")).map((name) => name.slice(0, -1));
  const single = named.filter((name) => !families.some((family) => name.startsWith(family)));
  return [...new Set(["HOME", ...single, ...S3_ENV])];
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
    store: "s3://sample",
    workspace: "/sample",
    s3: { options: {}, access: { net: ["/sample"], env: [...S3_ENV], sys: [...S3_SYS], read: ["/sample"] } },
    socket: "/sample/taskd.sock",
    route,
  };
}

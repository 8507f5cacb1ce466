/**
 * What whoever starts the program gives it: read off the command table, and no part of
 * the program's own start.
 *
 * @module
 */

import { configurationVariables } from "../broker/settings/variables.ts";
import { S3_ENV, S3_SYS } from "../lib/backend/s3_permissions.ts";
import type { CommandSpec, Plan } from "./command.ts";
import { COMMANDS, GLOBAL_FLAGS } from "./commands.ts";
import { NO_PERMISSIONS, PERMISSION_KINDS, type PermissionSet, unionOf } from "./permissions.ts";

/**
 * The environment variables that the program reads: flags' stand-ins, where `~` is, what the SDK of S3 asks, and what
 * the task broker is configured with.
 */
export function environmentNames(): string[] {
  const flags = [...GLOBAL_FLAGS, ...COMMANDS.flatMap((command) => command.flags)];
  const named = flags.flatMap((flag) => [flag.env ?? [], flag.other_env ?? []].flat());
  const families = S3_ENV.filter((name) => name.endsWith("*")).map((name) => name.slice(0, -1));
  const single = named.filter((name) => !families.some((family) => name.startsWith(family)));
  return [...new Set(["HOME", ...single, ...S3_ENV, ...configurationVariables()])];
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
    broker: { home: "/sample", socket: "/sample/broker.sock" },
  };
}

/**
 * The flags of deno that the program is started with: read off the command table, and no part of
 * the program's own start.
 */

import { PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { S3_ENV, S3_SYS } from "../../lib/backend/s3_permissions.ts";
import type { HostPlace } from "../plan/broker_host.ts";
import type { CommandSpec, FlagKind } from "../plan/command_spec.ts";
import type { Plan } from "../plan/plan.ts";
import { COMMANDS, GLOBAL_FLAGS } from "./commands.ts";
import { PERMISSION_KINDS, type PermissionSet, unionOf } from "../plan/permissions.ts";

/**
 * A young generation of this many MiB at most in each thread: a daemon's short-lived garbage is small. By V8's own choice
 * a store daemon under load grows by 40 MB for each busy thread. A thread that runs cannot set it for those that it starts.
 */
export const YOUNG_GENERATION = "--v8-flags=--max-semi-space-size=4";

/**
 * The flags the program is started with: the limit of the young generation, and the kinds of permission that there is a
 * command for. Each call then narrows itself to its own set, item by item. No kind has a list here, because none is known
 * before the call: paths, sockets and hosts are arguments and settings; the variable that holds the key of a model's
 * endpoint has whatever name the settings give it; and the program that runs sandboxes may be the very one that runs this.
 */
export function launchFlags(): string[] {
  const grants = launchGrants();
  // The runtime allows imports from the registry by itself.
  const kinds = PERMISSION_KINDS.filter((kind) => kind !== "import" && grants[kind].length > 0);
  return ["--no-prompt", "--unstable-worker-options", YOUNG_GENERATION, ...kinds.map((kind) => `--allow-${kind}`)];
}

function launchGrants(): PermissionSet {
  const routes = ["store", "socket"] as const;
  return unionOf(...COMMANDS.flatMap((command) => routes.map((route) => command.needs(samplePlan(command, route)))));
}

const SAMPLE_HOST: HostPlace = {
  directory: "/sample",
  lock: "/sample",
  egress_list: "/sample",
  live_socket: "/sample",
  roots: ["/sample"],
  variables: ["HOME"],
  tool_variables: ["HOME"],
  programs: PROGRAM_PATHS,
  notifiers: ["/sample"],
  deno: "/sample",
  entry: "/sample",
  store: "/sample",
  untrusted: [],
  temporary: "/sample",
  unit_folders: ["/sample"],
};

/** A plan with every argument and flag given, to ask the table what a command may ever need. */
function samplePlan(command: CommandSpec, route: Plan["route"]): Plan {
  return {
    command: command.name,
    positionals: Object.fromEntries(command.positionals.map((positional) => [positional.name, "/sample"])),
    flags: Object.fromEntries([...GLOBAL_FLAGS, ...command.flags].map((flag) => [flag.name, sampleOf(flag.kind)])),
    store: "s3://sample",
    workspace: "/sample",
    s3: { options: {}, access: { net: ["/sample"], env: [...S3_ENV], sys: [...S3_SYS], read: ["/sample"] } },
    socket: "/sample/taskd.sock",
    route,
    broker: { home: "/sample", socket: "/sample/broker.sock", host: SAMPLE_HOST },
  };
}

/** An address to listen on is the only text that is read any further. */
function sampleOf(kind: FlagKind): string {
  return kind === "string" ? "localhost:1" : "/sample";
}

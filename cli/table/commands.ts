/** The one command table, from which everything about a call is read. */

import { type CommandSpec, type FlagSpec, GROUPS } from "../plan/command_spec.ts";
import { DEFAULT_STORE } from "../plan/locations.ts";
import { BRANCH_COMMANDS } from "./branches.ts";
import { BROKER_ADMIN_COMMANDS } from "./broker_admin.ts";
import { DAEMON_COMMANDS, PROGRAM_COMMANDS } from "./daemon.ts";
import { DEMO_COMMANDS } from "./demo.ts";
import { HISTORY_COMMANDS, INSPECT_COMMANDS } from "./history.ts";
import { TASK_COMMANDS } from "./tasks.ts";
import { file, on, text } from "./_row.ts";

export const PROGRAM = "taskd";

/** Every command, in the order of the overview. */
export const COMMANDS: readonly CommandSpec[] = [
  ...BRANCH_COMMANDS,
  ...HISTORY_COMMANDS,
  ...INSPECT_COMMANDS,
  ...DAEMON_COMMANDS,
  ...PROGRAM_COMMANDS,
  ...TASK_COMMANDS,
  ...BROKER_ADMIN_COMMANDS,
  ...DEMO_COMMANDS,
].toSorted((a, b) => GROUPS.indexOf(a.group) - GROUPS.indexOf(b.group));

export const GLOBAL_FLAGS: readonly FlagSpec[] = [
  text("store LOCATION", "Where the branches are kept: a directory, file:///path or s3://bucket/prefix", {
    env: "BSTORE_STORE",
    default: DEFAULT_STORE,
  }),
  text("s3-endpoint URL", "The server of s3:// stores; by default AWS", {
    env: "BSTORE_S3_ENDPOINT",
    other_env: "AWS_ENDPOINT_URL_S3",
  }),
  text("s3-region REGION", "Its region; by default us-east-1", { env: "BSTORE_S3_REGION", other_env: "AWS_REGION" }),
  on("s3-path-style", "The bucket is in the path and not in the host's name; by default so with an endpoint", {
    undecided: true,
    env: "BSTORE_S3_PATH_STYLE",
  }),
  file("workspace DIRECTORY", "Checkouts, caches and locks of an s3:// store; by default below ~/.taskd/workspaces", {
    env: "BSTORE_WORKSPACE",
  }),
  file(
    "socket FILE",
    "The daemon's unix socket. Of the branch store by default taskd.sock in its directory or workspace; of the broker " +
      "BROKER_SOCKET, or broker.socket in config.yaml, or taskd/taskd.sock in an XDG_RUNTIME_DIR of your own, or " +
      "$TMPDIR/taskd-$UID/taskd.sock",
  ),
  on("json", "Print one JSON object: the result, or the error"),
  on("quiet", "Print results that were asked for and errors, nothing else"),
  on("print-permissions", "Print what this very call may touch, and do nothing"),
];

export function findCommand(name: string): CommandSpec | undefined {
  return COMMANDS.find((command) => command.name === name);
}

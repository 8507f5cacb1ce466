/**
 * The one command table, from which everything about a call is read.
 */

import { type CommandSpec, type FlagSpec, GROUPS } from "../plan/command_spec.ts";
import { BRANCH_COMMANDS } from "./branches.ts";
import { BROKER_ADMIN_COMMANDS } from "./broker_admin.ts";
import { DAEMON_COMMANDS } from "./daemon.ts";
import { DEMO_COMMANDS } from "./demo.ts";
import { HISTORY_COMMANDS } from "./history.ts";
import { QUEUE_COMMANDS } from "./queue.ts";
import { REDTEAM_COMMANDS } from "./redteam.ts";
import { STATS_COMMANDS } from "./stats.ts";
import { TASK_COMMANDS } from "./tasks.ts";

export const PROGRAM = "taskd";

/** Every command, in the order of the overview. */
export const COMMANDS: readonly CommandSpec[] = [
  ...BRANCH_COMMANDS,
  ...HISTORY_COMMANDS,
  ...DAEMON_COMMANDS,
  ...TASK_COMMANDS,
  ...STATS_COMMANDS,
  ...QUEUE_COMMANDS,
  ...BROKER_ADMIN_COMMANDS,
  ...REDTEAM_COMMANDS,
  ...DEMO_COMMANDS,
].toSorted((a, b) => GROUPS.indexOf(a.group) - GROUPS.indexOf(b.group));

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
    help: "The daemon's unix socket, by default taskd.sock in the store's directory or workspace; or the broker's",
  },
  { name: "json", kind: "boolean", help: "Print one JSON object: the result, or the error" },
  { name: "quiet", kind: "boolean", help: "Print results that were asked for and errors, nothing else" },
  { name: "print-permissions", kind: "boolean", help: "Print what this very call may touch, and do nothing" },
];

export function findCommand(name: string): CommandSpec | undefined {
  return COMMANDS.find((command) => command.name === name);
}

/**
 * The daemon, the commands of its sessions, and the program's own.
 */

import { hostPort, parseHttpAddress } from "../../lib/http/address.ts";
import { socketStagingOf } from "../../lib/socket_path.ts";
import type { CommandSpec } from "../plan/command_spec.ts";
import type { Plan } from "../plan/plan.ts";
import { NO_PERMISSIONS, type PermissionSet, unionOf } from "../plan/permissions.ts";
import { socketNeeds, storeNeeds } from "../plan/needs.ts";
import { BRANCH, ON_BRANCHES, programFiles } from "./_shared.ts";

/** The HTTP listener's own address, and the loopback between it and the server behind its guard. */
function httpNeeds(plan: Plan): PermissionSet {
  const { http } = plan.flags;
  if (typeof http !== "string") return NO_PERMISSIONS;
  return { ...NO_PERMISSIONS, net: [hostPort(parseHttpAddress(http)), "127.0.0.1"], sys: ["inspector"] };
}

export const DAEMON_COMMANDS: readonly CommandSpec[] = [
  {
    name: "serve",
    group: "Daemon",
    summary: "Run the branch-store daemon",
    details: "It serves live sessions on a unix socket until Ctrl-C or SIGTERM; then it flushes " +
      "and closes every session.",
    positionals: [],
    flags: [
      {
        name: "flush-every",
        kind: "duration",
        value: "DURATION",
        default: "30s",
        help: "How often live sessions are made durable; 0 leaves it to session flush",
      },
      {
        name: "snapshot-every",
        kind: "integer",
        minimum: 1,
        value: "N",
        default: "16",
        help: "Segments after which a whole snapshot is stored",
      },
      {
        name: "reap-every",
        kind: "duration",
        value: "DURATION",
        default: "1m",
        help: "How often the janitor reaps branches, collects garbage and trims the read-only cache; 0 for never",
      },
      {
        name: "gc-grace",
        kind: "duration",
        value: "DURATION",
        default: "15m",
        help: "How long an object that no branch reaches is kept",
      },
      {
        name: "ro-cache-budget",
        kind: "bytes",
        value: "BYTES",
        default: "0",
        help: "Bytes of read-only copies to keep, least recently used go first; 0 for no limit",
      },
      {
        name: "http",
        kind: "string",
        value: "HOST:PORT",
        help: "Also listen for HTTP: /healthz, /metrics, /events, /rpc and /debug/pprof/",
      },
      {
        name: "token",
        kind: "string",
        value: "TOKEN",
        env: "BSTORE_TOKEN",
        help: "Bearer token of the HTTP listener; others on this host can see it here, but not in the environment",
      },
      {
        name: "http-allow-non-loopback",
        kind: "boolean",
        help: "Let --http name an address that others can reach; needs an explicit token",
      },
      {
        name: "files",
        kind: "file",
        value: "DIRECTORY",
        repeatable: true,
        help: "A directory outside the store that create and export, asked over the socket, may use; may be repeated",
      },
    ],
    examples: [{ words: "serve --flush-every 10s", why: "A dying daemon loses ten seconds at most" }],
    output: "data",
    uses: "serve",
    needs(plan) {
      const files = Array.isArray(plan.flags.files) ? plan.flags.files : [];
      const staging = socketStagingOf(plan.socket);
      const paths = [staging.directory, ...files];
      const own = { ...NO_PERMISSIONS, read: paths, write: paths, net: [`unix:${staging.socket}`] };
      return [storeNeeds(plan), socketNeeds(plan), programFiles("daemon", "lib", "std"), own, httpNeeds(plan)].reduce(
        unionOf,
      );
    },
  },
  {
    name: "session open",
    group: "Daemon",
    summary: "Open a live session and print the path of its database file",
    positionals: [BRANCH],
    flags: [],
    examples: [{ words: "session open shop@try", why: "What any SQLite client writes there is captured" }],
    output: "data",
    uses: "daemon",
    needs: socketNeeds,
  },
  {
    name: "session flush",
    group: "Daemon",
    summary: "Make a live session durable now",
    positionals: [BRANCH],
    flags: [],
    examples: [{ words: "session flush shop@try", why: "Every commit made so far is stored" }],
    output: "note",
    uses: "daemon",
    needs: socketNeeds,
  },
  {
    name: "session status",
    group: "Daemon",
    summary: "Show live sessions",
    positionals: [{ ...BRANCH, optional: true }],
    flags: [],
    examples: [{ words: "session status", why: "Every open session, its lag and its last flush" }],
    output: "data",
    uses: "daemon",
    needs: socketNeeds,
  },
  {
    name: "session close",
    group: "Daemon",
    summary: "Flush and close a live session",
    positionals: [BRANCH],
    flags: [],
    examples: [{ words: "session close shop@try", why: "Flush, release the lease, close" }],
    output: "note",
    uses: "daemon",
    needs: socketNeeds,
  },
  {
    name: "watch",
    group: "Daemon",
    summary: "Print the daemon's events as they happen",
    details: "With --json each event is one line of JSON.",
    positionals: [],
    flags: [],
    examples: [{ words: "watch --json", why: "Events for a program" }],
    output: "data",
    uses: "daemon",
    needs: socketNeeds,
  },
  {
    name: "mcp",
    group: "Daemon",
    summary: "Offer the store to coding agents as tools of the Model Context Protocol",
    details:
      "It speaks the protocol on stdin and stdout. The daemon does the work when one is alive; live sessions need " +
      "one.",
    positionals: [],
    flags: [],
    examples: [{ words: "mcp -store ~/.taskd/store", why: "What to enter as the command of an MCP server" }],
    output: "data",
    ...ON_BRANCHES,
  },
  {
    name: "version",
    group: "Program",
    summary: "Show the version",
    positionals: [],
    flags: [],
    examples: [{ words: "version", why: "The program's version and its runtime's" }],
    output: "data",
    uses: "nothing",
    needs: () => NO_PERMISSIONS,
  },
  {
    name: "help",
    group: "Program",
    summary: "Explain the program, a command, or an error code",
    positionals: [
      { name: "command", kind: "word", optional: true, help: "The command, a group of commands, or errors" },
      { name: "subcommand", kind: "word", optional: true, help: "Its second word, or the error code" },
    ],
    flags: [],
    examples: [
      { words: "help session open", why: "The same as session open --help" },
      { words: "help errors lease_held", why: "What an error code means, and what to do" },
    ],
    output: "data",
    uses: "nothing",
    needs: () => NO_PERMISSIONS,
  },
  {
    name: "completion",
    group: "Program",
    summary: "Print a completion script for a shell",
    positionals: [{ name: "shell", kind: "word", help: "bash, zsh or fish" }],
    flags: [],
    examples: [
      { words: "completion bash > /etc/bash_completion.d/taskd", why: "For every user of bash" },
      { words: "completion zsh > /usr/local/share/zsh/site-functions/_taskd", why: "For every user of zsh" },
      { words: "completion fish > ~/.config/fish/completions/taskd.fish", why: "For one user of fish" },
    ],
    output: "data",
    uses: "nothing",
    needs: () => NO_PERMISSIONS,
  },
];

/** The daemon, the commands of its sessions, and the program's own. */

import { hostPort, parseHttpAddress } from "../../lib/http/address.ts";
import { socketStagingOf } from "../../lib/socket_path.ts";
import type { CommandSpec } from "../plan/command_spec.ts";
import type { Plan } from "../plan/plan.ts";
import { NO_PERMISSIONS, type PermissionSet, unionOf } from "../plan/permissions.ts";
import { socketNeeds, storeNeeds } from "../plan/needs.ts";
import { DEFAULT_LEVELS_TEXT } from "../../lib/store/retention.ts";
import { BRANCH, KEEP, programFiles } from "./_branch_flags.ts";
import { ASKS_DAEMON, bytes, commands, duration, file, integer, NEEDS_NOTHING, on, text } from "./_row.ts";

/** The HTTP listener's own address. */
function httpNeeds(plan: Plan): PermissionSet {
  const { http } = plan.flags;
  if (typeof http !== "string") return NO_PERMISSIONS;
  return { ...NO_PERMISSIONS, net: [hostPort(parseHttpAddress(http))], sys: ["inspector"] };
}

export const DAEMON_COMMANDS: readonly CommandSpec[] = commands("Daemon", ASKS_DAEMON, [
  {
    name: "serve",
    summary: "Run the branch store's daemon, for databases that applications write to",
    details:
      "It captures what applications write to live sessions (session open), cleans the store up, and gives tasks " +
      "branches of databases (submit --database). Without it the other commands work on the store themselves; tasks " +
      "run under another daemon, that of taskd start. It serves on a unix socket, in the foreground, until Ctrl-C or " +
      "SIGTERM, which kill sends; then it flushes and closes every session.",
    flags: [
      duration("flush-every", "How often live sessions are made durable; 0 leaves it to session flush", {
        default: "30s",
      }),
      integer("snapshot-every N", "Segments after which a whole snapshot is stored", { minimum: 1, default: "16" }),
      duration(
        "reap-every",
        "How often the janitor reaps branches, collects garbage and trims the read-only cache; 0 for never",
        { default: "1m" },
      ),
      duration("gc-grace", "How long an object that no branch reaches is kept", { default: "15m" }),
      { ...KEEP, default: DEFAULT_LEVELS_TEXT },
      bytes("ro-cache-budget", "Bytes of read-only copies to keep, least recently used go first; 0 for no limit", {
        default: "0",
      }),
      duration("scrub-every", "The time in which everything stored is read against its checksums once; 0 for never", {
        default: "30d",
      }),
      text(
        "http HOST:PORT",
        "Also listen for HTTP: /healthz, /metrics, /metrics/more, /events, /rpc and /debug/pprof/",
      ),
      text(
        "token TOKEN",
        "Bearer token of the HTTP listener; others on this host can see it here, but not in the environment",
        { env: "BSTORE_TOKEN" },
      ),
      on("http-allow-non-loopback", "Let --http name an address that others can reach; needs an explicit token"),
      file(
        "files DIRECTORY",
        "A directory outside the store that create and export, asked over the socket, may use; may be repeated",
        { repeatable: true },
      ),
    ],
    examples: [{ words: "serve --flush-every 10s", why: "A disk that dies loses ten seconds at most" }],
    makes_store: true,
    uses: "serve",
    needs(plan) {
      const files = Array.isArray(plan.flags.files) ? plan.flags.files : [];
      const staging = socketStagingOf(plan.socket);
      const paths = [staging.directory, ...files];
      const own = { read: paths, write: paths, net: [`unix:${staging.socket}`] };
      return unionOf(storeNeeds(plan), socketNeeds(plan), programFiles("daemon", "lib", "std"), own, httpNeeds(plan));
    },
  },
  {
    name: "session open",
    summary: "Open a live session and print the path of its database file",
    positionals: [BRANCH],
    examples: [{ words: "session open shop@try", why: "What any SQLite client writes there is captured" }],
  },
  {
    name: "session flush",
    summary: "Make a live session durable now",
    positionals: [BRANCH],
    examples: [{ words: "session flush shop@try", why: "Every commit made so far is stored" }],
    output: "note",
  },
  {
    name: "session status",
    summary: "Show live sessions",
    positionals: [{ ...BRANCH, optional: true }],
    examples: [{ words: "session status", why: "Every open session, its lag and its last flush" }],
  },
  {
    name: "session close",
    summary: "Flush and close a live session",
    positionals: [BRANCH],
    examples: [{ words: "session close shop@try", why: "Flush, release the lease, close" }],
    output: "note",
  },
  {
    name: "watch",
    summary: "Print the daemon's events as they happen",
    details: "With --json each event is one line of JSON.",
    flags: [on("more", "Also events of the further types")],
    examples: [{ words: "watch --json", why: "Events for a program" }],
  },
  {
    name: "mcp",
    summary: "Offer the store to coding agents as tools of the Model Context Protocol",
    details:
      "It speaks the protocol on stdin and stdout. The daemon does the work while one is alive, also one that begins " +
      "later on the store's own socket; live sessions need one. destroy, and any call " +
      "that would lose something for good, takes two calls: the first answers what would go, with a confirmation for the second.",
    examples: [{ words: "mcp --store ~/.taskd/store", why: "What to enter as the command of an MCP server" }],
    makes_store: true,
    uses: "branches",
    // Also beside a daemon some operations are done on the store, and a daemon may begin later.
    needs: (plan) => unionOf(storeNeeds(plan), socketNeeds(plan)),
  },
]);

/** Shells that there is a completion for. */
export const SHELLS = ["bash", "zsh", "fish"] as const;

export const PROGRAM_COMMANDS: readonly CommandSpec[] = commands("Program", NEEDS_NOTHING, [
  {
    name: "version",
    summary: "Show the version",
    examples: [{ words: "version", why: "The program's version and its runtime's" }],
  },
  {
    name: "help",
    summary: "Explain the program, a command, or an error code",
    positionals: [
      { name: "command", kind: "word", optional: true, help: "The command, a group of commands, or errors" },
      { name: "subcommand", kind: "word", optional: true, help: "Its second word, or the error code" },
    ],
    flags: [on("all", "The flags that every command has, too")],
    examples: [
      { words: "help session open", why: "The same as session open --help" },
      { words: "help errors lease_held", why: "What an error code means, and what to do" },
    ],
  },
  {
    name: "completion",
    summary: "Print a completion script for a shell",
    details: "The script asks this program with every Tab.",
    positionals: [{ name: "shell", kind: "word", choices: SHELLS, help: "bash, zsh or fish" }],
    flags: [
      text("word WORD", "What a script asks: a word that was typed, the last one as far as it is; may be repeated", {
        repeatable: true,
      }),
    ],
    examples: [
      { words: "completion bash > /etc/bash_completion.d/taskd", why: "For every user of bash" },
      { words: "completion zsh > /usr/local/share/zsh/site-functions/_taskd", why: "For every user of zsh" },
      { words: "completion fish > ~/.config/fish/completions/taskd.fish", why: "For one user of fish" },
    ],
  },
]);

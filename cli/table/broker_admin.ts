/**
 * The commands that set the task broker up, start and stop it, examine the host, attack the installation and explain the
 * settings. They work in `~/.taskd` themselves, whether or not a broker runs; `ui` asks the one that runs.
 */

import type { ApiRole } from "../../broker/api/wire.ts";
import type { RuntimeName } from "../../broker/settings/settings.ts";
import type { CommandSpec, FlagSpec } from "../plan/command_spec.ts";
import { parentOf } from "../../lib/real_path.ts";
import { type PermissionSet, unionOf } from "../plan/permissions.ts";
import { hostOf, type Plan } from "../plan/plan.ts";
import {
  askNeeds,
  brokerServes,
  doctorNeeds,
  homeNeeds,
  redteamNeeds,
  serviceNeeds,
  settingsNeeds,
  setupNeeds,
  stopNeeds,
} from "./_broker_needs.ts";
import { ASKS_BROKER, atHome, commands, duration, file, off, on, text } from "./_row.ts";
import { AGENT_NAMES, EGRESS_HOST } from "./broker_shared.ts";

/** Values of the setting `runtime`; repeated here, because this table is loaded by every call. */
export const RUNTIME_NAMES: readonly RuntimeName[] = ["auto", "podman", "docker", "container", "bubblewrap", "deno"];

/** Roles of API tokens; repeated here likewise. */
export const ROLE_NAMES: readonly ApiRole[] = ["read", "submit", "approve"];

/** The egress list, which is replaced as a whole. */
function egressNeeds(plan: Plan): PermissionSet {
  const { directory, egress_list } = hostOf(plan);
  const folders = [directory, ...(egress_list === undefined ? [] : [parentOf(egress_list)])];
  return unionOf(settingsNeeds(plan), { read: folders, write: folders });
}

/** What becomes of tasks that run when their broker ends. */
const RUNNING_TASKS: readonly FlagSpec[] = [
  on("drain", "First wait until no task runs"),
  on("now", "Ask nothing: tasks that run end with the broker"),
];

const MANAGERS: readonly FlagSpec[] = [
  on("systemd", "For systemd; the default on Linux"),
  on("launchd", "For launchd; the default on macOS"),
];

export const BROKER_ADMIN_COMMANDS: readonly CommandSpec[] = commands("Broker", ASKS_BROKER, [
  {
    name: "ui",
    summary: "Print the address of the broker's web pages",
    details:
      "The address opens the pages once, within 60 s: who opens it can approve until that session ends. Run it " +
      "again for another browser, and after the broker was started again.",
    examples: [{ words: "ui", why: "Open it in a browser on this host" }],
  },
  {
    name: "token create",
    summary: "Make a token for programs that use the broker over broker.api_addr",
    details:
      "Prints the token once; the broker keeps its digest alone. The role read lists tasks and reads diffs, logs, " +
      "statistics and metrics; submit submits tasks too; approve decides about them as well. What is done with a token is " +
      "recorded under its name.",
    flags: [
      text("role ROLE", `What it may do: ${ROLE_NAMES.join(", ")}; each may what the one before it may`, {
        choices: ROLE_NAMES,
        required: true,
      }),
      duration("ttl", "How long it is valid, a year at most", { default: "30d" }),
      text("name NAME", "What it is called in records; by default the role and a few digits"),
    ],
    examples: [{ words: "token create --role submit --ttl 30d --name ci", why: "For a CI system that submits tasks" }],
  },
  {
    name: "token list",
    summary: "List the tokens for broker.api_addr",
    examples: [{ words: "token list", why: "Names, roles and when each expires; never a token" }],
  },
  {
    name: "token revoke",
    summary: "End a token at once, with what is open over it",
    positionals: [{ name: "name", kind: "word", help: "The token's whole name" }],
    examples: [{ words: "token revoke ci", why: "The next request with it is refused" }],
    output: "note",
  },
  {
    name: "init",
    summary: "Make ~/.taskd with its settings and its egress list",
    details: "The directory and its files are for you alone. What exists is never overwritten.",
    examples: [{ words: "init", why: "The first step; setup does it too" }],
    output: "note",
    ...atHome("may_be_broken", homeNeeds),
  },
  {
    name: "setup",
    summary: "Set the task broker up: runtime, images, keys, agent",
    details: "Asks on a terminal, and only for what flags have not answered. Run it again at any time: it changes " +
      "what you choose and nothing else. A key is typed unseen, read from stdin or from a file, never from the " +
      "command line.",
    flags: [
      text("runtime RUNTIME", `What runs sandboxes: ${RUNTIME_NAMES.join(", ")}`, { choices: RUNTIME_NAMES }),
      text("agent AGENT", "The default agent", { choices: AGENT_NAMES }),
      off("build-images", "Do not build images that are missing"),
      on("rebuild-images", "Build the images again, as after an upgrade"),
      text(
        "from SOURCE",
        "What images are built from: a registry's base, or Debian's and npm's packages (as root, on Linux)",
        { default: "registry", choices: ["registry", "debootstrap"] },
      ),
      text(
        "base IMAGE",
        "Base of the sandbox's image in a registry; with --from debootstrap the mirror of Debian's packages",
      ),
      text(
        "key VENDOR=-",
        "Read a key from stdin, a line for each: vendor_a (Anthropic), vendor_b (OpenAI), vendor_c (Google), compat",
        { repeatable: true },
      ),
      file("key-file FILE", "Take the keys in this file of NAME=value lines"),
      text("compat-url URL", "The OpenAI-compatible endpoint of agent_d"),
      text("compat-model MODEL", "Its model"),
      on("yes", "Ask nothing: take the suggested answers"),
      on("non-interactive", "Ask nothing: change only what flags say"),
    ],
    examples: [
      { words: "setup", why: "Step by step" },
      { words: "setup --yes --agent agent_a --key vendor_a=-", why: "Unattended, with a key on stdin" },
      {
        words: "setup --yes --runtime deno --agent agent_d --compat-url http://localhost:11434 --compat-model small",
        why: "Without containers, with a model of one's own",
      },
    ],
    ...atHome("may_be_broken", setupNeeds),
  },
  {
    name: "doctor",
    summary: "Examine everything that tasks need, and say what to do",
    details: "Changes nothing and shows no secret. Exits with 1 when something fails.",
    examples: [{ words: "doctor", why: "A line for each check, and what to do about it" }],
    ...atHome("may_be_broken", doctorNeeds),
  },
  {
    name: "start",
    summary: "Run the task broker, for tasks of coding agents",
    details:
      "It runs what taskd submit and queue add give it, and serves the web pages. Databases that tasks work on " +
      "(submit --database) are behind another daemon, that of taskd serve: run both then, and without tasks that one " +
      "alone. It runs until Ctrl-C or SIGTERM. Run again, it replaces the running broker: so " +
      "changed settings take effect. Settings that cannot be used leave the running broker as it is. Tasks that wait " +
      "for approval wait on; those whose agents run would end with it: they are named, and at a terminal you are asked.",
    flags: [
      on("detach", "In the background; returns once the broker serves"),
      file(
        "log-file FILE",
        "Log there, at most 16 MiB, and not to stderr; with --detach by default ~/.taskd/broker.log",
      ),
      duration("timeout", "How long the broker that is replaced may take to end", { default: "1m" }),
      ...RUNNING_TASKS,
    ],
    examples: [
      { words: "start", why: "In the foreground" },
      { words: "start --detach", why: "Start it, or apply changed settings" },
    ],
    output: "note",
    ...atHome("required", brokerServes),
  },
  {
    name: "stop",
    summary: "Stop the task broker",
    details:
      "It ends its sandboxes, and at a terminal asks before it ends tasks; those that wait for approval wait on, " +
      "for the next start.",
    flags: [duration("timeout", "How long it may take", { default: "1m" }), ...RUNNING_TASKS],
    examples: [{ words: "stop", why: "Returns once it has ended" }],
    output: "note",
    ...atHome("may_be_broken", stopNeeds),
  },
  {
    name: "service print",
    summary: "Print the file by which systemd or launchd runs the broker",
    flags: MANAGERS,
    examples: [{ words: "service print --systemd", why: "Look before installing" }],
    ...atHome("required", serviceNeeds),
  },
  {
    name: "service install",
    summary: "Have systemd or launchd run the broker for you",
    details: "It is a service of yours, not of the system. It does not see what your shell exports: keys belong into " +
      "~/.taskd/api-keys.env.",
    flags: [...MANAGERS, off("start", "Only write the file")],
    examples: [{ words: "service install", why: "Write the file, and start the service" }],
    output: "note",
    ...atHome("required", serviceNeeds),
  },
  {
    name: "service uninstall",
    summary: "Stop the service and remove its file",
    flags: MANAGERS,
    examples: [{ words: "service uninstall", why: "The broker can still be started by hand" }],
    output: "note",
    ...atHome("may_be_broken", serviceNeeds),
  },
  {
    name: "policy explain",
    summary: "Show every setting, where it comes from, and whether the broker works with it",
    details: "Resolves the settings exactly as start does, and compares them with those of the broker that runs.",
    examples: [
      { words: "policy explain", why: "The table, and a verdict" },
      { words: "policy explain --json", why: "Both resolutions, and whether they agree" },
    ],
    ...atHome("required", (plan) => unionOf(settingsNeeds(plan), askNeeds(plan))),
  },
  {
    name: "egress suggest",
    summary: "Show what sandboxes were refused because the egress list does not have it",
    details:
      "Counts the names in the proxy's log, without those that are listed by now. Tasks chose these names: allow what " +
      "you know, not what is asked for most.",
    flags: [text("since WHEN", "Only what was refused since: 7d, 12h, 2026-01-31")],
    examples: [{ words: "egress suggest --since 7d", why: "The last week, what most tasks asked for first" }],
    ...atHome("required", (plan) => unionOf(settingsNeeds(plan), { read: hostOf(plan).roots })),
  },
  {
    name: "egress allow",
    summary: "Add a host to the egress list",
    details: "Changes egress.yaml and nothing else in it. It takes effect on start; a task that runs can be given a " +
      "grant of its own.",
    positionals: [EGRESS_HOST],
    examples: [{ words: "egress allow registry.example.com", why: "Port 443, where none is given" }],
    output: "note",
    ...atHome("required", egressNeeds),
  },
  {
    name: "redteam",
    summary: "Attack this installation, and say for each promise whether it held",
    details:
      "Runs attacks on each security promise that a machine has a share in: on its runtime and images, the embedded " +
      "sandbox, its git, its addresses and the modes of files. It works in a folder and on ports of its own: no key is " +
      "used, nothing is spent, nothing leaves the machine, nothing is left behind. A broker that runs is not disturbed; " +
      "the modes of its files are checked. Exits with 1 when an attack succeeds.",
    flags: [
      text(
        "runtime RUNTIME",
        "Whose containers are attacked; by default the setting runtime. deno leaves containers out",
        { choices: RUNTIME_NAMES },
      ),
      text("only NAME", "A promise, such as git.attributes, or a group of them, such as git; may be repeated", {
        repeatable: true,
      }),
    ],
    examples: [
      { words: "redteam", why: "Everything, in about a minute" },
      { words: "redteam --only container --only git.attributes", why: "One group and one promise" },
      { words: "redteam --json", why: "For a program: each promise with what went through" },
    ],
    ...atHome("required", redteamNeeds),
  },
]);

/**
 * The commands that set the task broker up, start and stop it, examine the host and explain
 * the settings. They work in `~/.taskd` themselves, whether or not a broker runs.
 */

import type { RuntimeName } from "../../broker/settings/settings.ts";
import type { CommandSpec, FlagSpec } from "../plan/command_spec.ts";
import { unionOf } from "../plan/permissions.ts";
import {
  askNeeds,
  brokerServes,
  doctorNeeds,
  homeNeeds,
  serviceNeeds,
  settingsNeeds,
  setupNeeds,
  stopNeeds,
} from "./_broker_needs.ts";
import { AGENT_NAMES } from "./broker_shared.ts";

/** Values of the setting `runtime`; repeated here, because this table is loaded by every call. */
export const RUNTIME_NAMES: readonly RuntimeName[] = ["auto", "podman", "docker", "container", "deno"];

const MANAGERS: readonly FlagSpec[] = [
  { name: "systemd", kind: "boolean", help: "For systemd; the default on Linux" },
  { name: "launchd", kind: "boolean", help: "For launchd; the default on macOS" },
];

export const BROKER_ADMIN_COMMANDS: readonly CommandSpec[] = [
  {
    name: "init",
    group: "Broker",
    summary: "Make ~/.taskd with its settings and its egress list",
    details: "The directory and its files are for you alone. What exists is never overwritten.",
    positionals: [],
    flags: [],
    examples: [{ words: "init", why: "The first step; setup does it too" }],
    output: "note",
    uses: "home",
    config: "may_be_broken",
    needs: homeNeeds,
  },
  {
    name: "setup",
    group: "Broker",
    summary: "Set the task broker up: runtime, images, keys, agent",
    details: "Asks on a terminal, and only for what flags have not answered. Run it again at any time: it changes " +
      "what you choose and nothing else. A key is typed unseen, read from stdin or from a file, never from the " +
      "command line.",
    positionals: [],
    flags: [
      {
        name: "runtime",
        kind: "string",
        value: "RUNTIME",
        choices: RUNTIME_NAMES,
        help: `What runs sandboxes: ${RUNTIME_NAMES.join(", ")}`,
      },
      { name: "agent", kind: "string", value: "AGENT", choices: AGENT_NAMES, help: "The default agent" },
      {
        name: "build-images",
        kind: "boolean",
        default: "true",
        negatable: true,
        help: "Do not build images that are missing",
      },
      { name: "rebuild-images", kind: "boolean", help: "Build the images again, as after an upgrade" },
      {
        name: "from",
        kind: "string",
        value: "SOURCE",
        default: "registry",
        choices: ["registry", "debootstrap"],
        help: "What images are built from: a registry's base, or Debian's and npm's packages (as root, on Linux)",
      },
      {
        name: "base",
        kind: "string",
        value: "IMAGE",
        help: "Base of the sandbox's image in a registry; with --from debootstrap the mirror of Debian's packages",
      },
      {
        name: "key",
        kind: "string",
        value: "VENDOR=-",
        repeatable: true,
        help:
          "Read a key from stdin, a line for each: vendor_a (Anthropic), vendor_b (OpenAI), vendor_c (Google), compat",
      },
      { name: "key-file", kind: "file", value: "FILE", help: "Take the keys in this file of NAME=value lines" },
      { name: "compat-url", kind: "string", value: "URL", help: "The OpenAI-compatible endpoint of agent_d" },
      { name: "compat-model", kind: "string", value: "MODEL", help: "Its model" },
      { name: "yes", kind: "boolean", help: "Ask nothing: take the suggested answers" },
      { name: "non-interactive", kind: "boolean", help: "Ask nothing: change only what flags say" },
    ],
    examples: [
      { words: "setup", why: "Step by step" },
      { words: "setup --yes --agent agent_a --key vendor_a=-", why: "Unattended, with a key on stdin" },
      {
        words: "setup --yes --runtime deno --agent agent_d --compat-url http://localhost:11434 --compat-model small",
        why: "Without containers, with a model of one's own",
      },
    ],
    output: "data",
    uses: "home",
    config: "may_be_broken",
    needs: setupNeeds,
  },
  {
    name: "doctor",
    group: "Broker",
    summary: "Examine everything that tasks need, and say what to do",
    details: "Changes nothing and shows no secret. Exits with 1 when something fails.",
    positionals: [],
    flags: [],
    examples: [{ words: "doctor", why: "A line for each check, and what to do about it" }],
    output: "data",
    uses: "home",
    config: "may_be_broken",
    needs: doctorNeeds,
  },
  {
    name: "start",
    group: "Broker",
    summary: "Run the task broker",
    details: "It runs until Ctrl-C or SIGTERM. Run again, it replaces the running broker: so " +
      "changed settings take effect. Settings that cannot be used leave the running broker as it is.",
    positionals: [],
    flags: [
      { name: "detach", kind: "boolean", help: "In the background; returns once the broker serves" },
      {
        name: "log-file",
        kind: "file",
        value: "FILE",
        help: "Log there, at most 16 MiB, and not to stderr; with --detach by default ~/.taskd/broker.log",
      },
      {
        name: "timeout",
        kind: "duration",
        value: "DURATION",
        default: "1m",
        help: "How long the broker that is replaced may take to end",
      },
    ],
    examples: [
      { words: "start", why: "In the foreground" },
      { words: "start --detach", why: "Start it, or apply changed settings" },
    ],
    output: "note",
    uses: "home",
    config: "required",
    needs: brokerServes,
  },
  {
    name: "stop",
    group: "Broker",
    summary: "Stop the task broker",
    details: "It ends its sandboxes; tasks that wait for approval wait on, for the next start.",
    positionals: [],
    flags: [{
      name: "timeout",
      kind: "duration",
      value: "DURATION",
      default: "1m",
      help: "How long it may take",
    }],
    examples: [{ words: "stop", why: "Returns once it has ended" }],
    output: "note",
    uses: "home",
    config: "may_be_broken",
    needs: stopNeeds,
  },
  {
    name: "service print",
    group: "Broker",
    summary: "Print the file by which systemd or launchd runs the broker",
    positionals: [],
    flags: MANAGERS,
    examples: [{ words: "service print --systemd", why: "Look before installing" }],
    output: "data",
    uses: "home",
    config: "required",
    needs: serviceNeeds,
  },
  {
    name: "service install",
    group: "Broker",
    summary: "Have systemd or launchd run the broker for you",
    details: "It is a service of yours, not of the system. It does not see what your shell exports: keys belong into " +
      "~/.taskd/api-keys.env.",
    positionals: [],
    flags: [
      ...MANAGERS,
      { name: "start", kind: "boolean", default: "true", negatable: true, help: "Only write the file" },
    ],
    examples: [{ words: "service install", why: "Write the file, and start the service" }],
    output: "note",
    uses: "home",
    config: "required",
    needs: serviceNeeds,
  },
  {
    name: "service uninstall",
    group: "Broker",
    summary: "Stop the service and remove its file",
    positionals: [],
    flags: MANAGERS,
    examples: [{ words: "service uninstall", why: "The broker can still be started by hand" }],
    output: "note",
    uses: "home",
    config: "may_be_broken",
    needs: serviceNeeds,
  },
  {
    name: "policy explain",
    group: "Broker",
    summary: "Show every setting, where it comes from, and whether the broker works with it",
    details: "Resolves the settings exactly as start does, and compares them with those of the broker that runs.",
    positionals: [],
    flags: [],
    examples: [
      { words: "policy explain", why: "The table, and a verdict" },
      { words: "policy explain --json", why: "Both resolutions, and whether they agree" },
    ],
    output: "data",
    uses: "home",
    config: "required",
    needs: (plan) => unionOf(settingsNeeds(plan), askNeeds(plan)),
  },
];

/**
 * The files by which a user's own service manager keeps the broker running: a systemd user unit, a launchd agent.
 *
 * A unit is hardened as far as its runtime bears. Under a user's manager every filter of system calls and every
 * namespace implies NoNewPrivileges, and with that rootless podman cannot map user ids (newuidmap is setuid): so those
 * lines are for the runtimes that need no such helper.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { SandboxRuntimeName } from "../../broker/sandbox/runtime.ts";

export type ServiceManager = "systemd" | "launchd";

export const SYSTEMD_UNIT = "taskd-broker.service";
const LAUNCHD_LABEL = "dev.taskd.broker";

/** The first words of each file, by which the program knows its own. */
export const MARKER = "Written by taskd service install";

export interface UnitOptions {
  /** Program and arguments that start the broker in the foreground; the program absolute. */
  command: readonly string[];
  /** Variables that decide where things are, such as TMPDIR. Never a key. */
  env: Readonly<Record<string, string>>;
  runtime: SandboxRuntimeName;
  /** Seconds that the broker is given to end by itself. */
  stop_timeout_s: number;
}

export function unitPath(manager: ServiceManager, home: string): string {
  return manager === "systemd"
    ? `${home}/.config/systemd/user/${SYSTEMD_UNIT}`
    : `${home}/Library/LaunchAgents/${LAUNCHD_LABEL}.plist`;
}

/** The file's text; throws `usage` when a word cannot be written into it. */
export function unitText(manager: ServiceManager, options: UnitOptions): string {
  for (const word of [...options.command, ...Object.entries(options.env).flat()]) {
    // deno-lint-ignore no-control-regex
    if (/[\u0000-\u001f\u007f]/.test(word)) {
      throw new TaskdError("usage", `Cannot write a service file: ${JSON.stringify(word)} has a control character`);
    }
  }
  return manager === "systemd" ? systemdText(options) : launchdText(options);
}

/** Lines of a unit's `[Service]` that nothing breaks. */
const HARDENING = ["UMask=0077", "LimitCORE=0", "OOMPolicy=continue"];

/** Lines that imply NoNewPrivileges. */
const STRICT_HARDENING = [
  "NoNewPrivileges=yes",
  "LockPersonality=yes",
  "RestrictRealtime=yes",
  "RestrictSUIDSGID=yes",
  "SystemCallArchitectures=native",
  "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK",
];

function systemdText({ command, env, runtime, stop_timeout_s }: UnitOptions): string {
  const variables = Object.entries(env).map(([name, value]) => `Environment=${systemdQuoted(`${name}=${value}`)}`);
  const lines = [
    `# ${MARKER}; change it with systemctl --user edit ${SYSTEMD_UNIT}.`,
    "[Unit]",
    "Description=taskd task broker",
    "StartLimitIntervalSec=300",
    "StartLimitBurst=5",
    "",
    "[Service]",
    "Type=exec",
    `ExecStart=${command.map(systemdWord).join(" ")}`,
    ...variables,
    "Restart=on-failure",
    "RestartSec=5",
    "# The broker ends its sandboxes itself, and leaves no record behind that it has not written.",
    "KillMode=mixed",
    `TimeoutStopSec=${stop_timeout_s}`,
    ...(runtime === "deno" ? [] : ["# Containers below the unit have control groups of their own.", "Delegate=yes"]),
    ...HARDENING,
    ...(runtime === "podman" ? [] : STRICT_HARDENING),
    "",
    "[Install]",
    "WantedBy=default.target",
  ];
  return `${lines.join("\n")}\n`;
}

/** A word of ExecStart: there, variables are expanded too. */
function systemdWord(word: string): string {
  return systemdQuoted(word.replaceAll("$", "$$$$"));
}

/** A word as systemd reads it, with what it would expand doubled. */
function systemdQuoted(word: string): string {
  const escaped = word.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("%", "%%");
  return /^[\w@:=./,+-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}

function launchdText({ command, env, stop_timeout_s }: UnitOptions): string {
  const agent: Plist = {
    Label: LAUNCHD_LABEL,
    ProgramArguments: command,
    ...(Object.keys(env).length === 0 ? {} : { EnvironmentVariables: env }),
    RunAtLoad: true,
    KeepAlive: { SuccessfulExit: false },
    ProcessType: "Background",
    ExitTimeOut: stop_timeout_s,
    Umask: 0o077,
    HardResourceLimits: { Core: 0 },
  };
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    `<!-- ${MARKER} -->`,
    '<plist version="1.0">',
    ...plistLines(agent, ""),
    "</plist>",
    "",
  ].join("\n");
}

type Plist = string | number | boolean | readonly string[] | { readonly [key: string]: Plist };

function plistLines(value: Plist, indent: string): string[] {
  if (typeof value === "boolean") return [`${indent}<${value}/>`];
  if (typeof value === "number") return [`${indent}<integer>${value}</integer>`];
  if (typeof value === "string") return [`${indent}<string>${xmlText(value)}</string>`];
  const below = `${indent}  `;
  const within = (tag: string, lines: string[]) => [`${indent}<${tag}>`, ...lines, `${indent}</${tag}>`];
  if (value instanceof Array) return within("array", value.flatMap((item) => plistLines(item, below)));
  const line = (key: string) => `${below}<key>${xmlText(key)}</key>`;
  return within("dict", Object.entries(value).flatMap(([key, item]) => [line(key), ...plistLines(item, below)]));
}

function xmlText(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** The manager's program, with the arguments that enable, disable and reload the service. */
export function managerCalls(manager: ServiceManager, options: { uid: number; path: string }) {
  const { uid, path } = options;
  return manager === "systemd"
    ? {
      program: "systemctl" as const,
      enable: [["--user", "daemon-reload"], ["--user", "enable", "--now", SYSTEMD_UNIT]],
      disable: [["--user", "disable", "--now", SYSTEMD_UNIT]],
      reload: [["--user", "daemon-reload"]],
    }
    : {
      program: "launchctl" as const,
      enable: [["bootstrap", `gui/${uid}`, path]],
      disable: [["bootout", `gui/${uid}/${LAUNCHD_LABEL}`]],
      reload: [],
    };
}

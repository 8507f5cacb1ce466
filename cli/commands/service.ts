/** The commands of the user's service manager: service print, install, uninstall. */

import type { SandboxRuntimeName } from "../../broker/sandbox/runtime.ts";
import { findProgram } from "../../broker/sandbox/host_programs.ts";
import { hasProgram } from "../../broker/sandbox/open_runtime.ts";
import { AUTO_ORDER } from "../../broker/sandbox/installed_runtimes.ts";
import { installUnit, type ServiceOptions, uninstallUnit } from "../setup/service.ts";
import { type ServiceManager, unitPath, unitText } from "../setup/units.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import { localCommand } from "../plan/command_module.ts";
import { ownCommand } from "../table/own_command.ts";
import type { Io } from "../text/io.ts";
import { asking, environment } from "./_environment.ts";

/** Seconds that the manager gives the broker to end its tasks' sandboxes. */
const STOP_TIMEOUT_S = 90;

/** Variables of paths that a manager does not pass on by itself. */
const PLACE_VARIABLES = ["TMPDIR", "BROKER_SOCKET", "DENO_DIR"] as const;

interface ServiceFile {
  manager: ServiceManager;
  path: string;
  text: string;
}

/** Prints the text as it would be in the file, and writes nothing. */
export const print = localCommand({
  run: (args) => Promise.resolve(serviceFile(args)),
  render: ({ text }) => text.trimEnd(),
});

export const install = localCommand({
  async run(args, io) {
    const { manager, path, text } = serviceFile(args);
    const started = args.on("start");
    await installUnit({ manager, path, text }, { ...serviceOptions(args, io), started });
    return { manager, path, started };
  },
  render({ manager, path, started }) {
    const lines = [`Wrote ${path}`];
    if (started) lines.push("The broker is a service now");
    if (manager === "systemd") lines.push("To keep it running after you log out: loginctl enable-linger");
    return lines.join("\n");
  },
});

export const uninstall = localCommand({
  async run(args, io) {
    const manager = managerOf(args);
    const path = unitPath(manager, args.broker.home);
    await uninstallUnit({ manager, path }, serviceOptions(args, io));
    return { path };
  },
  render: ({ path }) => `Removed ${path}`,
});

function serviceOptions(args: Args, io: Io): ServiceOptions {
  return { ask: asking(args, io.signal), programs: args.host.programs, uid: Deno.uid() ?? 0 };
}

function managerOf(args: Args): ServiceManager {
  const [systemd, launchd] = [args.on("systemd"), args.on("launchd")];
  if (systemd && launchd) throw new TaskdError("usage", "Cannot write for two managers: choose systemd or launchd");
  if (systemd) return "systemd";
  return launchd || Deno.build.os === "darwin" ? "launchd" : "systemd";
}

function serviceFile(args: Args): ServiceFile {
  const { home, settings } = args.broker;
  const manager = managerOf(args);
  const env = environment(args);
  const configured = settings?.runtime ?? "auto";
  // It has to be installed; taskd doctor checks whether it works.
  const installed = (name: SandboxRuntimeName) =>
    name === "deno" || findProgram(name, args.host.programs) !== undefined;
  const has_program = settings !== undefined && hasProgram(settings, args.host.view);
  const candidates = AUTO_ORDER.filter((name) => name !== "bubblewrap" || has_program);
  const runtime = configured === "auto" ? candidates.find(installed) : configured;
  // launchd sets that of temporary files itself.
  const variables = PLACE_VARIABLES.filter((name) => name !== "TMPDIR" || manager !== "launchd").flatMap((name) => {
    const value = env(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  const log = manager === "launchd" ? ["--log-file", `${home}/.taskd/broker.log`] : [];
  const [program, words] = ownCommand(args.host.entry, ["start", ...log]);
  const text = unitText(manager, {
    command: [program, ...words],
    env: Object.fromEntries(variables),
    runtime: runtime ?? "podman",
    stop_timeout_s: STOP_TIMEOUT_S,
  });
  return { manager, path: unitPath(manager, home), text };
}

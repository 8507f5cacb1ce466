/**
 * What the commands of the service share: which manager, which file, and which words start
 * the broker.
 *
 * @module
 */

import type { SandboxRuntimeName } from "../../broker/sandbox/runtime.ts";
import { findProgram } from "../../broker/sandbox/host_programs.ts";
import { AUTO_ORDER } from "../../broker/sandbox/installed_runtimes.ts";
import { type ServiceManager, unitPath, unitText } from "../setup/units.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import { ownDaemonCommand } from "../table/own_command.ts";
import { environment } from "./_environment.ts";

/** Seconds that the manager gives the broker to end its tasks' sandboxes. */
const STOP_TIMEOUT_S = 90;

/** Variables of paths that a manager does not pass on by itself. */
const PLACE_VARIABLES = ["TMPDIR", "BROKER_SOCKET", "DENO_DIR", "XDG_RUNTIME_DIR"] as const;

/** The file of a service, not yet written. */
export interface ServiceFile {
  manager: ServiceManager;
  path: string;
  text: string;
}

/** The manager that was chosen, or that this system has. */
export function managerOf(args: Args): ServiceManager {
  const [systemd, launchd] = [args.on("systemd"), args.on("launchd")];
  if (systemd && launchd) throw new TaskdError("usage", "Cannot write for two managers: choose systemd or launchd");
  if (systemd) return "systemd";
  return launchd || Deno.build.os === "darwin" ? "launchd" : "systemd";
}

/** Makes the file's text. */
export function serviceFile(args: Args): ServiceFile {
  const { home, settings } = args.broker;
  const manager = managerOf(args);
  const env = environment(args);
  const configured = settings?.runtime ?? "auto";
  // It has to be installed; taskd doctor checks whether it works.
  const installed = (name: SandboxRuntimeName) => name === "deno" || findProgram(name) !== undefined;
  const runtime = configured === "auto" ? AUTO_ORDER.find(installed) : configured;
  // The manager of a user sets these itself.
  const own = manager === "systemd" ? ["XDG_RUNTIME_DIR"] : ["TMPDIR", "XDG_RUNTIME_DIR"];
  const variables = PLACE_VARIABLES.filter((name) => !own.includes(name)).flatMap((name) => {
    const value = env(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  const log = manager === "launchd" ? ["--log-file", `${home}/.taskd/broker.log`] : [];
  const [program, words] = ownDaemonCommand(["start", ...log]);
  const text = unitText(manager, {
    command: [program, ...words],
    env: Object.fromEntries(variables),
    runtime: runtime ?? "podman",
    stop_timeout_s: STOP_TIMEOUT_S,
  });
  return { manager, path: unitPath(manager, home), text };
}

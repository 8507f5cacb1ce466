/**
 * The runtime that the settings ask for. One that they name and that does not work is an error, never another runtime:
 * what restrains a task is the operator's choice.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { askProgram, PROGRAM_PATHS } from "./host_programs.ts";
import { agentOf } from "../agents.ts";
import { BubblewrapRuntime } from "./bubblewrap/bubblewrap_runtime.ts";
import { INSTALL } from "./bubblewrap/examine.ts";
import type { ReadHostView } from "./bubblewrap/host_view.ts";
import { chooseRuntime, describeRuntime, findRuntimes, type FoundRuntime } from "./installed_runtimes.ts";
import type { RuntimeName, Settings } from "../settings/settings.ts";
import { ContainerRuntime } from "./container_runtime.ts";
import { DenoRuntime } from "./deno_runtime.ts";
import { CONTAINER_RUNTIMES, type SandboxRuntime, type SandboxRuntimeName } from "./runtime.ts";
import { untestedVersion } from "./tested_versions.ts";

export interface OpenRuntimeOptions {
  settings: Settings;
  /** Distinguishes this broker's sandboxes from those of other brokers on the machine: 8 to 64 hexadecimal digits. */
  owner: string;
  /** A variable of the environment; the programs get what they find their own state by, and nothing else. */
  env: (name: string) => string | undefined;
  deno_path: string;
  deno_cache_dir: string;
  clock?: Clock;
  onWarning?: (message: string) => void;
  places?: typeof PROGRAM_PATHS;
  /** What sandboxes see of the host, where its own programs run in them. */
  view: ReadHostView;
  /** A folder that is the broker's alone: sandboxes' sockets are made in it. */
  run_dir: string;
  signal?: AbortSignal | undefined;
}

/** @throws {TaskdError} `sandbox_failed`. */
export async function openRuntime(options: OpenRuntimeOptions): Promise<SandboxRuntime> {
  const { settings, owner, env, deno_path, clock = systemClock, places = PROGRAM_PATHS, view, signal } = options;
  const ask = askProgram({ env, clock, signal });
  const deno = { path: deno_path, version: Deno.version.deno };
  const find = (names: readonly SandboxRuntimeName[]) => findRuntimes({ ask, deno, names, places });
  const without_images = ["bubblewrap", "deno"] as const;
  let found = await find(
    settings.runtime === "auto"
      ? CONTAINER_RUNTIMES
      : settings.runtime === "deno"
      ? without_images
      : [settings.runtime],
  );
  // What is not used is not tried out at every start.
  if (settings.runtime === "auto" && !found.some(({ works }) => works)) {
    found = [...found, ...await find(without_images)];
  }
  const chosen = chooseRuntime(settings.runtime, found, hasProgram(settings, view));
  if (chosen === undefined) throw absent(settings, found);
  if (settings.runtime === "auto") {
    for (const broken of found.filter(({ works }) => !works)) options.onWarning?.(describeRuntime(broken));
  }
  checkVersion(chosen, options);
  const behindBubblewrap = ({ path: program, bounding = "none" }: FoundRuntime) => {
    const [refused] = view.refused;
    if (refused !== undefined) throw unseen(refused);
    return new BubblewrapRuntime({
      ...options,
      program,
      bounding,
      clock,
      reaches_nothing: chosen.name === "deno",
    });
  };
  if (chosen.name === "deno") {
    const [refused] = chosen.commands === undefined ? [] : view.refused;
    if (refused !== undefined) options.onWarning?.(`the built-in agent runs no commands: ${unseen(refused).message}`);
    const commands = refused === undefined && chosen.commands ? behindBubblewrap(chosen.commands) : undefined;
    return new DenoRuntime({ deno_path, cache_dir: options.deno_cache_dir, owner, clock, commands });
  }
  if (chosen.name === "bubblewrap") return behindBubblewrap(chosen);
  return new ContainerRuntime({
    kind: chosen.name,
    program: chosen.path,
    rootless: chosen.rootless ?? false,
    oci_runtime: settings.oci_runtime,
    network: settings.network,
    gateway_ip: settings.gateway_ip,
    anchor_image: settings.anchor_image,
    owner,
    env,
    clock,
    onWarning: options.onWarning,
  });
}

/** Whether the default agent's program is on this host, to be run in a sandbox. */
export function hasProgram({ default_agent }: Pick<Settings, "default_agent">, { programs }: ReadHostView): boolean {
  return programs.includes(agentOf(default_agent).label);
}

function unseen({ path, why, remedy }: ReadHostView["refused"][number]): TaskdError {
  return new TaskdError("invalid_config", `Cannot show ${path} to sandboxes: ${why}`, { hint: remedy });
}

/** What to do about a runtime that was asked for; undefined when nothing more is known. */
export function remedyOf(requested: RuntimeName, broken: FoundRuntime | undefined): string | undefined {
  return broken?.remedy ?? (broken === undefined && requested === "bubblewrap" ? INSTALL : undefined);
}

function absent({ runtime }: Settings, found: readonly FoundRuntime[]): TaskdError {
  const broken = found.find(({ name }) => name === runtime);
  const why = broken ? describeRuntime(broken) : "its program is not installed";
  return new TaskdError("sandbox_failed", `Cannot use the runtime ${runtime}: ${why}`, {
    hint: remedyOf(runtime, broken) ?? "Repair or install it, or set runtime: auto; taskd doctor looks at each",
  });
}

function checkVersion({ name, version }: FoundRuntime, { settings, onWarning }: OpenRuntimeOptions): void {
  const untested = untestedVersion(name, version ?? "");
  if (untested === undefined) return;
  if (settings.strict_container_version) {
    throw new TaskdError("sandbox_failed", `Cannot use the runtime ${name}: ${untested}`, {
      hint: "Install a tested version, or turn strict_container_version off",
    });
  }
  onWarning?.(untested);
}

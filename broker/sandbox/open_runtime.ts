/**
 * The runtime that the settings ask for. One that they name and that does not work is an error, never another runtime:
 * what restrains a task is the operator's choice.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { askProgram, type PROGRAM_PATHS } from "./host_programs.ts";
import { chooseRuntime, describeRuntime, findRuntimes, type FoundRuntime } from "./installed_runtimes.ts";
import type { Settings } from "../settings/settings.ts";
import { ContainerRuntime } from "./container_runtime.ts";
import { DenoRuntime } from "./deno_runtime.ts";
import type { SandboxRuntime } from "./runtime.ts";
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
  signal?: AbortSignal | undefined;
}

/** @throws {TaskdError} `sandbox_failed`. */
export async function openRuntime(options: OpenRuntimeOptions): Promise<SandboxRuntime> {
  const { settings, owner, env, deno_path, clock = systemClock, places, signal } = options;
  const ask = askProgram({ env, clock, ...(signal ? { signal } : {}) });
  const deno = { path: deno_path, version: Deno.version.deno };
  const found = settings.runtime === "deno"
    ? [{ name: "deno", path: deno_path, works: true, version: deno.version, notes: [] } satisfies FoundRuntime]
    : await findRuntimes({ ask, deno, ...(places ? { places } : {}) });
  const chosen = chooseRuntime(settings.runtime, found);
  if (chosen === undefined) throw absent(settings, found);
  if (settings.runtime === "auto") {
    for (const broken of found.filter(({ works }) => !works)) options.onWarning?.(describeRuntime(broken));
  }
  checkVersion(chosen, options);
  if (chosen.name === "deno") {
    return new DenoRuntime({ deno_path, cache_dir: options.deno_cache_dir, owner, clock });
  }
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

function absent({ runtime }: Settings, found: readonly FoundRuntime[]): TaskdError {
  const broken = found.find(({ name }) => name === runtime);
  const why = broken ? describeRuntime(broken) : "its program is not installed";
  return new TaskdError("sandbox_failed", `Cannot use the runtime ${runtime}: ${why}`, {
    hint: "Repair or install it, or set runtime: auto; taskd doctor looks at each",
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

/**
 * Checks of the sandbox runtime: that there is one, that it can bound what it runs, that
 * its images are there, and that the gateway's ports can be had.
 */

import { fileErrorCode } from "../../lib/fs.ts";
import type { Settings } from "../../broker/settings/settings.ts";
import { checked, fail, failedCheck, type HostCheck, ok, warn } from "./check.ts";
import type { AskProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { agentOf } from "../../broker/agents.ts";
import type { ReadHostView } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { hasProgram, remedyOf } from "../../broker/sandbox/open_runtime.ts";
import { isContainerRuntime } from "../../broker/sandbox/runtime.ts";
import { isThere } from "./images.ts";
import {
  chooseRuntime,
  describeRuntime,
  type FoundRuntime,
  resourceLimits,
} from "../../broker/sandbox/installed_runtimes.ts";
import { messageOf } from "../../lib/errors.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../../broker/egress/ports.ts";

export interface RuntimeCheckOptions {
  settings: Settings;
  found: readonly FoundRuntime[];
  ask: AskProgram;
  places?: typeof PROGRAM_PATHS;
  /** Why a version is outside of what was tested; undefined when it is inside. */
  untested: (runtime: FoundRuntime) => string | undefined;
  /** What sandboxes see of this machine, where its own programs run in them. */
  view: ReadHostView;
}

export async function checkRuntime(options: RuntimeCheckOptions): Promise<[HostCheck[], FoundRuntime | undefined]> {
  const { settings, found, view } = options;
  const chosen = chooseRuntime(settings.runtime, found, hasProgram(settings, view));
  if (chosen === undefined) {
    const broken = found.find(({ name }) => name === settings.runtime);
    const detail = broken ? describeRuntime(broken) : `runtime is ${settings.runtime}, and there is no such program`;
    return [[
      fail("runtime", detail, remedyOf(settings.runtime, broken) ?? "Repair or install it, or set runtime: auto"),
    ], undefined];
  }
  // Nothing of what is private is shown to a command: then there is none.
  const used = chosen.commands === undefined || view.refused.length === 0 ? chosen : { ...chosen, commands: undefined };
  const checks = [ok("runtime", describeRuntime(used)), ...agentCheck(settings, chosen, view)];
  // Those that auto tries first and that do not work.
  const passed = settings.runtime === "auto" ? found.slice(0, found.indexOf(chosen)) : [];
  for (const other of passed) {
    checks.push(
      other.works
        ? ok("runtime", `${describeRuntime(other)}; not used, since ${settings.default_agent} is not installed`)
        : warn("runtime", describeRuntime(other), other.remedy ?? `Repair it, or set runtime: ${chosen.name}`),
    );
  }
  const refused = found.find(({ name, works }) => name === "bubblewrap" && !works);
  if (settings.runtime === "deno" && refused !== undefined) {
    const detail = `${describeRuntime(refused)}: the built-in agent runs no commands`;
    checks.push(warn("runtime", detail, refused.remedy ?? "Repair it, or do without"));
  }
  if (chosen.name === "bubblewrap") checks.push(...viewChecks(view));
  if (chosen.commands !== undefined) {
    checks.push(
      ...view.refused.map(({ path, why, remedy }) =>
        warn("sandbox.read", `the built-in agent runs no commands: ${path} must not be shown: ${why}`, remedy)
      ),
    );
  }
  const untested = options.untested(chosen);
  if (untested !== undefined) {
    checks.push(
      settings.strict_container_version
        ? fail("runtime version", untested, "Install a tested version, or turn strict_container_version off")
        : warn("runtime version", untested, "Install a tested version if something does not work"),
    );
  }
  if (chosen.name === "podman" || chosen.name === "docker") {
    checks.push(...await checked("limits", () => limitChecks(options.ask, options.places), "warn"));
  }
  return [checks, chosen];
}

/** The embedded runtime has no programs in it, so no agent's own; bubblewrap those of this machine. */
function agentCheck(settings: Settings, { name }: FoundRuntime, view: ReadHostView): HostCheck[] {
  const { default_agent } = settings;
  if (name === "bubblewrap") {
    const { label, package: npm } = agentOf(default_agent);
    if (hasProgram(settings, view)) return [ok("agent", `${label} is installed`)];
    const detail = `PATH leads to no ${label} that sandboxes may see, and default_agent is ${default_agent}`;
    return [fail("agent", detail, `Install it: npm install -g ${npm}; or choose another default_agent`)];
  }
  if (name !== "deno" || default_agent === "agent_d") return [];
  const detail = `the embedded runtime runs agent_d alone, and default_agent is ${default_agent}`;
  return [
    fail(
      "agent",
      detail,
      "Install podman, or bubblewrap and the agent; or set default_agent: agent_d and a compat endpoint",
    ),
  ];
}

function viewChecks({ refused }: ReadHostView): HostCheck[] {
  return refused.map(({ path, why, remedy }) => fail("sandbox.read", `${path} must not be shown: ${why}`, remedy));
}

/** An agent with a language server and a package manager opens this many files. */
const ENOUGH_FILES = 1024;
const ENOUGH_PROCESSES = 512;

async function limitChecks(ask: AskProgram, places?: typeof PROGRAM_PATHS): Promise<HostCheck[]> {
  const limits = await resourceLimits(ask, places);
  if (limits === undefined) return [];
  const { open_files, processes } = limits;
  if (open_files >= ENOUGH_FILES && processes >= ENOUGH_PROCESSES) return [];
  const detail = `at most ${open_files} open files and ${processes} processes, which sandboxes inherit`;
  return [warn("limits", detail, `Raise them to ${ENOUGH_FILES} and ${ENOUGH_PROCESSES}: ulimit -Hn, ulimit -Hu`)];
}

export async function checkImages(settings: Settings, runtime: FoundRuntime, ask: AskProgram): Promise<HostCheck[]> {
  if (!isContainerRuntime(runtime.name)) return [];
  const checks: HostCheck[] = [];
  for (const setting of ["sandbox_image", "anchor_image"] as const) {
    const image = settings[setting];
    checks.push(
      ...await checked(
        "image",
        async () =>
          await isThere("image", image, runtime, ask)
            ? ok("image", `${image} is there`)
            : fail("image", `${image} is missing`, `Run taskd setup to build it, or set ${setting}`),
      ),
    );
  }
  const network = await checked("network", async () => {
    const exists = await isThere("network", settings.network, runtime, ask);
    return ok("network", exists ? `${settings.network} is there` : "is made when the broker starts");
  });
  return [...checks, ...network];
}

/** Whether the gateway and the proxy can listen; `isOurs` when the running broker does. */
export async function checkPorts(settings: Settings, runtime: FoundRuntime, isOurs: boolean): Promise<HostCheck[]> {
  if (runtime.name === "bubblewrap") return [ok("ports", "none: sandboxes reach the broker by sockets")];
  if (runtime.name === "deno") return [ok("ports", "any free ones of 127.0.0.1: the embedded runtime needs no others")];
  const { gateway_ip } = settings;
  return await Promise.all(([["gateway", GATEWAY_PORT], ["proxy", PROXY_PORT]] as const).map(async ([what, port]) => {
    const name = `port ${port}`;
    const address = { hostname: gateway_ip, port };
    if (isOurs) {
      const answers = await Deno.connect(address).then((connection) => (connection.close(), true), () => false);
      if (answers) return ok(name, `the ${what} of the running broker`);
      return fail(name, `the ${what} of the running broker does not answer at ${gateway_ip}`, "Run taskd start again");
    }
    return portCheck(name, address);
  }));
}

function portCheck(name: string, address: { hostname: string; port: number }): HostCheck {
  try {
    Deno.listen(address).close();
    return ok(name, `free at ${address.hostname}`);
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) {
      const how = `Find it with: ss -ltnp 'sport = :${address.port}', and end it`;
      return fail(name, `another program listens at ${address.hostname}`, how);
    }
    if (error instanceof Deno.errors.AddrNotAvailable) {
      return ok(name, `free: ${address.hostname} comes with the sandboxes' network`);
    }
    if (error instanceof Deno.errors.NotCapable) return failedCheck(name, error);
    const detail = `cannot be had at ${address.hostname}: ${messageOf(error)}`;
    return fail(
      name,
      detail,
      fileErrorCode(error) === "denied" ? "Choose another gateway_ip" : "Repair it and run taskd doctor again",
    );
  }
}

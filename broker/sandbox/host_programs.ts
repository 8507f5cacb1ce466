/**
 * The host's programs that the broker calls: where they may be, and one way to ask them
 * something short. A program is found at fixed places, never through PATH: what is allowed
 * to run is named by its whole path.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import { runProcess } from "../../lib/process.ts";
import { GIT_PATHS } from "../git/git.ts";
import { GH_PATHS } from "../git/gh.ts";

export type HostProgram =
  | "git"
  | "gh"
  | "podman"
  | "docker"
  | "container"
  | "prlimit"
  | "kill"
  | "systemctl"
  | "launchctl";

const PREFIXES = ["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"] as const;
const inPrefixes = (name: string) => PREFIXES.map((prefix) => `${prefix}/${name}`);

/** Where each may be, the most usual place first. */
export const PROGRAM_PATHS: Readonly<Record<HostProgram, readonly string[]>> = {
  git: GIT_PATHS,
  gh: GH_PATHS,
  podman: [...inPrefixes("podman"), "/opt/podman/bin/podman"],
  docker: inPrefixes("docker"),
  container: ["/usr/local/bin/container", "/opt/homebrew/bin/container"],
  prlimit: ["/usr/bin/prlimit"],
  kill: ["/bin/kill"],
  systemctl: ["/usr/bin/systemctl"],
  launchctl: ["/bin/launchctl"],
};

/** Variables that the container runtimes and gh find their own state by, and none that holds a vendor's key. */
export const TOOL_VARIABLES: readonly string[] = [
  "HOME",
  "USER",
  "LOGNAME",
  "TMPDIR",
  "XDG_RUNTIME_DIR",
  "XDG_CONFIG_HOME",
  "XDG_DATA_HOME",
  "XDG_STATE_HOME",
  "DBUS_SESSION_BUS_ADDRESS",
  "CONTAINER_HOST",
  "CONTAINERS_CONF",
  "CONTAINERS_STORAGE_CONF",
  "CONTAINERS_REGISTRIES_CONF",
  "DOCKER_HOST",
  "DOCKER_CONFIG",
  "DOCKER_CONTEXT",
];

export interface ProgramOutput {
  code: number;
  stdout: string;
  stderr: string;
}

/** Asks a program; throws `timed_out`, `not_found` or `denied`. */
export type AskProgram = (path: string, args: readonly string[]) => Promise<ProgramOutput>;

export interface AskOptions {
  env: (name: string) => string | undefined;
  /** More variables that are passed on, for one program. */
  variables?: readonly string[];
  signal?: AbortSignal | undefined;
  clock?: Clock;
}

/** A runtime that does not work often hangs instead of saying so. */
const DEADLINE_MS = 15_000;
/** `podman info` of a host with many containers is a few KiB. */
const MAX_BYTES = 1 << 20;

/** Those of {@linkcode TOOL_VARIABLES}, and of `more`, that are set. */
export function toolVariables(
  env: (name: string) => string | undefined,
  more: readonly string[] = [],
): Record<string, string> {
  return Object.fromEntries(
    [...TOOL_VARIABLES, ...more].map((name) => [name, env(name) ?? ""] as const).filter(([, value]) => value !== ""),
  );
}

/** Asks with a small environment, from the root directory, and not for long. */
export function askProgram(options: AskOptions): AskProgram {
  const { env, variables = [], signal, clock = systemClock } = options;
  const passed = toolVariables(env, variables);
  return async (path, args) => {
    const { code, stdout, stderr } = await runProcess(path, {
      args,
      env: { ...passed, PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", LC_ALL: "C" },
      cwd: "/",
      deadline_ms: DEADLINE_MS,
      max_bytes: MAX_BYTES,
      on_excess: "cut",
      clock,
      attempted: `Cannot run ${path} ${args[0] ?? ""}`.trimEnd(),
      signal,
    });
    return { code, stdout: new TextDecoder().decode(stdout), stderr };
  };
}

/** Finds a program; undefined when it is at none of its places. */
export function findProgram(name: HostProgram, places = PROGRAM_PATHS): string | undefined {
  return places[name].find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}

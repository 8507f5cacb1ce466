/**
 * The host's programs that the broker calls: where they may be, and one way to ask them something short. What is allowed
 * to run is named by its whole path: fixed places, and for a few programs what PATH leads to at the start. None is used
 * that another user of the machine could exchange.
 */

import { words } from "../../lib/text/words.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { fileErrorCode, isFile, look, lstatIfPresent } from "../../lib/fs.ts";
import { runProcess } from "../../lib/process.ts";
import { GIT_PATHS } from "../git/git.ts";
import { GH_PATHS } from "../git/gh.ts";

export type HostProgram =
  | "git"
  | "gh"
  | "notify-send"
  | "podman"
  | "docker"
  | "container"
  | "bubblewrap"
  | "systemd-run"
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
  "notify-send": ["/usr/bin/notify-send", "/usr/local/bin/notify-send"],
  podman: [...inPrefixes("podman"), "/opt/podman/bin/podman"],
  docker: inPrefixes("docker"),
  container: ["/usr/local/bin/container", "/opt/homebrew/bin/container"],
  bubblewrap: ["/usr/bin/bwrap", "/usr/local/bin/bwrap"],
  "systemd-run": ["/usr/bin/systemd-run"],
  prlimit: ["/usr/bin/prlimit"],
  kill: ["/bin/kill"],
  systemctl: ["/usr/bin/systemctl"],
  launchctl: ["/bin/launchctl"],
};

/** Variables that the container runtimes and gh find their own state by, and none that holds a vendor's key. */
export const TOOL_VARIABLES: readonly string[] = words(`
  HOME USER LOGNAME TMPDIR XDG_RUNTIME_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS
  CONTAINER_HOST CONTAINERS_CONF CONTAINERS_STORAGE_CONF CONTAINERS_REGISTRIES_CONF DOCKER_HOST DOCKER_CONFIG
  DOCKER_CONTEXT
`);

/** Programs that the operator may have elsewhere. */
const ALSO_IN_PATH = ["git", "gh", "notify-send"] as const;
/** Links that are followed on the way to a program, as many as Linux does. */
const MAX_LINKS = 40;
/** Mode of a folder in which no one removes or renames what is another's. */
const STICKY = 0o1000;

/** Groups whose members administer the machine, and so can be anyone: of macOS `admin` too, which Homebrew's folders have. */
const ADMINISTRATORS: ReadonlySet<number | null> = new Set(Deno.build.os === "darwin" ? [0, 80] : [0]);

/**
 * Those of {@linkcode PROGRAM_PATHS}, and behind them what `path` leads to, that only root, the user `uid` and members of
 * {@linkcode ADMINISTRATORS} can exchange.
 */
export function programPlaces(
  path: string | undefined,
  uid: number | null,
  fixed: typeof PROGRAM_PATHS = PROGRAM_PATHS,
): typeof PROGRAM_PATHS {
  // Not what is below the working directory, nor an empty entry, which means that too.
  const folders = (path ?? "").split(":").filter((folder) => folder.startsWith("/"));
  const places = Object.entries(fixed).map(([name, paths]) => {
    const more = ALSO_IN_PATH.some((other) => other === name)
      ? folders.map((folder) => `${folder.replace(/\/+$/, "")}/${name}`).filter((at) => isTrusted(at, uid))
      : [];
    return [name, [...new Set([...paths.filter((at) => !isExchangeable(at, uid)), ...more])]];
  });
  return Object.fromEntries(places);
}

/** Programs at {@linkcode PROGRAM_PATHS} that are there and not used, since another user could exchange them. */
export function exchangeablePrograms(uid: number | null, fixed: typeof PROGRAM_PATHS = PROGRAM_PATHS): string[] {
  return Object.values(fixed).flat().filter((path) => isFile(path) && isExchangeable(path, uid));
}

/** Whether another user could put a program at a fixed place, or exchange the one that is there. */
function isExchangeable(path: string, uid: number | null): boolean {
  return visit(path, uid, ADMINISTRATORS) === "exchangeable";
}

/**
 * Whether a program is there that no one but root and `uid` can exchange, and no repository has brought: it is not in a
 * work tree of git, nor in a folder of packages, whose programs PATH has where npm starts this.
 */
function isTrusted(path: string, uid: number | null): boolean {
  const brought = (at: string, name: string) => name === "node_modules" || lstatIfPresent(`${at}/.git`) !== undefined;
  return visit(path, uid, new Set(), brought) === "own" && isProgram(path);
}

/**
 * Follows a path from the root: it is `own` when every folder, link and file on the way belongs to root or `uid`, and
 * others can write none, nor a group beside `groups`. What is not there is `missing` where no one else could make it.
 *
 * @param refused Folders that do not count, by their path and name.
 */
function visit(
  path: string,
  uid: number | null,
  groups: ReadonlySet<number | null>,
  refused: (at: string, name: string) => boolean = () => false,
): "own" | "missing" | "exchangeable" {
  const left = path.split("/").reverse();
  let [at, links, shared] = ["", 0, false];
  try {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      if (name === "" || name === ".") continue;
      if (name === "..") {
        // Once more from the root: what was found of that folder counts.
        left.push(...at.split("/").slice(0, -1).reverse());
        [at, shared] = ["", false];
        continue;
      }
      const info = Deno.lstatSync(`${at}/${name}`);
      if (info.uid !== 0 && info.uid !== uid) return "exchangeable";
      // In a folder that others write, such as /tmp, a file may be another name of any; a folder cannot.
      if (shared && !info.isDirectory) return "exchangeable";
      if (info.isSymlink) {
        if (++links > MAX_LINKS) return "exchangeable";
        const target = Deno.readLinkSync(`${at}/${name}`);
        if (target.startsWith("/")) at = "";
        left.push(...target.split("/").reverse());
        continue;
      }
      at = `${at}/${name}`;
      const mode = info.mode ?? 0;
      shared = (mode & (groups.has(info.gid) ? 0o002 : 0o022)) !== 0;
      if (shared && (!info.isDirectory || (mode & STICKY) === 0)) return "exchangeable";
      if (info.isDirectory && refused(at, name)) return "exchangeable";
    }
    return "own";
  } catch (error) {
    return fileErrorCode(error) === "not_found" && !shared ? "missing" : "exchangeable";
  }
}

export interface ProgramOutput {
  code: number;
  stdout: string;
  stderr: string;
}

/** Asks a program; throws `timed_out`, `not_found` or `denied`. */
export type AskProgram = (path: string, args: readonly string[], stdin?: Uint8Array) => Promise<ProgramOutput>;

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

/** Those of the variables that are set. */
export function setVariables(env: AskOptions["env"], names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, env(name) ?? ""]).filter(([, value]) => value !== ""));
}

export function askProgram(options: AskOptions): AskProgram {
  const { env, variables = [], signal, clock = systemClock } = options;
  const passed = setVariables(env, [...TOOL_VARIABLES, ...variables]);
  return async (path, args, stdin) => {
    const { code, stdout, stderr } = await runProcess(path, {
      args,
      stdin,
      env: { ...passed, PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", LC_ALL: "C" },
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
  return places[name].find(isFile);
}

/** Whether a file is there that can be executed. */
export function isProgram(path: string): boolean {
  const found = look(path, Deno.statSync);
  return found?.isFile === true && ((found.mode ?? 0) & 0o111) !== 0;
}

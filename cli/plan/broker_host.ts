/**
 * What the commands that set the broker up and run it touch of the host: files, programs, variables. Read off the
 * broker's own tables, and so loaded only for these commands; the command table makes permissions of it.
 */

import { configurationVariables } from "../../broker/settings/environment_variables.ts";
import { notifyPrograms } from "../../broker/engine/notify.ts";
import { HOST_VARIABLES, TOKEN_VARIABLES } from "../../broker/git/credentials.ts";
import { EGRESS_VARIABLE, RUNTIME_DIR_VARIABLE, taskdHome } from "../../broker/settings/load.ts";
import { type UntrustedPlace, untrustedPlaces } from "../../broker/settings/own_places.ts";
import { ROOTS } from "../../broker/settings/roots.ts";
import type { Settings } from "../../broker/settings/settings.ts";
import { isBucket, storeDirectory } from "./locations.ts";
import { AGENTS } from "../../broker/agents.ts";
import { type ReadHostView, readHostView } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { ownBroker } from "../../broker/client/home_lock.ts";
import { type DaemonInfo, daemonLockPath, readDaemonInfo } from "../../lib/store/daemon_lock.ts";
import {
  exchangeablePrograms,
  type PROGRAM_PATHS,
  programPlaces,
  TOOL_VARIABLES,
} from "../../broker/sandbox/host_programs.ts";

/** Where deno's cache, the desktop and the agent of ssh are, and where packages of images come from. */
const PLACE_VARIABLES = ("DISPLAY WAYLAND_DISPLAY XAUTHORITY DENO_DIR XDG_CACHE_HOME SSH_AUTH_SOCK HTTP_PROXY " +
  "NODE_EXTRA_CA_CERTS NPM_CONFIG_REGISTRY npm_config_registry").split(" ");

export interface HostPlace {
  /** `~/.taskd`. */
  directory: string;
  /** The file in it by which a broker that runs is found. */
  lock: string;
  /** XDG_RUNTIME_DIR: where the socket is by default, if it is this user's alone. */
  runtime_dir?: string | undefined;
  /** Another egress list than the one in it. */
  egress_list?: string | undefined;
  /** The socket of the broker that runs now; it may have been started with other settings. */
  live_socket?: string | undefined;
  /** The directories of the settings: work trees, records, logs, caches. */
  roots: string[];
  /** What configures the broker, keys included. */
  variables: string[];
  /** What git, gh and the container runtimes find their own state by. */
  tool_variables: string[];
  /** Absolute paths: where each program may be. */
  programs: typeof PROGRAM_PATHS;
  /** Programs at the fixed places that are not used, since another user of the machine could exchange them. */
  exchangeable_programs: string[];
  /** Absolute paths of what shows notifications. */
  notifiers: string[];
  deno: string;
  /** URL of this program's main module. */
  entry: string;
  /** The directory of the branch store, when it is in one. */
  store?: string | undefined;
  /** The socket of the store's daemon that runs now; only for commands that ask for `untrusted`. */
  store_socket?: string | undefined;
  /** What another user of the machine could decide about: a command may not inspect what leads to its own places. */
  untrusted: UntrustedPlace[];
  /** Where images are put together. */
  temporary: string;
  /** Where service managers look for files of this user's. */
  unit_folders: string[];
  /** What sandboxes see of this machine, where its own programs run in them. */
  view: ReadHostView;
}

export interface HostContext {
  home: string;
  entry: string;
  env: (name: string) => string | undefined;
  absolute: (path: string) => string;
  settings: Settings | undefined;
  store: string;
  /** Whether the command reports what it finds on the host. */
  examines: boolean;
}

export async function hostPlace(context: HostContext): Promise<HostPlace> {
  const { home, entry, env, absolute, settings, store, examines } = context;
  const directory = taskdHome(home);
  const egress = env(EGRESS_VARIABLE);
  const spelled = egress?.startsWith("~/") ? `${home}/${egress.slice(2)}` : egress;
  const egress_list = spelled?.startsWith("/") ? spelled : undefined;
  const runtime_dir = env(RUNTIME_DIR_VARIABLE);
  const roots = settings === undefined ? [] : ROOTS;
  const at = isBucket(store) ? undefined : storeDirectory(store, { home, absolute });
  const programs = programPlaces(env("PATH"), Deno.uid());
  const named = [settings?.compat.api_key_env, settings?.broker.metrics_token_env].filter((name) => name);
  return {
    directory,
    lock: daemonLockPath(directory),
    runtime_dir: runtime_dir?.startsWith("/") ? runtime_dir : undefined,
    egress_list,
    live_socket: await socketOf(ownBroker(home)),
    // Permissions are checked against the spelling and against the place.
    roots: [...new Set(roots.flatMap((name) => [settings![name], absolute(settings![name])]))],
    variables: [...configurationVariables(), ...named.map(String)],
    tool_variables: [...TOOL_VARIABLES, ...HOST_VARIABLES, ...TOKEN_VARIABLES, ...PLACE_VARIABLES],
    programs,
    exchangeable_programs: examines ? exchangeablePrograms(Deno.uid()) : [],
    notifiers: notifyPrograms(programs).flatMap(({ paths }) => paths),
    deno: Deno.execPath(),
    entry,
    store: at,
    store_socket: examines && at !== undefined ? await socketOf(readDaemonInfo(at)) : undefined,
    untrusted: examines ? untrustedPlaces({ home, egress_list, settings }) : [],
    temporary: absolute(env("TMPDIR") ?? "/tmp"),
    view: readHostView({
      path: env("PATH") ?? "",
      home,
      programs: AGENTS.map(({ label }) => label),
      read: settings?.sandbox.read ?? [],
      own: [directory, ...roots.map((name) => settings![name])],
    }),
    unit_folders: [`${home}/.config/systemd`, `${home}/Library/LaunchAgents`],
  };
}

/** Of a daemon; where that cannot be read, the command reads it again, and reports what is wrong. */
function socketOf(info: Promise<DaemonInfo | undefined>): Promise<string | undefined> {
  return info.then((known) => known?.socket, () => undefined);
}

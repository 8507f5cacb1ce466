/**
 * From a parsed call to its plan: where the store and the socket are, and who
 * does the work. Runs before permissions are narrowed, so it only looks.
 *
 * @module
 */

import { TaskdError } from "../lib/errors.ts";
import type { CommandSpec, FlagValue, Plan, Route } from "./command.ts";

/** Bytes that a unix socket's path may have: sun_path without its final NUL, on Linux and on macOS. */
const SOCKET_PATH_MAX_BYTES = Deno.build.os === "darwin" ? 103 : 107;

/** What planning needs of its surroundings. */
export interface LaunchContext {
  /** The home directory, if the system names one. */
  home: string | undefined;
  /** A path as absolute. */
  absolute(path: string): string;
  /** The socket of the live daemon that serves a store's directory; undefined when none does. */
  daemonSocket(directory: string): Promise<string | undefined>;
}

/** Makes the plan of a call. */
export async function planCall(
  call: { spec: CommandSpec; positionals: Record<string, string>; flags: Record<string, FlagValue> },
  context: LaunchContext,
): Promise<Plan> {
  const { spec, positionals, flags } = call;
  const plan = { command: spec.name, positionals, flags };
  if (spec.uses === "nothing") return { ...plan, store: "", socket: "", route: "none" };
  const store = storeDirectory(String(flags.store), context);
  const named = typeof flags.socket === "string" ? flags.socket : undefined;
  const live = spec.uses === "serve" || named !== undefined ? undefined : await context.daemonSocket(store);
  const socket = named ?? live ?? `${store}/taskd.sock`;
  const route = routeOf(spec, { live: live !== undefined, named: named !== undefined });
  if (route === "socket" || spec.uses === "serve") checkSocketPath(socket);
  return { ...plan, store, socket, route };
}

/** A socket that is named is meant: the work goes there, or fails. */
function routeOf(spec: CommandSpec, daemon: { live: boolean; named: boolean }): Route {
  if (spec.uses === "daemon") return "socket";
  if (spec.uses === "branches") return daemon.live || daemon.named ? "socket" : "store";
  return spec.uses === "store" ? "store" : "none";
}

/** The absolute directory that a store's location means. */
export function storeDirectory(location: string, context: Pick<LaunchContext, "home" | "absolute">): string {
  if (location.startsWith("file:")) return context.absolute(pathOfUrl(location));
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1];
  if (scheme !== undefined) throw cannotUse(location, `${scheme}:// stores are not supported yet`);
  if (location === "" || location.includes("\0")) throw cannotUse(location, "it is not a path");
  if (location !== "~" && !location.startsWith("~/")) return context.absolute(location);
  if (context.home === undefined) throw cannotUse(location, "HOME is not set");
  return context.absolute(`${context.home}/${location.slice(2)}`);
}

function pathOfUrl(location: string): string {
  try {
    const url = new URL(location);
    const path = decodeURIComponent(url.pathname);
    if (location.startsWith("file:///") && url.search + url.hash === "" && !path.includes("\0")) return path;
  } catch {
    // Not a URL, or its escapes are not UTF-8.
  }
  throw cannotUse(location, "it is not of the form file:///path");
}

function cannotUse(location: string, why: string): TaskdError {
  return new TaskdError("usage", `Cannot use ${JSON.stringify(location.slice(0, 200))} as a store: ${why}`, {
    hint: "Name a directory with -store or BSTORE_STORE",
  });
}

function checkSocketPath(path: string): void {
  const bytes = new TextEncoder().encode(path).length;
  if (bytes <= SOCKET_PATH_MAX_BYTES) return;
  throw new TaskdError(
    "usage",
    `Cannot use ${path} as a socket: the path has ${bytes} bytes and the system takes at most ${SOCKET_PATH_MAX_BYTES}`,
    { hint: "Name a shorter path with -socket, for example under /tmp or $XDG_RUNTIME_DIR" },
  );
}

/**
 * A path as absolute, from the current directory, and without symbolic links: permissions are checked against both the
 * spelling and the place, so there had better be one of them. What does not exist yet is kept as spelled.
 */
export function absolutePath(path: string): string {
  const spelled = resolve(path);
  let missing = "";
  for (let known = spelled;; known = parentOf(known)) {
    try {
      const real = Deno.realPathSync(known);
      return missing === "" ? real : `${real === "/" ? "" : real}${missing}`;
    } catch {
      if (known === "/") return spelled;
      missing = known.slice(known.lastIndexOf("/")) + missing;
    }
  }
}

/** Written out: the path library would be a third of the start-up of a command that has nothing else to load. */
function resolve(path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${Deno.cwd()}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** The directory that an absolute path without `.` and `..` lies in; the root is its own. */
export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

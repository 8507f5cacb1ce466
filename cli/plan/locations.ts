/** How locations are read that a person names: stores, sockets and paths. */

import { TaskdError } from "../../lib/errors.ts";
import { MAX_SOCKET_PATH_BYTES } from "../../lib/socket_path.ts";

/** Where a store is unless a call names another place. */
export const DEFAULT_STORE = "~/.taskd/store";

export interface LaunchContext {
  /** The home directory, if the system names one. */
  home: string | undefined;
  /** URL of the program's main module, by which it starts itself. */
  entry: string;
  absolute(path: string): string;
  env(name: string): string | undefined;
  /** The socket of the live daemon that works in a workspace; undefined when none does. */
  daemonSocket(workspace: string): Promise<string | undefined>;
}

/** True also for a misspelled one, such as `s3:/bucket`: a directory of that name is written `./s3:`. */
export function isBucket(location: string): boolean {
  return /^s3:/i.test(location);
}

export function storeDirectory(location: string, context: Pick<LaunchContext, "home" | "absolute">): string {
  if (location.startsWith("file:")) return context.absolute(pathOfUrl(location));
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(location)?.[1];
  if (scheme !== undefined) throw cannotUse(location, `there are no ${scheme}:// stores`);
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
  // What stands before an @ may be a secret.
  const shown = JSON.stringify(location.replace(/\/\/[^/]*@/, "//...@").slice(0, 200));
  return new TaskdError("usage", `Cannot use ${shown} as a store: ${why}`, {
    hint: "Name a directory or s3://bucket/prefix with --store or BSTORE_STORE",
  });
}

export function checkSocketPath(path: string): void {
  const bytes = new TextEncoder().encode(path).length;
  if (bytes <= MAX_SOCKET_PATH_BYTES) return;
  throw new TaskdError(
    "usage",
    `Cannot use ${path} as a socket: the path has ${bytes} bytes and the system takes at most ${MAX_SOCKET_PATH_BYTES}`,
    { hint: "Name a shorter path with --socket, for example under /tmp or $XDG_RUNTIME_DIR" },
  );
}

/**
 * A daemon's unix socket: bound so that only its owner can connect, distinguished from
 * a stale one, and removed at the end.
 */

import { SocketStaging } from "./_socket_staging.ts";
import { type ErrorCode, TaskdError } from "./errors.ts";
import { fileError, fileErrorCode, lstatIfPresent } from "./fs.ts";
import { MAX_SOCKET_PATH_BYTES, socketStagingOf } from "./socket_path.ts";

/** How errors name the program that listens. */
export interface SocketOwner {
  /** The code when one is listening already. */
  running: ErrorCode;
  name: string;
  /** How to listen somewhere else: `choose another path with --socket`. */
  elsewhere: string;
}

const STORE_DAEMON: SocketOwner = {
  running: "daemon_running",
  name: "daemon",
  elsewhere: "choose another path with --socket",
};

export interface BoundSocket {
  listener: Deno.UnixListener;
  /**
   * Removes the socket file and closes the listener; then true. If another socket has taken its place, the listener
   * stays open, but keeps the process no longer; then false. May be called twice.
   */
  close(): boolean;
}

/**
 * Listens on `path` with mode 0600. A socket that no process answers is replaced.
 *
 * @throws {TaskdError} `owner.running` when a daemon answers there, `already_exists` when something other than a
 * socket is there, `usage` when the path cannot be a socket's, `denied` or `not_found` when its folder does not do.
 */
export async function bindSocket(path: string, owner: SocketOwner = STORE_DAEMON): Promise<BoundSocket> {
  const bytes = new TextEncoder().encode(path).length;
  if (bytes > MAX_SOCKET_PATH_BYTES) {
    throw new TaskdError(
      "usage",
      `Cannot listen on ${path}: a socket path has at most ${MAX_SOCKET_PATH_BYTES} bytes, this one ${bytes}`,
      { hint: `It is too long: ${owner.elsewhere}` },
    );
  }
  try {
    // A process that binds the same socket meanwhile gets AddrInUse.
    using staging = SocketStaging.lock(path);
    await removeStale(path, owner);
    return listen(path, staging);
  } catch (error) {
    throw explained(path, error, owner);
  }
}

async function removeStale(path: string, owner: SocketOwner): Promise<void> {
  const info = lstatIfPresent(path);
  if (info === undefined) return;
  if (!info.isSocket) {
    throw new TaskdError("already_exists", `Cannot listen on ${path}: something that is not a socket is there`, {
      hint: `Move it away or ${owner.elsewhere}`,
    });
  }
  try {
    (await Deno.connect({ transport: "unix", path })).close();
  } catch (error) {
    // Refused means that no process listens any more; no other error proves that.
    if (!(error instanceof Deno.errors.ConnectionRefused)) throw error;
    Deno.removeSync(path);
    return;
  }
  throw new TaskdError(owner.running, `Cannot listen on ${path}: a ${owner.name} answers there`, {
    hint: `Stop it or ${owner.elsewhere}`,
  });
}

function listen(path: string, staging: SocketStaging): BoundSocket {
  const listener = bindInPrivateDirectory(staging, path);
  const mine = Deno.lstatSync(path).ino;
  let closed = false;
  return {
    listener,
    close: () => {
      // Closing the listener unlinks what is at its path, but only once no accept() waits any more. So it must
      // not happen when that is another's by now, and cannot be relied on otherwise.
      if (closed) return true;
      if (inodeOf(path) !== mine) {
        listener.unref();
        return false;
      }
      closed = true;
      Deno.removeSync(path);
      listener.close();
      return true;
    },
  };
}

/**
 * A new socket has the mode that the umask leaves of 0777. Narrowing it at its path would leave a moment in which
 * anyone may connect, and the umask belongs to all threads of the process, whose files it would make unusable. So it is
 * bound where only its owner can enter, narrowed there, and linked to its path, which fails if something is there by now.
 */
function bindInPrivateDirectory(staging: SocketStaging, path: string): Deno.UnixListener {
  const listener = Deno.listen({ transport: "unix", path: staging.socket });
  try {
    Deno.chmodSync(staging.socket, 0o600);
    Deno.linkSync(staging.socket, path);
    return listener;
  } catch (error) {
    listener.close();
    // Nothing was there a moment ago.
    if (error instanceof Deno.errors.AlreadyExists) throw new Deno.errors.AddrInUse(error.message, { cause: error });
    throw error;
  }
}

function inodeOf(path: string): number | null | undefined {
  try {
    return Deno.lstatSync(path).ino;
  } catch {
    return undefined;
  }
}

function explained(path: string, error: unknown, owner: SocketOwner): TaskdError {
  if (error instanceof TaskdError) return error;
  if (error instanceof Deno.errors.AddrInUse) {
    return new TaskdError(owner.running, `Cannot listen on ${path}: another ${owner.name} has just bound it`, {
      cause: error,
    });
  }
  if (error instanceof Deno.errors.AlreadyExists) {
    return new TaskdError(
      "already_exists",
      `Cannot listen on ${path}: something is at ${socketStagingOf(path).directory}`,
      { cause: error, hint: `The socket is made there: move it away or ${owner.elsewhere}` },
    );
  }
  if (fileErrorCode(error) === "not_found") {
    return new TaskdError("not_found", `Cannot listen on ${path}: its directory does not exist`, {
      cause: error,
      hint: `Make the directory or ${owner.elsewhere}`,
    });
  }
  return fileError(error, `Cannot listen on ${path}`);
}

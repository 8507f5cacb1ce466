/**
 * How long the path of a daemon's unix socket may be, and where the socket is bound before it is linked there.
 */

/** What fits into sun_path beside its final NUL, in bytes: unix(7) on Linux and on macOS. */
const SUN_PATH_BYTES = { linux: 107, darwin: 103 } as const;

/** The staging directory of the socket `path`, and the one file that is created in it. */
export function socketStagingOf(path: string): { directory: string; socket: string } {
  return { directory: `${path}~`, socket: `${path}~/s` };
}

const STAGING_BYTES = socketStagingOf("").socket.length;

/** The longest path of a socket on each system, in bytes: it is bound under a longer one. */
export const MAX_SOCKET_PATH_BYTES_OF = {
  linux: SUN_PATH_BYTES.linux - STAGING_BYTES,
  darwin: SUN_PATH_BYTES.darwin - STAGING_BYTES,
} as const;

/** The longest path of a socket here, in bytes. */
export const MAX_SOCKET_PATH_BYTES: number = MAX_SOCKET_PATH_BYTES_OF[Deno.build.os === "darwin" ? "darwin" : "linux"];

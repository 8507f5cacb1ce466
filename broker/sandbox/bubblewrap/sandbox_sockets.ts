/**
 * The sockets by which sandboxes reach the gateway and the proxy: in a folder that is the broker's alone, and of the
 * sandboxes' own user where that is another. A sandbox has the one file, not the folder.
 */

import type { HttpListener } from "../../../lib/http/server.ts";
import { fileError } from "../../../lib/fs.ts";
import { bindSocket } from "../../../lib/unix_socket.ts";

/**
 * Listens on a socket of sandboxes; one that an earlier broker left is replaced.
 *
 * @throws {TaskdError} As {@linkcode bindSocket} does.
 */
export async function listenForSandboxes(path: string, owner: number | undefined): Promise<HttpListener> {
  const bound = await bindSocket(path, {
    running: "broker_running",
    name: "broker",
    elsewhere: "choose another path with broker.socket in config.yaml or BROKER_SOCKET",
  });
  try {
    if (owner !== undefined) await Deno.chown(path, owner, owner);
  } catch (error) {
    bound.close();
    throw fileError(error, `Cannot listen on ${path}`);
  }
  return { addr: bound.listener.addr, accept: () => bound.listener.accept(), close: () => bound.close() };
}

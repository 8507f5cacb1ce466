/**
 * The folder of the broker's socket: a user who can enter it can reach the socket, so it is
 * its owner's alone. One that is missing is made so; one that is not so is refused and left
 * as it is, since it may be another user's, or serve another purpose.
 */

import { TaskdError } from "./errors.ts";
import { fileError } from "./fs.ts";
import { parentOf } from "./real_path.ts";
import { requireTrusted } from "./trusted_path.ts";

/**
 * Makes the folder of `socket`, or makes sure of it.
 *
 * @throws {TaskdError} `denied` when others can enter the folder or own it; `usage` when the path is not absolute.
 */
export function prepareSocketFolder(socket: string): void {
  const attempted = `Cannot listen on ${socket}`;
  if (!socket.startsWith("/")) throw new TaskdError("usage", `${attempted}: the path is not absolute`);
  const folder = parentOf(socket);
  try {
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    requireTrusted(folder, "socket_directory");
  } catch (error) {
    throw fileError(error, attempted);
  }
}

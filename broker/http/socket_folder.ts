/**
 * The folder of the broker's socket: a user who can enter it can reach the socket, so it is
 * its owner's alone. One that is missing is made so; one that is not so is refused and left
 * as it is, since it may be another user's, or serve another purpose.
 */

import { TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";

/**
 * Makes the folder of `socket`, or makes sure of it.
 *
 * @throws {TaskdError} `denied` when others can enter the folder or own it; `usage` when the path is not absolute.
 */
export function prepareSocketFolder(socket: string): void {
  const attempted = `Cannot listen on ${socket}`;
  if (!socket.startsWith("/")) throw new TaskdError("usage", `${attempted}: the path is not absolute`);
  const folder = socket.slice(0, Math.max(1, socket.lastIndexOf("/")));
  try {
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    const info = Deno.lstatSync(folder);
    const problem = !info.isDirectory
      ? "is a link or a file"
      : info.uid !== null && info.uid !== Deno.uid()
      ? "belongs to another user"
      : ((info.mode ?? 0o700) & 0o077) !== 0
      ? "can be entered by others"
      : undefined;
    if (problem === undefined) return;
    throw new TaskdError("denied", `${attempted}: its folder ${folder} ${problem}`, {
      hint: `Choose a folder of your own with broker.socket or BROKER_SOCKET; a fresh one is made with mode 0700`,
    });
  } catch (error) {
    throw fileError(error, attempted);
  }
}

/** What the system says of a running process: its memory and its sockets. */

/** Bytes of memory that are resident. */
export function residentBytes(pid: number): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)![1]) * 1024;
}

/**
 * Open sockets. Of connections they tell more than all open files do: a daemon opens others when it likes, such as the
 * watch of a resting session.
 */
export function openSockets(pid: number): number {
  const folder = `/proc/${pid}/fd`;
  return [...Deno.readDirSync(folder)].filter(({ name }) => {
    try {
      return Deno.readLinkSync(`${folder}/${name}`).startsWith("socket:");
    } catch {
      return false;
    }
  }).length;
}

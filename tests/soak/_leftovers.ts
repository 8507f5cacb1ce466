/**
 * What must not be left after the last broker has stopped: processes, scratch, sockets, half-written files.
 */

import { join } from "@std/path/join";
import { stagedTasks } from "../../broker/engine/task_paths.ts";
import { listProcesses } from "../../broker/sandbox/processes.ts";
import { ownerOf } from "../../broker/serve.ts";

/** Everything that a run below `root` has left, of the broker whose home is `home`. */
export async function leftovers(root: string, home: string): Promise<string[]> {
  const found: string[] = [];
  const owner = ownerOf(home);
  for (const { pid, command_line } of await listProcesses()) {
    if (![command_line, folderOf(pid)].some((text) => text.includes(root) || text.includes(owner))) continue;
    found.push(`process ${pid} is left: ${command_line}`);
  }
  const taskd = join(home, ".taskd");
  for (const id of stagedTasks(join(taskd, "stage"))) found.push(`scratch of ${id} is left`);
  for (const folder of [".", "audit", "audit/global", "queue"]) {
    for (const { name, isFile } of Deno.readDirSync(join(taskd, folder))) {
      if (isFile && name.endsWith(".tmp")) found.push(`${folder}/${name} is left`);
    }
  }
  for (const { name } of Deno.readDirSync(join(root, "s"))) {
    if (name.endsWith(".sock")) found.push(`the socket ${name} is left`);
  }
  return found;
}

/** Sandboxes that run for the broker whose home is `home`. */
export async function sandboxes(home: string): Promise<number> {
  const marker = `--taskd-sandbox=${ownerOf(home)}:`;
  return (await listProcesses()).filter(({ command_line }) => command_line.includes(marker)).length;
}

/** Where a process works; empty where that cannot be known. */
function folderOf(pid: number): string {
  try {
    return Deno.readLinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}

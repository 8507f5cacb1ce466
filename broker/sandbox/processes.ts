/**
 * The machine's processes, as far as a broker has to know them again after its own crash.
 */

import { type Clock, systemClock } from "../../lib/clock.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { withFileError } from "../../lib/fs.ts";
import { runProcess } from "../../lib/process.ts";

export interface RunningProcess {
  pid: number;
  group: number;
  /** The user that it runs as. */
  uid: number;
  command_line: string;
}

/** Reads what `ps -axww -o pid=,pgid=,uid=,args=` prints. */
export function parseProcesses(text: string): RunningProcess[] {
  const found: RunningProcess[] = [];
  for (const line of text.split("\n")) {
    const [, pid, group, uid, command_line] = /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
    if (command_line !== undefined) {
      found.push({ pid: Number(pid), group: Number(group), uid: Number(uid), command_line });
    }
  }
  return found;
}

/** A busy machine with many processes. */
const LIST_DEADLINE_MS = 30_000;
const MAX_LIST_BYTES = 64 << 20;

/** Lists processes with the program at `path`; Linux and macOS have it. Not /proc, which only an unrestricted Deno may read. */
export async function listProcesses(
  { path = "/bin/ps", signal, clock = systemClock }: {
    path?: string;
    signal?: AbortSignal | undefined;
    clock?: Clock;
  } = {},
): Promise<RunningProcess[]> {
  const attempted = "Cannot list the running processes";
  try {
    const { code, stdout } = await runProcess(path, {
      args: ["-axww", "-o", "pid=,pgid=,uid=,args="],
      deadline_ms: LIST_DEADLINE_MS,
      max_bytes: MAX_LIST_BYTES,
      clock,
      attempted,
      signal,
    });
    if (code === 0) return parseProcesses(new TextDecoder().decode(stdout));
    throw new TaskdError("sandbox_failed", `${attempted}: ${path} ended with ${code}`);
  } catch (cause) {
    if (!hasCode(cause, "not_found", "denied")) throw cause;
    throw new TaskdError("sandbox_failed", `${attempted}: ${path} cannot be started`, {
      cause,
      hint: "Install ps (Debian: the package procps); without it, sandboxes of a crashed broker cannot be found",
    });
  }
}

/** How often ended processes are looked for, and the milliseconds in between. */
const POLLS = 100;
const POLL_MS = 50;

/**
 * Kills the processes that `find` picks, each listed again right before, until there are none.
 *
 * @returns Whether there are none; false when some do not end.
 */
export async function endProcesses<T extends RunningProcess>(
  clock: Clock,
  find: (processes: readonly RunningProcess[]) => readonly T[],
  { onKilled = () => {}, list = listProcesses, signal }: {
    onKilled?: (process: T) => void;
    list?: typeof listProcesses;
    signal?: AbortSignal | undefined;
  } = {},
): Promise<boolean> {
  for (let poll = 0; poll < POLLS; poll++) {
    const found = find(await list({ signal }));
    if (found.length === 0) return true;
    for (const process of found) {
      // The leader of its group, which has its helpers too, unless another program started it.
      const { pid, group } = process;
      if (signalProcess(group === pid ? -pid : pid, "SIGKILL")) onKilled(process);
    }
    await clock.sleep(POLL_MS, signal);
  }
  return false;
}

/** The argument by which a sandbox's processes are known again, before the broker that it is of and its task. */
export const MARKER = "--taskd-sandbox=";

/**
 * Ends what an earlier process of this broker left of sandboxes, except those of the tasks in `keep`.
 *
 * @param taskOf The task whose sandbox a process is of; undefined for one of another broker, or of nothing like it.
 * @returns The tasks whose sandboxes were ended.
 */
export async function sweepProcesses(
  { clock, owner }: { clock: Clock; owner: string },
  keep: ReadonlySet<string>,
  taskOf: (process: RunningProcess) => string | undefined,
): Promise<Set<string>> {
  const swept = new Set<string>();
  const orphans = (processes: readonly RunningProcess[]) =>
    processes.flatMap((process) => {
      const task_id = taskOf(process);
      return task_id === undefined || keep.has(task_id) ? [] : [{ ...process, task_id }];
    });
  if (await endProcesses(clock, orphans, { onKilled: ({ task_id }) => swept.add(task_id) })) return swept;
  throw new TaskdError("sandbox_failed", "Cannot end the sandboxes of an earlier run: they are still there", {
    hint: `Look for processes with ${MARKER}${owner} and end them`,
  });
}

/** Starts a program in a group of its own: signals of a terminal are the broker's affair, not its sandboxes'. */
export function spawnDetached(
  program: string,
  { args, env, stdin }: { args: string[]; env: Readonly<Record<string, string>>; stdin: "null" | "piped" },
): Deno.ChildProcess {
  return withFileError(`Cannot start ${program}`, () => {
    return new Deno.Command(program, {
      args,
      env: { ...env },
      clearEnv: true,
      cwd: "/",
      detached: true,
      stdin,
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  });
}

/** Sends a signal to a process (or, negative, a group); false when there is none, or none of this user's. */
export function signalProcess(pid: number, signal: Deno.Signal): boolean {
  try {
    Deno.kill(pid, signal);
    return true;
  } catch (error) {
    const code = (error as { code?: string }).code;
    const gone = error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied;
    if (gone || code === "ESRCH" || code === "EPERM") return false;
    throw error;
  }
}

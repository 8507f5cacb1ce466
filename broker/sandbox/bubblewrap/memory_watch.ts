/**
 * The memory of a sandbox as a whole, where no control group bounds it: what its processes have is added up again and
 * again. Pages that several of them share count once. What is written to its /tmp counts nowhere; that has a size.
 */

import type { Clock } from "../../../lib/clock.ts";
import { runProcess } from "../../../lib/process.ts";

/** Milliseconds between two looks. */
const INTERVAL_MS = 1_000;
const DEADLINE_MS = 10_000;
const MAX_BYTES = 8 << 20;

export interface MemoryWatchOptions {
  /** The first process of the sandbox, as the host numbers it; undefined while there is none. */
  first: () => number | undefined;
  memory_bytes: number;
  clock: Clock;
  signal: AbortSignal;
  /** Ends the sandbox. */
  onExcess: () => void;
}

/** Watches until the signal, or until there was too much. */
export async function watchMemory(options: MemoryWatchOptions): Promise<void> {
  const { first, memory_bytes, clock, signal, onExcess } = options;
  for (;;) {
    await clock.sleep(INTERVAL_MS, signal).catch(() => {});
    if (signal.aborted) return;
    try {
      const pid = first();
      if (pid === undefined) continue;
      const { pids, headless, resident_bytes } = membersOf(
        pid,
        await output("/bin/ps", ["-axo", "pid=,ppid=,rss="], options),
      );
      // Whole, as an upper bound: threads may follow one another faster than their shares can be read.
      const behind = headless.length === 0 ? 0 : threadsBytes(await output("/bin/sh", readThreads(headless), options));
      // An upper bound of what follows, and far cheaper.
      if (resident_bytes + behind <= memory_bytes) continue;
      const files = pids.map((member) => `/proc/${member}/smaps_rollup`);
      if (sharedBytes(await output("/bin/cat", files, options)) + behind <= memory_bytes) continue;
      return onExcess();
    } catch {
      // The next look counts; what it cannot learn, each process's own limit still holds.
    }
  }
}

/**
 * Prints a line of `status` with the resident memory of each process, as one of its threads has it. A process whose
 * first thread has ended is listed as one without memory, while others of its threads still hold all of it. They may
 * follow one another quickly: the look at one that has just ended is made again.
 */
const READ_THREADS = String.raw`
look() {
  others=
  for thread in /proc/$1/task/*; do
    if [ "$thread" = "/proc/$1/task/$1" ]; then continue; fi
    others=1
    while read -r key value unit; do
      if [ "$key" = VmRSS: ]; then echo "$key $value $unit" && return 0; fi
    done 2>/dev/null <"$thread/status"
  done
  [ -z "$others" ]
}
for pid; do
  for again in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    if look "$pid"; then break; fi
  done
done
`;

/** The arguments of a shell that prints what threads of these processes hold. */
function readThreads(pids: readonly number[]): string[] {
  return ["-c", READ_THREADS, "taskd-sandbox", ...pids.map(String)];
}

/** The sum of the resident memory in several `status`. */
export function threadsBytes(statuses: string): number {
  return sumOf(statuses, /(?<=^|\n)VmRSS:\s+(\d+) kB(?=\n|$)/g);
}

/**
 * The descendants of a process, and it; those that are listed without memory; and the resident memory of all. Of lines
 * `pid ppid rss`, the last in KiB.
 */
export function membersOf(
  first: number,
  listed: string,
): { pids: number[]; headless: number[]; resident_bytes: number } {
  const children = new Map<number, number[]>();
  const resident = new Map<number, number>();
  for (const [, pid, parent, kib] of listed.matchAll(/(?<=^|\n) *(\d+) +(\d+) +(\d+) *(?=\n|$)/g)) {
    children.set(Number(parent), [...children.get(Number(parent)) ?? [], Number(pid)]);
    resident.set(Number(pid), Number(kib) * 1_024);
  }
  const pids: number[] = [];
  const left = resident.has(first) ? [first] : [];
  for (let pid = left.pop(); pid !== undefined; pid = left.pop()) {
    pids.push(pid);
    left.push(...children.get(pid) ?? []);
  }
  const headless = pids.filter((pid) => resident.get(pid) === 0);
  return { pids, headless, resident_bytes: pids.reduce((sum, pid) => sum + resident.get(pid)!, 0) };
}

/** The sum of the proportional shares of several `smaps_rollup`. */
export function sharedBytes(rollups: string): number {
  return sumOf(rollups, /(?<=^|\n)Pss: +(\d+) kB(?=\n|$)/g);
}

function sumOf(text: string, kib: RegExp): number {
  return [...text.matchAll(kib)].reduce((sum, [, value]) => sum + Number(value) * 1_024, 0);
}

async function output(path: string, args: readonly string[], { clock, signal }: MemoryWatchOptions): Promise<string> {
  // A process that has ended meanwhile is a complaint, not a failure.
  const { stdout } = await runProcess(path, {
    args,
    deadline_ms: DEADLINE_MS,
    max_bytes: MAX_BYTES,
    clock,
    attempted: `Cannot run ${path}`,
    signal,
  });
  return new TextDecoder().decode(stdout);
}

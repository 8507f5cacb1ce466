/**
 * Counts the disk space of folders that a sandbox writes: the blocks that files take, each file once however many names
 * it has. No link is followed, no other file system entered.
 *
 * `du` does it, in a process of its own that yields to others and has bounds of the system: it goes down a tree by
 * descriptors and makes sure of each folder that it enters, so that none which is exchanged meanwhile leads outside.
 */

import type { Clock } from "../../lib/clock.ts";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import { lstatIfPresent, withFileError } from "../../lib/fs.ts";
import { runProcess } from "../../lib/process.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";

const NICE_PATH = "/usr/bin/nice";
const DU_PATH = "/usr/bin/du";
/** More than millions of entries take on a slow disk. */
const DEADLINE_MS = 120_000;
const CPU_S = 60;
/** It remembers each file of several names: ten million of them. */
const MEMORY_BYTES = 1 << 30;
const MAX_OUTPUT_BYTES = 64 << 10;
const MAX_COMPLAINT_CHARS = 200;

export interface DiskCount {
  /** Of all that could be seen. */
  bytes: number;
  /** Why that may not be all: a folder that the broker may not read, a tree that takes too long. */
  incomplete?: string;
}

export interface DiskMeter {
  /** Counts what is there of `folders`, absolute paths, none in another; rejects with the signal's reason alone. */
  count(folders: readonly string[], signal: AbortSignal): Promise<DiskCount>;
}

/** The meter of this machine; `du_path` is for tests. */
export function diskMeter(clock: Clock, { deadline_ms = DEADLINE_MS, du_path = DU_PATH } = {}): DiskMeter {
  return {
    async count(folders, signal) {
      try {
        return await count(folders, { clock, deadline_ms, du_path, signal });
      } catch (error) {
        signal.throwIfAborted();
        return { bytes: 0, incomplete: messageOf(error) };
      }
    },
  };
}

async function count(
  folders: readonly string[],
  { clock, deadline_ms, du_path, signal }: {
    clock: Clock;
    deadline_ms: number;
    du_path: string;
    signal: AbortSignal;
  },
): Promise<DiskCount> {
  const attempted = "Cannot count the disk space of a task";
  const there = folders.filter((folder) => isThere(folder, attempted));
  if (there.length === 0) return { bytes: 0 };
  const { code, stdout, stderr } = await runProcess(NICE_PATH, {
    // By POSIX: a sum for each, in KiB, of one file system.
    args: ["-n", "19", du_path, "-s", "-k", "-x", ...there],
    env: { PATH: "/usr/bin:/bin", LC_ALL: "C" },
    limits: { cpu_s: CPU_S, memory_bytes: MEMORY_BYTES },
    deadline_ms,
    max_bytes: MAX_OUTPUT_BYTES,
    signal,
    clock,
    attempted,
  });
  const sums = new TextDecoder().decode(stdout).split("\n").flatMap((line) => /^(\d+)\t\//.exec(line)?.[1] ?? []);
  const bytes = sums.reduce((all, kib) => all + Number(kib) * 1_024, 0);
  // What is gone since its folder was read takes no space.
  const complaints = stderr.split("\n").filter((line) => line !== "" && !line.endsWith(": No such file or directory"));
  const complaint = code === 0 ? undefined : complaints[0];
  if (complaint !== undefined) return { bytes, incomplete: sanitizeLine(complaint).slice(0, MAX_COMPLAINT_CHARS) };
  if (sums.length !== there.length && there.every((folder) => isThere(folder, attempted))) {
    throw new TaskdError("unavailable", `${attempted}: du ended with code ${code}`);
  }
  return { bytes };
}

function isThere(folder: string, attempted: string): boolean {
  return withFileError(attempted, () => lstatIfPresent(folder) !== undefined);
}

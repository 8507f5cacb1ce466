/**
 * What bounds a sandbox of bubblewrap as a whole: a control group of its own, where the broker may make one. By systemd,
 * the user's or as root the system's; as root without systemd in the first version of control groups. Where there is
 * neither, each process has its limits and a watch adds them up; see memory_watch.ts.
 */

import type { AskProgram } from "../host_programs.ts";

/** `systemd`: a scope for each sandbox; `v1`: folders that root makes; `none`. */
export type Bounding = "systemd" | "v1" | "none";

export interface Bounds {
  memory_bytes: number;
  max_pids: number;
}

export interface ControlGroup {
  /** Words before a command that put it into the group. */
  words: string[];
  /** A command that takes the group away, and whose output says `oom` where the kernel ended a process of it. */
  removal: { program: string; args: string[] };
}

/** A half of what one processor of the default weight gets, so that the host stays usable. */
const CPU_WEIGHT = 50;
/** bwrap's own two, the forwarder's threads, and the shell that starts it. */
const OWN_PROCESSES = 32;
/** Of the memory, what buffers of TCP may have beside it: the first version counts them apart, the second within it. */
const TCP_SHARE = 1 / 4;
const V1 = "/sys/fs/cgroup";

const JOIN_V1 = String.raw`
name=$1 memory=$2 tcp=$3 pids=$4
shift 4
cd ${V1} || exit 121
mkdir "memory/$name" "pids/$name" "cpu/$name" || exit 121
echo "$memory" >"memory/$name/memory.limit_in_bytes" || exit 121
echo "$memory" 2>/dev/null >"memory/$name/memory.memsw.limit_in_bytes"
# Not every kernel has it.
echo "$tcp" 2>/dev/null >"memory/$name/memory.kmem.tcp.limit_in_bytes"
echo "$pids" >"pids/$name/pids.max" || exit 121
echo 512 >"cpu/$name/cpu.shares" || exit 121
for at in memory pids cpu; do echo $$ >"$at/$name/cgroup.procs" || exit 121; done
cd / && exec "$@"
`;

const LEAVE_V1 = String.raw`
cd ${V1} || exit 1
while read -r key value; do
  if [ "$key" = oom_kill ] && [ "$value" -gt 0 ]; then echo oom; fi
done <"memory/$1/memory.oom_control"
for pause in 0.01 0.02 0.05 0.1 0.2 0.3 0.3; do
  rmdir "memory/$1" "pids/$1" "cpu/$1" 2>/dev/null
  if ! [ -e "memory/$1" ] && ! [ -e "pids/$1" ] && ! [ -e "cpu/$1" ]; then exit 0; fi
  sleep $pause
done
exit 1
`;

const LEAVE_SYSTEMD = String.raw`
if [ "$(systemctl "$1" show --property=Result --value "$2.scope")" = oom-kill ]; then echo oom; fi
systemctl "$1" --quiet reset-failed "$2.scope" 2>/dev/null
exit 0
`;

/** How a group is taken away; undefined where there is none. Of one that is gone already, nothing is said. */
export function groupRemoval(
  bounding: Bounding,
  { name, uid }: { name: string; uid: number },
): ControlGroup["removal"] | undefined {
  if (bounding === "none") return undefined;
  const args = bounding === "v1"
    ? ["-c", LEAVE_V1, "taskd-sandbox", name]
    : ["-c", LEAVE_SYSTEMD, "taskd-sandbox", managerOf(uid), name];
  return { program: "/bin/sh", args };
}

function managerOf(uid: number): string {
  return uid === 0 ? "--system" : "--user";
}

/** The group of a sandbox; undefined where there can be none. */
export function controlGroup(
  bounding: Bounding,
  { name, uid, memory_bytes, max_pids }: Bounds & { name: string; uid: number },
): ControlGroup | undefined {
  const removal = groupRemoval(bounding, { name, uid });
  if (removal === undefined) return undefined;
  const pids = String(max_pids + OWN_PROCESSES);
  if (bounding === "v1") {
    const tcp = String(Math.ceil(memory_bytes * TCP_SHARE));
    return {
      words: ["/bin/bash", "-c", JOIN_V1, "taskd-sandbox", name, String(memory_bytes), tcp, pids],
      removal,
    };
  }
  const properties = { MemoryMax: memory_bytes, MemorySwapMax: 0, TasksMax: pids, CPUWeight: CPU_WEIGHT };
  return {
    words: [
      ...["/usr/bin/systemd-run", managerOf(uid), "--scope", "--quiet", `--unit=${name}`],
      ...Object.entries(properties).map(([key, value]) => `--property=${key}=${value}`),
      "--",
    ],
    removal,
  };
}

/** Prints the bound of the group that a list of `/proc/self/cgroup` names, where the group has one, of either version. */
const READ_BOUND = String.raw`
while IFS=: read -r id controllers path; do
  case $controllers in
  "") file=$2$path/memory.max ;;
  *memory*) file=$2/memory$path/memory.limit_in_bytes ;;
  *) continue ;;
  esac
  if [ -r "$file" ]; then cat "$file"; fi
done <"$1"
`;
const PROBE_BYTES = 256 << 20;

/** The command that prints the bound of the group that it runs in. */
export function readBound({ listed = "/proc/self/cgroup", root = V1 } = {}): string[] {
  return ["/bin/sh", "-c", READ_BOUND, "taskd-sandbox", listed, root];
}

/** Finds what works here: a group is made with a bound, and has to have it. */
export async function findBounding(
  ask: AskProgram,
  { name, uid, systemd }: { name: string; uid: number; systemd: boolean },
): Promise<Bounding> {
  const candidates: Bounding[] = [...(systemd ? ["systemd" as const] : []), ...(uid === 0 ? ["v1" as const] : [])];
  for (const bounding of candidates) {
    const group = controlGroup(bounding, { name, uid, memory_bytes: PROBE_BYTES, max_pids: 64 })!;
    try {
      const words = [...group.words, ...readBound()];
      const { code, stdout } = await ask(words[0]!, words.slice(1));
      if (code === 0 && stdout.split("\n").includes(String(PROBE_BYTES))) return bounding;
    } catch {
      // It is not there, or does not answer.
    } finally {
      await ask(group.removal.program, group.removal.args).catch(() => {});
    }
  }
  return "none";
}

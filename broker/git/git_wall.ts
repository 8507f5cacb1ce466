/**
 * The wall around git, where bubblewrap works: what a call sees is the system's programs and the folders that it is for.
 *
 * What it guarantees of a call behind it, whatever the objects that git reads make of git: no network, no other process,
 * no home and no key, no keyring and no namespace, no other task's folder; it writes the call's git directory alone, without its settings, and the
 * work tree where it is to check one out. A call of a remote is not behind it, since it needs the network and the
 * operator's keys and helpers; what that starts to read objects is: see walled_programs.ts.
 */

import type { Clock } from "../../lib/clock.ts";
import { lstatIfPresent } from "../../lib/fs.ts";
import { runProcess } from "../../lib/process.ts";
import { words } from "../../lib/text/words.ts";
import type { GitRepository } from "./git_repository.ts";

/** Git's own programs and libraries; where some are links to others, they are bound where the links lead. */
const SEEN = words("/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc/ld.so.cache");
/** Room for what git writes beside its repository. */
const TMP_BYTES = 64 << 20;

/**
 * Of a git directory, what no call changes: what git obeys on the host, packs that a mirror has too, and the directory
 * inside it. A folder that is bound itself cannot get another name, nor what is in it one in another folder.
 */
const KEPT = ["config", "info", "objects/pack", "text", "now"] as const;

/** What holds git. */
export interface GitWall {
  /** Absolute path of bubblewrap. */
  bwrap: string;
  /** Which system calls pass, as the kernel takes it. */
  filter: Uint8Array<ArrayBuffer>;
  /** Folder of git's programs for calls of a remote; without it these read objects on the host. */
  programs?: string;
}

/** The shell gives bwrap the filter as its descriptor 10, and becomes it. */
const SHELL = "/bin/bash";
const WITH_FILTER = 'exec 10< <(base64 -d <<<"$0"); exec "$@"';

/** What a call is for. */
export interface WalledCall {
  repository?: GitRepository;
  /** Git's HOME and working directory. */
  home: string;
  /** Whether it writes the work tree. */
  checks_out?: boolean;
  /** Whether packs come: none of those that are there is written then. */
  receives?: boolean;
  /** The user that it runs as; this process's own by default. */
  uid?: number | null;
}

/** A program behind the wall; it gets its environment and its streams as they are. */
export function behindWall(
  { bwrap, filter }: GitWall,
  [program, args]: readonly [program: string, args: readonly string[]],
  { repository, home, checks_out = false, receives = false, uid = Deno.uid() }: WalledCall,
): { program: string; args: string[] } {
  const bind = (kind: "--bind" | "--bind-try" | "--ro-bind" | "--ro-bind-try", path: string) => [kind, path, path];
  const { git_dir, work_tree, borrows } = repository ?? {};
  return {
    program: SHELL,
    args: [
      ...["-c", WITH_FILTER, filter.toBase64(), bwrap, "--seccomp", "10"],
      ...namespaces(uid),
      ...["--die-with-parent", "--new-session"],
      ...SEEN.flatMap((path) => bind("--ro-bind-try", path)),
      ...["--dev", "/dev", "--size", String(TMP_BYTES), "--tmpfs", "/tmp"],
      ...bind("--ro-bind", home),
      ...work_tree === undefined ? [] : bind(checks_out ? "--bind" : "--ro-bind", work_tree),
      ...git_dir === undefined ? [] : [...bind("--bind", git_dir), ...bind("--bind-try", `${git_dir}/objects`)],
      ...git_dir === undefined ? [] : keptOf(git_dir, receives).flatMap((path) => bind("--ro-bind-try", path)),
      ...borrows === undefined ? [] : bind("--ro-bind", borrows),
      ...["--chdir", home, "--remount-ro", "/", "--remount-ro", "/dev", "--", program, ...args],
    ],
  };
}

function keptOf(git_dir: string, receives: boolean): string[] {
  const kept = KEPT.map((name) => `${git_dir}/${name}`);
  const packs = `${git_dir}/objects/pack`;
  if (!receives) return kept;
  const there = lstatIfPresent(packs) === undefined ? [] : [...Deno.readDirSync(packs)];
  return [...kept.filter((path) => path !== packs), ...there.map(({ name }) => `${packs}/${name}`)];
}

/**
 * Ends a call behind the wall by the first process of its namespace. With that the kernel ends all others, before bwrap
 * learns of it and ends itself: no process is left when the call has ended, whatever it has become.
 */
export async function endWalled(bwrap_pid: number, clock: Clock): Promise<void> {
  const { stdout } = await runProcess("/bin/ps", {
    args: ["-axo", "pid=,ppid="],
    deadline_ms: 10_000,
    max_bytes: 16 << 20,
    clock,
    attempted: "Cannot list the running processes",
    signal: undefined,
  });
  for (const line of new TextDecoder().decode(stdout).split("\n")) {
    const [pid, parent] = line.trim().split(/\s+/).map(Number);
    if (parent === bwrap_pid) signal(pid!);
  }
}

function signal(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}

/**
 * Root keeps the host's users, since files of a task belong to others, and of all it may do only to read and write them;
 * who is not root needs a namespace to be let do any of this.
 */
function namespaces(uid: number | null): string[] {
  const root = ["--cap-drop", "ALL", "--cap-add", "CAP_DAC_OVERRIDE", "--cap-add", "CAP_FOWNER"];
  const own = uid === 0 ? root : ["--unshare-user", "--disable-userns", "--cap-drop", "ALL"];
  return [...own, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"];
}

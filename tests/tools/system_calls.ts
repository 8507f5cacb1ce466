/**
 * Writes broker/sandbox/bubblewrap/system_calls.json anew: every system call of the kernel's headers, its numbers on
 * x86_64 and on arm64, and what the filter of sandboxes does with it.
 *
 *     deno run -A tests/tools/system_calls.ts
 *
 * Numbers come from the headers of Debian's linux-libc-dev, what may be allowed from the default profile of podman
 * (Debian's golang-github-containers-common): calls that it allows whatever their arguments, without a capability.
 */

import { words } from "../../lib/text/words.ts";
import type { CallRule, SystemCalls } from "../../broker/sandbox/bubblewrap/seccomp_filter.ts";

/** The file that is written. */
export const TABLE = new URL("../../broker/sandbox/bubblewrap/system_calls.json", import.meta.url);
/** Podman's default profile. */
export const PROFILE = "/usr/share/containers/seccomp.json";

const HEADERS = {
  x86_64: ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h"],
  // As the kernel's arch/arm64/include/uapi/asm/unistd.h defines them.
  arm64: [
    "/usr/include/asm-generic/unistd.h",
    ...words("RENAMEAT NEW_STAT SET_GET_RLIMIT SYS_CLONE3 MEMFD_SECRET").map((name) => `-D__ARCH_WANT_${name}`),
  ],
};

/** Those that the filter decides by their arguments. */
const CHECKED = words(`
  chmod clone creat fchmod fchmodat ioctl mknod mknodat open openat personality process_vm_readv process_vm_writev ptrace
  sched_setaffinity sched_setattr sched_setparam sched_setscheduler setpriority socket socketpair
`);

/**
 * Those for which a program has another way, and that would say more than the filter can see; and asynchronous I/O, whose
 * contexts are counted for the whole host.
 */
const ABSENT = words(`
  clone3 fchmodat2 futex_waitv memfd_secret openat2 set_mempolicy_home_node
  io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit
`);

/** Allowed by the profile, and of no use to an agent: keys, mounts, namespaces, descriptors and memory of others. */
const ALSO_REFUSED = words(`
  add_key chroot fsconfig fsmount fsopen fspick keyctl mount mount_setattr move_mount name_to_handle_at
  open_by_handle_at open_tree pidfd_getfd pivot_root process_madvise kcmp request_key setns umount umount2 unshare
  bpf fanotify_mark io_uring_enter io_uring_register io_uring_setup perf_event_open reboot syslog userfaultfd
`);

interface Profile {
  syscalls: {
    names: string[];
    action: string;
    args?: unknown[] | null;
    includes?: { caps?: string[] | null; arches?: string[] | null };
  }[];
}

/** The calls that podman's default profile allows whatever their arguments, by one of its architectures' names. */
export function allowedBy({ syscalls }: Profile, arch: "amd64" | "arm64"): Set<string> {
  const rules = syscalls.filter(({ action, args, includes }) =>
    action === "SCMP_ACT_ALLOW" && !args?.length && !includes?.caps?.length &&
    (!includes?.arches?.length || includes.arches.includes(arch))
  );
  return new Set(rules.flatMap(({ names }) => names));
}

async function numbers([file, ...flags]: string[]): Promise<Map<string, number>> {
  const command = new Deno.Command("gcc", { args: ["-E", "-dM", ...flags, file!], stdout: "piped" });
  const { stdout, success } = await command.output();
  if (!success) throw new Error(`gcc cannot read ${file}`);
  const defined = new Map(
    [...new TextDecoder().decode(stdout).matchAll(/^#define (__NR\w*) (\w+)$/gm)].map(([, name, value]) =>
      [name!, value!] as const
    ),
  );
  const found = new Map<string, number>();
  for (const name of defined.keys()) {
    let value = defined.get(name);
    while (value !== undefined && defined.has(value)) value = defined.get(value);
    const call = name.replace(/^__NR_/, "");
    if (name.startsWith("__NR_") && /^\d+$/.test(value ?? "") && !/^(syscalls|arch_specific_syscall)$/.test(call)) {
      found.set(call, Number(value));
    }
  }
  return found;
}

/** The table, made of what is on this machine. */
export async function systemCalls(): Promise<SystemCalls> {
  const profile: Profile = JSON.parse(await Deno.readTextFile(PROFILE));
  const allowed = [allowedBy(profile, "amd64"), allowedBy(profile, "arm64")];
  const [x86_64, arm64] = [await numbers(HEADERS.x86_64), await numbers(HEADERS.arm64)];
  const rows = [...new Set([...x86_64.keys(), ...arm64.keys()])].sort().map((name) => {
    const known = [x86_64.get(name) ?? null, arm64.get(name) ?? null] as const;
    return [name, [ruleOf(name, known, allowed), ...known]] as const;
  });
  return Object.fromEntries(rows);
}

function ruleOf(name: string, known: readonly (number | null)[], allowed: readonly Set<string>[]): CallRule {
  if (CHECKED.includes(name)) return "check";
  if (ABSENT.includes(name)) return "absent";
  if (ALSO_REFUSED.includes(name)) return "refuse";
  return known.every((number, arch) => number === null || allowed[arch]!.has(name)) ? "allow" : "refuse";
}

/** As the file has it: a line for each call. */
export function tableText(calls: SystemCalls): string {
  const rows = Object.entries(calls).map(([name, row]) => `  ${JSON.stringify(name)}: ${rowText(row)}`);
  return `{\n${rows.join(",\n")}\n}\n`;
}

function rowText(row: SystemCalls[string]): string {
  return `[${row.map((value) => JSON.stringify(value)).join(", ")}]`;
}

if (import.meta.main) {
  await Deno.writeTextFile(TABLE, tableText(await systemCalls()));
}

/**
 * The arguments of bwrap, as a pure function of what a sandbox is to have.
 *
 * What it guarantees: namespaces of its own for users, processes, network, IPC, host name and control groups, and none
 * beside them; no capability; a new session; a clean environment; the filter of system calls; nothing of the host but
 * what is listed here and in the order; nothing to write but the order's own folders and memory of bounded size.
 *
 * bwrap reads them from a file, so that neither tokens nor paths are in a command line.
 */

import { TaskdError } from "../../../lib/errors.ts";
import { words } from "../../../lib/text/words.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../../egress/ports.ts";
import { AGENT_ID, WORK_TARGET } from "../agent_user.ts";
import type { CommandWorkload } from "../runtime.ts";
import type { HostView } from "./host_view.ts";
import { ETC_FILES, HOME_TARGET, OWN_ETC, SYSTEM_FOLDERS } from "./system_view.ts";

/** Numbers of the files that the start script opens for bwrap; see start_script.ts. */
export const DESCRIPTORS = { began: 7, status: 8, args: 9, filter: 10, start: 11, forwarder: 12, etc: 20 } as const;

const OWN = "/run/taskd";
export const START_TARGET = `${OWN}/start`;
export const FORWARDER_TARGET = `${OWN}/forwarder.js`;
export const DENO_TARGET = `${OWN}/deno`;
/** The ports of a sandbox's loopback, and the sockets that they lead to. */
const LINES = [
  { name: "gateway", port: GATEWAY_PORT, target: `${OWN}/gateway` },
  { name: "proxy", port: PROXY_PORT, target: `${OWN}/proxy` },
] as const;

export const SYSTEM_PATH = words("/usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin");

const SHM_BYTES = 64 << 20;
/** What writes there decides what the first process does, which is to end with the broker. */
const FIRST_PROCESS_MEMORY = words("/proc/1/mem /proc/1/task/1/mem");

export interface BubblewrapOrder {
  /** The work tree; without one, a sandbox has memory in its place. */
  work_dir?: string;
  workload: Pick<CommandWorkload, "env" | "mounts" | "reach">;
  memory_bytes: number;
  view: HostView;
  /** Sockets of the gateway and the proxy; absent where a sandbox is to reach nothing. */
  sockets?: { gateway: string; proxy: string } | undefined;
  /** The program that runs the forwarder, deno or a compiled one, absolute. */
  deno_path: string;
  /** Whether bwrap reports what it started. */
  reports: boolean;
}

/** What a sandbox's forwarder listens on: pairs of a port and a socket's path, as the sandbox sees it. */
export function forwardedLines({ workload, sockets }: Pick<BubblewrapOrder, "workload" | "sockets">) {
  if (sockets === undefined) return [];
  return LINES.filter(({ name }) => name === "proxy" || workload.reach !== "proxy")
    .map((line) => ({ ...line, source: sockets[line.name] }));
}

/**
 * The arguments; `source` names a path of the host as bwrap finds it.
 *
 * @throws {TaskdError} `usage` for a path or a variable that cannot be passed on.
 */
export function bubblewrapArgs(order: BubblewrapOrder, source: (path: string) => string): string[] {
  const { view, workload, memory_bytes } = order;
  const bind = (kind: "--bind" | "--ro-bind", path: string, target: string) => [kind, source(path), target];
  const lines = forwardedLines(order);
  const at_home = workload.mounts.some(({ target }) => target === HOME_TARGET);
  const tmp_bytes = Math.floor(memory_bytes / 2);
  const args = [
    ...words("--unshare-user --unshare-all --disable-userns --assert-userns-disabled --hostname sandbox"),
    ...words(`--uid ${AGENT_ID} --gid ${AGENT_ID} --die-with-parent --cap-drop ALL --clearenv --new-session`),
    ...words(`--seccomp ${DESCRIPTORS.filter}`),
    ...(order.reports ? ["--json-status-fd", String(DESCRIPTORS.status)] : []),
    ...[...SYSTEM_FOLDERS, ...ETC_FILES].flatMap((path) => ["--ro-bind-try", path, path]),
    ...words("--proc /proc --dev /dev"),
    ...FIRST_PROCESS_MEMORY.flatMap((path) => ["--ro-bind", "/dev/null", path]),
    ...tmpfs("/dev/shm", "1777", SHM_BYTES),
    ...tmpfs("/tmp", "1777", tmp_bytes),
    ...(at_home ? [] : tmpfs(HOME_TARGET, "0700", tmp_bytes)),
    ...view.links.flatMap(([path, target]) => ["--symlink", target, path]),
    ...view.folders.flatMap((path) => bind("--ro-bind", path, path)),
    ...(order.work_dir === undefined
      ? tmpfs(WORK_TARGET, "0700", tmp_bytes)
      : bind("--bind", order.work_dir, WORK_TARGET)),
    ...workload.mounts.flatMap((one) => bind(one.writable ? "--bind" : "--ro-bind", one.source, one.target)),
    ...lines.flatMap((line) => bind("--ro-bind", line.source, line.target)),
    ...(lines.length === 0 ? [] : [
      ...bind("--ro-bind", order.deno_path, DENO_TARGET),
      ...data(DESCRIPTORS.forwarder, FORWARDER_TARGET),
    ]),
    ...data(DESCRIPTORS.start, START_TARGET),
    ...OWN_ETC.flatMap(([name], index) => data(DESCRIPTORS.etc + index, `/etc/${name}`)),
    ...words(`--chdir ${WORK_TARGET} --remount-ro / --remount-ro /dev`),
    ...Object.entries(environment(order)).flatMap(([name, value]) => ["--setenv", name, value]),
  ];
  for (const word of args) {
    if (word.includes("\0")) throw new TaskdError("usage", "Cannot start a sandbox: a path or a variable has a NUL");
  }
  return args;
}

function tmpfs(path: string, mode: string, bytes: number): string[] {
  return ["--size", String(bytes), "--perms", mode, "--tmpfs", path];
}

/** A file of the sandbox's root, which becomes read-only; a mount for each would take longer. */
function data(descriptor: number, target: string): string[] {
  return ["--perms", "0444", "--file", String(descriptor), target];
}

/** What a program finds, beside what the workload gives it. */
function environment({ view, workload: { env } }: BubblewrapOrder): Record<string, string> {
  for (const name of Object.keys(env)) {
    if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) continue;
    throw new TaskdError("usage", `Cannot pass the variable ${JSON.stringify(name)} to a sandbox: that is no name`);
  }
  const path = [...new Set([...view.path, ...SYSTEM_PATH])].join(":");
  return { HOME: HOME_TARGET, PATH: path, LANG: "C.UTF-8", ...env };
}

/**
 * The command lines of the container programs, as pure functions.
 *
 * Nothing secret is in an argument: the program reads a sandbox's environment from its standard input.
 */

import { TaskdError } from "../../lib/errors.ts";
import { AGENT_ID, MAPPED_BASE, MAPPED_COUNT, WORK_TARGET } from "./agent_user.ts";
import type { CommandWorkload, ContainerKind } from "./runtime.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../egress/ports.ts";

/** Where the images have the program that sets up a sandbox's firewall and then drops its privileges. */
export const ENTRYPOINT = "/usr/local/libexec/taskd-entrypoint";
/** Labels by which a broker knows its own containers. */
export const OWNER_LABEL = "taskd.owner";
export const TASK_LABEL = "taskd.task";
export const ROLE_LABEL = "taskd.role";

export interface Identity {
  rootless: boolean;
  uid: number;
  gid: number;
}

/** How many files and processes the host lets it have; undefined leaves it to the program. */
export interface Limits {
  open_files: number;
  processes: number;
}

/** Enough for a program that sleeps. */
const ANCHOR_MEMORY_BYTES = 32 << 20;

export interface ContainerHost {
  kind: ContainerKind;
  identity: Identity;
  /** OCI runtime by name or path; empty takes the program's own. */
  oci_runtime: string;
  limits?: Limits;
  gateway_ip: string;
}

export interface ContainerOrder {
  name: string;
  labels: Readonly<Record<string, string>>;
  work_dir: string;
  workload: CommandWorkload;
  memory_bytes: number;
  /** Seconds after which the program itself ends it, should the broker be gone. */
  backstop_s: number;
}

/** The user and group that own what the agent may write, as the host sees them; undefined: the broker's own do. */
export function hostOwner({ kind, identity }: Pick<ContainerHost, "kind" | "identity">): number | undefined {
  if (identity.uid !== 0 || identity.rootless || kind === "container") return undefined;
  return kind === "podman" ? MAPPED_BASE + AGENT_ID : AGENT_ID;
}

/** Ids that the entrypoint takes on, as the container sees them. */
function agentIds({ kind, identity }: ContainerHost): { uid: number; gid: number } {
  // Under docker's daemon without a mapping, ids are the host's; the agent then runs as the broker's user.
  const own = kind === "docker" && !identity.rootless && identity.uid !== 0;
  return own ? { uid: identity.uid, gid: identity.gid } : { uid: AGENT_ID, gid: AGENT_ID };
}

export function createArgs(host: ContainerHost, order: ContainerOrder): string[] {
  const { kind, gateway_ip } = host;
  const { name, labels, work_dir, workload, memory_bytes } = order;
  const { uid, gid } = agentIds(host);
  const ports = workload.reach === "proxy" ? [PROXY_PORT] : [GATEWAY_PORT, PROXY_PORT];
  return [
    "create",
    `--name=${name}`,
    ...Object.entries(labels).map(([key, value]) => `--label=${key}=${value}`),
    `--network=${workload.network}`,
    ...(workload.platform === undefined ? [] : [`--platform=${workload.platform}`]),
    "--user=0:0",
    `--workdir=${WORK_TARGET}`,
    `--entrypoint=${ENTRYPOINT}`,
    "--env-file=/dev/stdin",
    ...mount({ source: work_dir, target: WORK_TARGET, writable: true }),
    ...workload.mounts.flatMap(mount),
    memory(kind, memory_bytes),
    ...RESTRICTIONS[kind](host, order),
    workload.image,
    gateway_ip,
    ports.join(","),
    String(uid),
    String(gid),
    ...workload.command,
  ];
}

/** `run` in the background: the container that keeps the network's address on the host. */
export function anchorArgs(
  host: ContainerHost,
  anchor: { name: string; labels: Readonly<Record<string, string>>; image: string; network: string },
): string[] {
  const { kind } = host;
  return [
    "run",
    "--detach",
    `--name=${anchor.name}`,
    ...Object.entries(anchor.labels).map(([key, value]) => `--label=${key}=${value}`),
    `--network=${anchor.network}`,
    `--user=${AGENT_ID}:${AGENT_ID}`,
    "--entrypoint=/bin/sleep",
    memory(kind, ANCHOR_MEMORY_BYTES),
    ...RESTRICTIONS[kind](host, { memory_bytes: ANCHOR_MEMORY_BYTES, workload: { max_pids: 8 }, capabilities: [] }),
    anchor.image,
    "infinity",
  ];
}

/** `network create`: no outside access, no names, the gateway's address on the host. */
export function networkArgs(
  { kind, gateway_ip }: Pick<ContainerHost, "kind" | "gateway_ip">,
  network: { name: string; labels: Readonly<Record<string, string>> },
): string[] {
  const labels = Object.entries(network.labels).map(([key, value]) => `--label=${key}=${value}`);
  const family = gateway_ip.includes(":") ? ["--ipv6"] : [];
  return [
    "network",
    "create",
    "--internal",
    ...labels,
    ...(kind === "podman" ? ["--disable-dns"] : []),
    // Apple's takes the first address of the subnet.
    ...(kind === "container" ? [] : [...family, `--gateway=${gateway_ip}`]),
    `--subnet=${subnetOf(gateway_ip)}`,
    network.name,
  ];
}

/** The 256 addresses around a gateway, or the /64 of an IPv6 one. */
export function subnetOf(gateway_ip: string): string {
  if (!gateway_ip.includes(":")) return gateway_ip.replace(/\.\d+$/, ".0/24");
  const [head = ""] = gateway_ip.split("::");
  return `${head.split(":").slice(0, 4).join(":")}::/64`;
}

/** The environment as the programs read it from a file; throws `usage` for what cannot be a line of one. */
export function envFile(env: Readonly<Record<string, string>>): string {
  let text = "";
  for (const [name, value] of Object.entries(env)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) || /[\n\r\0]/.test(value)) {
      throw new TaskdError(
        "usage",
        `Cannot pass the variable ${JSON.stringify(name)} to a sandbox: it is not one line`,
      );
    }
    text += `${name}=${value}\n`;
  }
  return text;
}

function mount({ source, target, writable }: { source: string; target: string; writable: boolean }): string[] {
  for (const path of [source, target]) {
    if (!path.startsWith("/") || /[,"\n\r\0]/.test(path)) {
      throw new TaskdError("usage", `Cannot mount ${JSON.stringify(path)} in a sandbox: a path there is absolute`, {
        hint: "Choose folders without commas, quotes and line breaks in their names",
      });
    }
  }
  return [`--mount=type=bind,source=${source},target=${target}${writable ? "" : ",readonly"}`];
}

function memory(kind: ContainerKind, bytes: number): string {
  return `--memory=${kind === "container" ? `${Math.ceil(bytes / (1 << 20))}M` : bytes}`;
}

interface Bounds {
  memory_bytes: number;
  workload: { max_pids: number };
  backstop_s?: number;
  capabilities?: readonly string[];
}

/** What the entrypoint needs until it has put the firewall up and become the agent's user. */
const ENTRY_CAPABILITIES = ["NET_ADMIN", "SETPCAP", "SETUID", "SETGID"];

function shared({ oci_runtime, limits }: ContainerHost, bounds: Bounds): string[] {
  const { memory_bytes, workload, capabilities = ENTRY_CAPABILITIES } = bounds;
  return [
    ...(oci_runtime === "" ? [] : [`--runtime=${oci_runtime}`]),
    "--pull=never",
    "--read-only",
    // Builds run what they put there; it counts towards the memory.
    `--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size=${Math.floor(memory_bytes / 2)}`,
    "--cap-drop=ALL",
    ...capabilities.map((name) => `--cap-add=${name}`),
    "--security-opt=no-new-privileges",
    `--pids-limit=${workload.max_pids}`,
    `--memory-swap=${memory_bytes}`,
    // Podman's own mount there is at times still busy when the container is removed.
    "--ipc=none",
    "--tmpfs=/dev/shm:rw,nosuid,nodev,noexec,mode=1777,size=67108864",
    "--hostname=sandbox",
    // What it prints is read as it comes; nothing is to grow on the disk.
    "--log-driver=none",
    ...(limits === undefined ? [] : [
      `--ulimit=nofile=${limits.open_files}:${limits.open_files}`,
      `--ulimit=nproc=${limits.processes}:${limits.processes}`,
    ]),
    "--ulimit=core=0:0",
  ];
}

/** Ids of the host that a sandbox's stand for, so that root in it has no rights outside. */
function podmanUsers({ rootless }: Identity): string[] {
  if (rootless) return [`--userns=keep-id:uid=${AGENT_ID},gid=${AGENT_ID}`];
  return [`--uidmap=0:${MAPPED_BASE}:${MAPPED_COUNT}`, `--gidmap=0:${MAPPED_BASE}:${MAPPED_COUNT}`];
}

const RESTRICTIONS: Readonly<Record<ContainerKind, (host: ContainerHost, bounds: Bounds) => string[]>> = {
  podman: (host, bounds) => [
    ...shared(host, bounds),
    ...podmanUsers(host.identity),
    "--read-only-tmpfs=false",
    "--cgroupns=private",
    // It would pass on the host's proxies, names and resolvers.
    "--http-proxy=false",
    "--no-hosts",
    "--dns=none",
    ...(bounds.backstop_s === undefined ? [] : [`--timeout=${bounds.backstop_s}`]),
  ],
  // Its own resolver asks the host's; at this address nothing listens.
  docker: (host, bounds) => [...shared(host, bounds), "--dns=127.0.0.1"],
  // A virtual machine for each: there is no host below it that privileges could reach.
  container: () => ["--tmpfs=/tmp", "--no-dns"],
};

/** What the commands of the task broker may touch, each in a function of the call's plan. */

import type { HostPlace } from "../plan/broker_host.ts";
import { parentOf } from "../../lib/real_path.ts";
import { ANYWHERE, type PermissionSet, unionOf } from "../plan/permissions.ts";
import { brokerNeeds, socketNeeds } from "../plan/needs.ts";
import { brokerOf, hostOf, type Plan } from "../plan/plan.ts";
import { programFiles } from "./_branch_flags.ts";
import { endpointAddress, hostPort } from "../../lib/http/address.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../../broker/egress/ports.ts";

/** The broker, and the file that holds the instruction, or what is decided. */
export function fileNeeds(plan: Plan): PermissionSet {
  const { file, resolve } = plan.flags;
  return unionOf(brokerNeeds(plan), { read: [file, resolve].filter((path) => typeof path === "string") });
}

export function homeNeeds(plan: Plan): PermissionSet {
  const { directory } = hostOf(plan);
  return unionOf({ read: [directory], write: [directory] });
}

/** What resolving the settings takes: the files, the variables, and the user's number, which names the socket. */
export function settingsNeeds(plan: Plan): PermissionSet {
  const { directory, runtime_dir, egress_list, variables } = hostOf(plan);
  const read = [directory, runtime_dir, egress_list].filter((path) => path !== undefined);
  return unionOf({ read, env: variables, sys: ["uid"] });
}

/** The broker's socket: the one that is configured, and that of the broker that runs. */
export function askNeeds(plan: Plan): PermissionSet {
  const { socket, settings } = brokerOf(plan);
  // As it is spelled too: a permission of a socket is for one spelling.
  const all = [socket, settings?.broker.socket ?? "", hostOf(plan).live_socket ?? ""];
  const sockets = [...new Set(all)].filter((path) => path !== "");
  return socketNeeds(...sockets.map((path) => ({ socket: path })));
}

function programNeeds(plan: Plan, names: readonly (keyof HostPlace["programs"])[]): PermissionSet {
  const { programs, tool_variables } = hostOf(plan);
  const paths = names.flatMap((name) => programs[name]);
  return unionOf({ read: paths, run: paths, env: tool_variables });
}

const BROKER_FILES = programFiles("broker", "lib", "std");
const TASK_PROGRAMS = ["git", "gh", "podman", "docker", "container", "bubblewrap", "systemd-run", "prlimit"] as const;
/** What starts and bounds the sandbox that is tried out, where programs of this machine run in sandboxes. */
const STARTERS = Deno.build.os === "linux" ? ["/bin/bash", "/bin/sh", "/usr/bin/unshare"] : [];
/** What runs the attacks on sandboxes for programs of this machine. */
const ATTACKERS = "/usr/bin/python3";
const BROKER_SYS = ["uid", "gid", "statfs", "hostname", "networkInterfaces", "osRelease", "osUptime"] as const;

/** What the doctor inspects. It writes nothing: a socket's path is listed because connecting counts as writing. */
export function doctorNeeds(plan: Plan): PermissionSet {
  const { roots, deno, store, store_socket } = hostOf(plan);
  const { gateway_ip: ip, compat } = brokerOf(plan).settings ?? {};
  const { "compat-url": chosen } = plan.flags;
  const endpoints = [compat?.base_url, chosen].flatMap((url) =>
    typeof url === "string" ? endpointAddress(url) ?? [] : []
  );
  const ports = ip === undefined ? [] : [GATEWAY_PORT, PROXY_PORT].map((port) => hostPort({ hostname: ip, port }));
  const read = [...roots, deno, ...(store === undefined ? [] : [store])];
  const own = { read, net: [...ports, ...endpoints.map(hostPort)], run: STARTERS, sys: ["uid", "statfs"] };
  const daemon = store_socket === undefined ? {} : socketNeeds({ socket: store_socket });
  return unionOf(settingsNeeds(plan), askNeeds(plan), programNeeds(plan, TASK_PROGRAMS), own, daemon);
}

/**
 * What the broker works with. The network has no list, because sandboxes reach through it whatever the egress list and
 * the upstreams name, by addresses that are only known then; programs have none, because it ends groups of processes.
 */
export function brokerServes(plan: Plan): PermissionSet {
  const { notifiers, roots, tool_variables } = hostOf(plan);
  const { socket, settings } = brokerOf(plan);
  const { "log-file": log_file } = plan.flags;
  const logs = typeof log_file === "string" ? [parentOf(log_file)] : [];
  const sockets = [parentOf(socket), parentOf(settings?.broker.socket ?? socket)];
  // The branch store's socket lies in its directory, where the checkouts of tasks' branches are.
  const store = settings === undefined ? [] : [parentOf(settings.branch_store.socket)];
  const places = [...roots, ...sockets, ...store, ...logs];
  const { read } = programNeeds(plan, TASK_PROGRAMS);
  return unionOf(homeNeeds(plan), settingsNeeds(plan), askNeeds(plan), BROKER_FILES, {
    read: [...places, ...read, ...notifiers],
    write: places,
    // The branch store's socket is named too, so that what leads to it is checked.
    net: [ANYWHERE, ...(settings === undefined ? [] : [`unix:${settings.branch_store.socket}`])],
    run: [ANYWHERE],
    env: tool_variables,
    sys: BROKER_SYS,
  });
}

/** What asking, and ending, the broker that runs takes: its lock, its socket, and the program that sends signals. */
export function stopNeeds(plan: Plan): PermissionSet {
  const { lock, programs } = hostOf(plan);
  return unionOf(askNeeds(plan), { read: [lock], run: programs.kill });
}

/** What the wizard needs: the home directory, what builds images, and what the doctor inspects at the end. */
export function setupNeeds(plan: Plan): PermissionSet {
  const { "key-file": key_file, "build-images": builds } = plan.flags;
  const { temporary } = hostOf(plan);
  const folder = builds === false ? [] : [temporary];
  return unionOf(homeNeeds(plan), doctorNeeds(plan), {
    read: [...folder, ...(typeof key_file === "string" ? [key_file] : [])],
    write: folder,
    run: builds === false ? [] : ["/bin/sh"],
  });
}

/** A service manager's unit file, and the program that makes it reload. */
export function serviceNeeds(plan: Plan): PermissionSet {
  const { unit_folders, programs } = hostOf(plan);
  const runtimes = [...programs.podman, ...programs.docker, ...programs.container];
  const files = { read: [...unit_folders, ...runtimes], write: unit_folders };
  return unionOf(settingsNeeds(plan), programNeeds(plan, ["systemctl", "launchctl"]), files);
}

/**
 * As much as a broker, because it starts sandboxes: but it writes below the temporary directory alone, so that nothing
 * that is installed can be changed by it.
 */
export function redteamNeeds(plan: Plan): PermissionSet {
  const { live_socket, roots, temporary, tool_variables } = hostOf(plan);
  const { read } = programNeeds(plan, TASK_PROGRAMS);
  return unionOf(settingsNeeds(plan), askNeeds(plan), BROKER_FILES, {
    // The socket's folder too, because its mode counts.
    read: [...roots, ...read, temporary, ATTACKERS, ...(live_socket === undefined ? [] : [parentOf(live_socket)])],
    write: [temporary],
    net: [ANYWHERE],
    run: [ANYWHERE],
    env: tool_variables,
    sys: BROKER_SYS,
  });
}

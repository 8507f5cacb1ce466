/**
 * The permissions of a command, as one plain value: lists of exactly what may be
 * touched, per kind. An empty list means nothing.
 *
 * @module
 */

import type { BrokerPlace, Plan } from "./command.ts";

/** The kinds of Deno's permissions, in the order they are shown. */
export const PERMISSION_KINDS = ["read", "write", "net", "run", "env", "sys", "ffi", "import"] as const;
/** A kind of permission. */
export type PermissionKind = typeof PERMISSION_KINDS[number];

/** What may be touched, per kind. */
export type PermissionSet = Readonly<Record<PermissionKind, readonly string[]>>;

/** In a list: whatever there is of the kind. For what nobody can list, such as the hosts that sandboxes may reach. */
export const ANYWHERE = "*";

/** Nothing at all. */
export const NO_PERMISSIONS: PermissionSet = {
  read: [],
  write: [],
  net: [],
  run: [],
  env: [],
  sys: [],
  ffi: [],
  import: [],
};

/**
 * The one program that is ever started: it clones blocks where the file system can. Absolute, because a grant
 * matches one spelling only.
 */
const CLONE_PROGRAM = Deno.build.os === "darwin" ? "/bin/cp" : "/usr/bin/cp";

/**
 * What direct work on a store needs: its directory, the cloning program, and the type of that file system; for a store
 * in a bucket also what reaching that takes.
 */
export function storeNeeds(plan: Plan): PermissionSet {
  return unionOf(directoryNeeds(plan.workspace), bucketNeeds(plan));
}

/** What a directory of stored files or checkouts takes. */
export function directoryNeeds(directory: string): PermissionSet {
  return { ...NO_PERMISSIONS, read: [directory], write: [directory], run: [CLONE_PROGRAM], sys: ["statfs"] };
}

/** What reaching the buckets of a call takes; nothing where there are none. */
export function bucketNeeds({ s3 }: Plan): PermissionSet {
  return s3 === undefined ? NO_PERMISSIONS : { ...NO_PERMISSIONS, ...s3.access };
}

/** What a client of the daemon needs: its socket. Unix sockets need read, write and net on the very path. */
export function socketNeeds(plan: Plan): PermissionSet {
  return { ...NO_PERMISSIONS, read: [plan.socket], write: [plan.socket], net: [`unix:${plan.socket}`] };
}

/** What a client of the task broker needs: its socket, as {@linkcode socketNeeds}. */
export function brokerNeeds(plan: Plan): PermissionSet {
  const { socket } = brokerOf(plan);
  return { ...NO_PERMISSIONS, read: [socket], write: [socket], net: [`unix:${socket}`] };
}

/** Where the broker is, for a command that the table says has to do with it. */
export function brokerOf({ command, broker }: Plan): BrokerPlace {
  if (broker === undefined) throw new Error(`Command ${command} has nothing to do with the broker`);
  return broker;
}

/** What a command of branches needs, by who does the work. */
export function branchNeeds(plan: Plan): PermissionSet {
  return plan.route === "socket" ? socketNeeds(plan) : storeNeeds(plan);
}

/** The union of two sets, without repetition. */
export function unionOf(a: PermissionSet, b: PermissionSet): PermissionSet {
  const union = { ...a };
  for (const kind of PERMISSION_KINDS) union[kind] = [...new Set([...a[kind], ...b[kind]])];
  return union;
}

/** The set as the runtime takes it. False rather than an empty list, which older runtimes read as everything. */
export function toDenoPermissions(set: PermissionSet): Deno.PermissionOptionsObject {
  const list = (kind: PermissionKind) => {
    if (set[kind].includes(ANYWHERE)) return true;
    return set[kind].length === 0 ? false : [...set[kind]];
  };
  return {
    read: list("read"),
    write: list("write"),
    net: list("net"),
    run: list("run"),
    env: list("env"),
    sys: list("sys") as Deno.PermissionOptionsObject["sys"] & (string[] | boolean),
    ffi: list("ffi"),
    import: list("import"),
  };
}

/** Gives up every permission of this thread. One way. */
export function revokeAll(): void {
  for (const name of PERMISSION_KINDS) Deno.permissions.revokeSync({ name });
}

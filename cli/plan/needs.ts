/**
 * What a call needs to touch, read off its plan: the command table makes each command's
 * permissions of these.
 */

import { NO_PERMISSIONS, type PermissionSet, unionOf } from "./permissions.ts";
import { brokerOf, type Plan } from "./plan.ts";

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

/** What a command of branches needs, by who does the work. */
export function branchNeeds(plan: Plan): PermissionSet {
  return plan.route === "socket" ? socketNeeds(plan) : storeNeeds(plan);
}

/**
 * What a call needs to touch, read off its plan: the command table makes permissions of it.
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

export function bucketNeeds({ s3 }: Plan): PermissionSet {
  return s3 === undefined ? NO_PERMISSIONS : { ...NO_PERMISSIONS, ...s3.access };
}

/** What a client of a daemon needs: its socket. Unix sockets need read, write and net on the very path. */
export function socketNeeds({ socket }: Pick<Plan, "socket">): PermissionSet {
  return { ...NO_PERMISSIONS, read: [socket], write: [socket], net: [`unix:${socket}`] };
}

export function brokerNeeds(plan: Plan): PermissionSet {
  return socketNeeds(brokerOf(plan));
}

export function branchNeeds(plan: Plan): PermissionSet {
  return plan.route === "socket" ? socketNeeds(plan) : storeNeeds(plan);
}

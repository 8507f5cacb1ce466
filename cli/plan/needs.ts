/** What a call needs to touch, read off its plan: the command table makes permissions of it. */

import { type PermissionSet, unionOf } from "./permissions.ts";
import { brokerOf, type Plan } from "./plan.ts";

/**
 * The programs that are ever started: one clones blocks where the file system can, one names the process that has a file
 * locked. Absolute, because a grant matches one spelling only.
 */
const STORE_PROGRAMS = Deno.build.os === "darwin" ? ["/bin/cp"] : ["/usr/bin/cp", "/usr/bin/lslocks"];

/**
 * What direct work on a store needs: its directory, the cloning program, and the type of that file system; for a store
 * in a bucket also what reaching that takes.
 */
export function storeNeeds(plan: Plan): PermissionSet {
  return unionOf(directoryNeeds(plan.workspace), bucketNeeds(plan));
}

export function directoryNeeds(directory: string): PermissionSet {
  return unionOf({ read: [directory], write: [directory], run: STORE_PROGRAMS, sys: ["statfs"] });
}

export function bucketNeeds({ s3 }: Plan): PermissionSet {
  return unionOf(s3?.access ?? {});
}

/**
 * What a client of daemons needs: their sockets, each with read, write and net on the very path, and the user's number,
 * which has to be that of the sockets' owner.
 */
export function socketNeeds(...places: Pick<Plan, "socket">[]): PermissionSet {
  const sockets = places.map(({ socket }) => socket);
  return unionOf({ read: sockets, write: sockets, net: sockets.map((path) => `unix:${path}`), sys: ["uid"] });
}

export function brokerNeeds(plan: Plan): PermissionSet {
  return socketNeeds(brokerOf(plan));
}

export function branchNeeds(plan: Plan): PermissionSet {
  return plan.route === "socket" ? socketNeeds(plan) : storeNeeds(plan);
}

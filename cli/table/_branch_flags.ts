/** What several commands share, those of the branch store above all. */

import type { FlagSpec, PositionalSpec } from "../plan/command_spec.ts";
import { duration, off, on, text } from "./_row.ts";
import { type PermissionSet, unionOf } from "../plan/permissions.ts";

/**
 * The program's own modules and what lies beside them in these folders: a daemon reads them as it runs, and its threads
 * load theirs with its permissions.
 */
export function programFiles(...folders: string[]): PermissionSet {
  const { protocol, hostname, port } = new URL(import.meta.url);
  if (protocol !== "file:") return unionOf({ import: [`${hostname}:${port || 443}`] });
  return unionOf({ read: folders.map((folder) => new URL(`../../${folder}/`, import.meta.url).pathname) });
}

/** A branch, never a checkpoint. */
export const BRANCH: PositionalSpec = {
  name: "branch",
  kind: "branch",
  help: "The branch, <db>[@<branch>]; main by default",
};

export const MATERIALIZE: FlagSpec = on(
  "materialize",
  "Copy the whole database instead of pointing into its parent's chain",
);

/** What `--at` and `--to` take. */
export const POINT_HELP =
  "a checkpoint's name, a transaction (txid:41), a time (time:2026-11-25T15:00:00Z) or an age " +
  "(age:15m); a checkpoint of that very name goes first, and the prefixes may be left out";

export const AT: FlagSpec = text("at POINT", `Take the branch as it was then: ${POINT_HELP}`);

export const KEEP: FlagSpec = text(
  "keep LEVELS",
  "How long points are kept: all of them, then one of every so often until so long (1d,1h:7d,1d:30d), or none",
);

export const SAFETY: FlagSpec = off("safety", "Do not keep the previous content as a branch");

export const SAFETY_TTL: FlagSpec = duration("safety-ttl", "How long the safety branch lives", { minimum: 1 });

export const WAIT: FlagSpec = duration("wait", "How long to wait for an application to close the branch's file");

/** Of what makes a branch hold something else. */
export const REPOINTING: readonly FlagSpec[] = [
  MATERIALIZE,
  SAFETY,
  SAFETY_TTL,
  on("reopen", "Close the live session of the branch that changes first, and open it again afterwards"),
  WAIT,
];

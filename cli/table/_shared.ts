/**
 * What several commands share, those of the branch store above all.
 */

import type { FlagSpec, PositionalSpec } from "../plan/command_spec.ts";
import { NO_PERMISSIONS, type PermissionSet } from "../plan/permissions.ts";
import { branchNeeds } from "../plan/needs.ts";

/** A command that works on branches, through the daemon where one runs. */
export const ON_BRANCHES = { uses: "branches", needs: branchNeeds } as const;

/**
 * The program's own modules and what lies beside them in these folders: a daemon reads them as it runs, and its threads
 * load theirs with its permissions.
 */
export function programFiles(...folders: string[]): PermissionSet {
  const { protocol, hostname, port } = new URL(import.meta.url);
  if (protocol !== "file:") return { ...NO_PERMISSIONS, import: [`${hostname}:${port || 443}`] };
  return { ...NO_PERMISSIONS, read: folders.map((folder) => new URL(`../../${folder}/`, import.meta.url).pathname) };
}

/** A branch, never a checkpoint. */
export const BRANCH: PositionalSpec = {
  name: "branch",
  kind: "branch",
  help: "The branch, <db>[@<branch>]; main by default",
};

export const MATERIALIZE: FlagSpec = {
  name: "materialize",
  kind: "boolean",
  help: "Copy the whole database instead of pointing into its parent's chain",
};

export const SAFETY: FlagSpec = {
  name: "safety",
  kind: "boolean",
  default: "true",
  negatable: true,
  help: "Do not keep the previous content as a branch",
};

export const SAFETY_TTL: FlagSpec = {
  name: "safety-ttl",
  kind: "duration",
  value: "DURATION",
  minimum: 1,
  help: "How long the safety branch lives",
};

export const REOPEN: FlagSpec = {
  name: "reopen",
  kind: "boolean",
  help: "Close the live session of the branch that changes first, and open it again afterwards",
};

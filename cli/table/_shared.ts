/**
 * Arguments and flags that several commands share.
 *
 * @module
 */

import type { FlagSpec, PositionalSpec } from "../command.ts";

/** A branch, never a checkpoint. */
export const BRANCH: PositionalSpec = {
  name: "branch",
  kind: "branch",
  help: "The branch, <db>[@<branch>]; main by default",
};

/** Fork, promote and rollback: how the result is stored. */
export const MATERIALIZE: FlagSpec = {
  name: "materialize",
  kind: "boolean",
  help: "Copy the whole database instead of pointing into its parent's chain",
};

/** Promote and rollback: whether what was there before is kept. */
export const SAFETY: FlagSpec = {
  name: "safety",
  kind: "boolean",
  default: "true",
  negatable: true,
  help: "Do not keep what was there before as a branch",
};

/** Promote and rollback: how long it is kept. */
export const SAFETY_TTL: FlagSpec = {
  name: "safety-ttl",
  kind: "duration",
  value: "DURATION",
  minimum: 1,
  help: "How long the safety branch lives",
};

/** Promote and rollback: what happens to a live session. */
export const REOPEN: FlagSpec = {
  name: "reopen",
  kind: "boolean",
  help: "Close the live session of the branch that changes first, and open it again afterwards",
};

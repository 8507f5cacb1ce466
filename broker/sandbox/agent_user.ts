/**
 * The user of programs in sandboxes: its number inside, and on the host where that is another. As root, the host's
 * numbers are of a range that nothing else takes, so that a sandbox's root has no rights outside.
 */

/** User and group in a sandbox. */
export const AGENT_ID = 1_000;

/** First of the host's user and group ids that a sandbox's stand for. */
export const MAPPED_BASE = 1_900_000_000;
export const MAPPED_COUNT = 65_536;

/** Where a sandbox has its work tree. */
export const WORK_TARGET = "/workspace";

/**
 * The report of the process that inspects a database, and its bounds.
 */

import type { BriefDatabase, ChangesetRoot } from "../task/database_schema.ts";

export const MAX_LISTED = 100;
export const MAX_ROWS = 10;
/** UTF-16 units of a name. */
export const MAX_NAME_LENGTH = 200;
/** UTF-16 units of a setting, or of a reason. */
export const MAX_TEXT_LENGTH = 1_000;
/** UTF-16 units of all rows that are shown; of all SQL as many. */
export const MAX_SAMPLE_LENGTH = 256 << 10;

/** UTF-16 units of all spreads. */
export const MAX_SPREAD_LENGTH = 128 << 10;

/** The file of the tree of hashes over what differs, in the folder of the work. */
export const CHANGESET = "changeset";

export type SchemaDifference = BriefDatabase["schema"][number];

export type Report =
  /** It cannot be taken over; the reason is for people. */
  | { ok: false; problem: string }
  | { ok: true; changeset?: ChangesetRoot } & Omit<BriefDatabase, "db" | "base">;

/**
 * The report of the process that inspects a database, and its bounds.
 */

import type { BriefDatabase } from "../task/schema.ts";

/** Tables and definitions that are listed. */
export const MAX_LISTED = 100;
/** Rows of each table that are shown. */
export const MAX_ROWS = 10;
/** UTF-16 units of a name. */
export const MAX_NAME_LENGTH = 200;
/** UTF-16 units of all rows that are shown. */
export const MAX_SAMPLE_LENGTH = 256 << 10;

export type SchemaDifference = BriefDatabase["schema"][number];

/** The line that the process prints. */
export type Report =
  /** It cannot be taken over; the reason is for people. */
  | { ok: false; problem: string }
  | { ok: true } & Omit<BriefDatabase, "db" | "base">;

/**
 * The report of the process that inspects a database, and its bounds.
 *
 * @module
 */

import type { ComparedTable } from "../../lib/sqlite/row_diff.ts";

/** Tables and definitions that are listed. */
export const MAX_LISTED = 100;
/** Rows of each table that are shown. */
export const MAX_ROWS = 10;
/** UTF-16 units of a name. */
export const MAX_NAME_LENGTH = 200;
/** UTF-16 units of all rows that are shown. */
export const MAX_SAMPLE_LENGTH = 256 << 10;

/** A definition that is not what it was. */
export interface SchemaDifference {
  type: string;
  name: string;
  change: "added" | "removed" | "changed";
}

/** The line that the process prints. */
export type Report =
  /** It cannot be taken over; the reason is for people. */
  | { ok: false; problem: string }
  | {
    ok: true;
    changed: boolean;
    tables: ComparedTable[];
    more_tables: number;
    schema: SchemaDifference[];
    more_schema: number;
    other_changes: boolean;
  };

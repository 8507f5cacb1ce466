/**
 * The difference of two tables as JSON-ready values.
 */

/** Row counts of one table's difference. */
export interface TableDiff {
  /** Table name. */
  table: string;
  /** `changed`: rows differ; `schema`: the columns differ, so rows are not compared. */
  change: "added" | "removed" | "changed" | "schema";
  /** Rows only in the second. */
  rows_added: number;
  /** Rows only in the first. */
  rows_removed: number;
  /** Rows in both, with different values. */
  rows_changed: number;
  /** The first rows, when asked for. */
  rows?: RowDiff[];
}

/** A value as JSON can carry it: integers beyond 2^53 as text, blobs as `{hex, bytes}` cut short. */
export type JsonValue = null | number | string | { hex: string; bytes: number };

/** One differing row. */
export interface RowDiff {
  /** What became of it. */
  change: "added" | "removed" | "changed";
  /** Primary key (or rowid) columns. */
  key: Record<string, JsonValue>;
  /** Its columns in the first; absent for an added row. */
  before?: Record<string, JsonValue>;
  /** Its columns in the second; absent for a removed row. */
  after?: Record<string, JsonValue>;
}

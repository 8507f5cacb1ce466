/**
 * What a comparison of two databases says, as JSON-ready values. docs/reference/comparison.md has what it promises.
 */

/**
 * A value that identifies what is stored. A number is an integer within 2^53 or a real with a fraction; text is text.
 * What JSON would blur is an object: `{integer}` beyond 2^53, `{real}` of one that reads like an integer, `{text, hex}` of
 * bytes that are no valid text. A blob, and text longer than asked for, has its length in `bytes`; where `at` or `sha256`
 * is there, `text` or `hex` is a window that begins at the byte `at`, and `sha256` is that of the whole value.
 */
export type JsonValue =
  | null
  | number
  | string
  | { integer: string }
  | { real: string }
  | { text: string; bytes: number; hex?: string; at?: number; sha256?: string }
  | { hex: string; bytes: number; at?: number; sha256?: string };

/** What became of something. */
export type ChangeKind = "added" | "removed" | "changed";

/** A column that came, went, or has another name at the same place. */
export interface ColumnDiff {
  /** Its name, in the second where it is there. */
  name: string;
  /** What became of it. */
  change: "added" | "removed" | "renamed";
  /** Of a renamed one, its name in the first. */
  from?: string;
  /** Of an added one, rows with another value than its default; of a removed one, rows that had a value. */
  values: number;
}

/** What differs in the rows of one table. */
export interface TableDiff {
  /** Table name. */
  table: string;
  /** Whether the table is in one of the two alone. */
  change: ChangeKind;
  /** SQLite's own, or storage of a virtual table. */
  internal?: true;
  /** Rows only in the second. */
  rows_added: number;
  /** Rows only in the first. */
  rows_removed: number;
  /** Rows in both, with other content, storage class or rowid. */
  rows_changed: number;
  /** Columns that are not the same in both. */
  columns?: ColumnDiff[];
  /** Why its rows were not compared to the end: the counts are those up to there. */
  unread?: string;
  /** The first rows of each kind, when asked for. */
  rows?: RowDiff[];
}

/** One differing row. */
export interface RowDiff {
  /** What became of it. */
  change: ChangeKind;
  /** Primary key (or rowid) columns. */
  key: Record<string, JsonValue>;
  /** Its rowid, where that is not in the key and differs. */
  rowid?: { before?: JsonValue; after?: JsonValue };
  /** Its columns in the first, of a changed row those that differ; absent for an added row. */
  before?: Record<string, JsonValue>;
  /** Its columns in the second, likewise; absent for a removed row. */
  after?: Record<string, JsonValue>;
  /** Of a changed row, its columns that are the same in both, when asked for. */
  same?: Record<string, JsonValue>;
}

/** A part of a table's differing rows. */
export interface RowPage {
  /** The rows, in the order in which they are found. */
  rows: RowDiff[];
  /** Where the next part begins; absent at the end. */
  next?: string;
}

/** An entry of `sqlite_schema` that is not the same in both. */
export interface DefinitionDiff {
  /** `table`, `index`, `view` or `trigger`; another text only where the schema was edited by hand. */
  type: string;
  /** Its name. */
  name: string;
  /** The table that it belongs to. */
  table: string;
  /** Of a changed one, where it belonged to in the first, if that differs. */
  table_before?: string;
  /** What became of it. */
  change: ChangeKind;
  /** Its SQL in the first; null for an index that SQLite makes for a constraint. */
  before?: JsonValue;
  /** Its SQL in the second. */
  after?: JsonValue;
}

/** A setting in the file's header, or the order of its triggers. */
export interface SettingDiff {
  /** Such as `user_version`. */
  setting: string;
  /** In the first. */
  before: string;
  /** In the second. */
  after: string;
}

/** Pages that differ and hold nothing that the rest of the comparison shows. */
export interface OtherPages {
  /** Where they are. */
  where: "table" | "index" | "definitions" | "free" | "pointer map" | "unused";
  /** The table or index. */
  name?: string;
  /** How many. */
  pages: number;
}

/** What `PRAGMA integrity_check` says of one side and not of the other, and names that are no text. */
export interface SideProblem {
  /** Which. */
  side: "before" | "after";
  /** In words. */
  problem: string;
}

/** What diff accepts. */
export interface DiffOptions {
  /** Rows of these tables only. */
  tables?: string[];
  /** Rows of each kind, removed, added and changed, to show of each table; default 0. */
  rows?: number;
  /** Bytes of a text or blob that are shown; default 256. */
  value_bytes?: number;
}

/** What the reading of differing rows accepts. */
export interface DiffRowsOptions {
  /** Where to begin: `next` of the part before. */
  after?: string;
  /** Most rows; default 100. */
  rows?: number;
  /** Bytes of a text or blob that are shown; default 256. */
  value_bytes?: number;
  /** Only rows of which this became. */
  change?: ChangeKind;
  /** Only rows with this in a value of either side, whatever its case. */
  search?: string;
  /** Whether changed rows have their other columns, too. */
  same?: boolean;
}

/** Everything that differs between two databases. */
export interface DatabaseDiff {
  /** Pages that differ. */
  pages_changed: number;
  /** Settings of the file. */
  settings: SettingDiff[];
  /** Definitions. */
  definitions: DefinitionDiff[];
  /** Tables: changed ones before removed, added and internal ones, by name. */
  tables: TableDiff[];
  /** Pages that none of these explains. */
  other_pages: OtherPages[];
  /** Damage on one side, in tables that differ. */
  problems: SideProblem[];
}

/**
 * What a task did to a database, as a brief, a page of rows and the evidence in a trace have it: schemas, from which the
 * types follow.
 */

import * as v from "valibot";
import { namedValues } from "../../lib/protocol/named_values.ts";
import { COUNT, SHA256 } from "./value_schemas.ts";

/** Bytes that a database of `size` bytes may have grown to in a task: twice as many and a gigabyte. */
export function grownBytes(size: number): number {
  return 2 * size + 2 ** 30;
}

const window = { bytes: COUNT, at: v.exactOptional(COUNT), sha256: v.exactOptional(v.string()) };
/**
 * A value of a row, or SQL. Integers and reals that JSON cannot hold are text; a long text and a blob come as a part, with
 * its place, the size of the whole and its SHA-256.
 */
const STORED_VALUE = v.union([
  v.string(),
  v.number(),
  v.null(),
  v.strictObject({ integer: v.string() }),
  v.strictObject({ real: v.string() }),
  v.strictObject({ text: v.string(), hex: v.exactOptional(v.string()), ...window }),
  v.strictObject({ hex: v.string(), ...window }),
]);
export type StoredValue = v.InferOutput<typeof STORED_VALUE>;
const columns = namedValues(STORED_VALUE);
const change = v.picklist(["added", "removed", "changed"]);

/** A row that differs. */
export const ROW_CHANGE = v.strictObject({
  change,
  key: columns,
  rowid: v.exactOptional(v.strictObject({
    before: v.exactOptional(STORED_VALUE),
    after: v.exactOptional(STORED_VALUE),
  })),
  before: v.exactOptional(columns),
  after: v.exactOptional(columns),
  /** Of a changed one, where pages of rows are asked for, its other columns. */
  same: v.exactOptional(columns),
});
export type RowChange = v.InferOutput<typeof ROW_CHANGE>;

/** What became of a table, in numbers. */
export const TABLE_CHANGE = v.strictObject({
  table: v.string(),
  /** `schema` in briefs of earlier versions, which compared no rows where columns differ. */
  change: v.picklist(["added", "removed", "changed", "schema"]),
  internal: v.exactOptional(v.literal(true)),
  rows_added: COUNT,
  rows_removed: COUNT,
  rows_changed: COUNT,
  /** Of a full-text table, in the tables that it is kept in; in briefs of earlier versions. */
  storage_rows: v.exactOptional(COUNT),
  columns: v.exactOptional(v.array(v.strictObject({
    name: v.string(),
    change: v.picklist(["added", "removed", "renamed"]),
    from: v.exactOptional(v.string()),
    values: COUNT,
  }))),
  unread: v.exactOptional(v.string()),
});

/** A removed row counts with what it held, another with what it holds. */
const COLUMN_SPREAD = v.strictObject({
  column: v.string(),
  /** Rows from one value to another, or of one: numbers, dates, then the most frequent texts, then NULL. */
  bins: v.array(v.strictObject({ from: STORED_VALUE, to: v.exactOptional(STORED_VALUE), rows: COUNT })),
  /** Rows that are in none. */
  other: COUNT,
  /** Its texts were too many to count: a bin of one has this many rows or more. */
  at_least: v.exactOptional(v.literal(true)),
});

/** A table, index, view or trigger whose definition is not what it was. */
const DEFINITION_CHANGE = v.strictObject({
  type: v.string(),
  name: v.string(),
  change,
  table: v.exactOptional(v.string()),
  table_before: v.exactOptional(v.string()),
  /** The SQL, as far as there was room for it. */
  before: v.exactOptional(STORED_VALUE),
  after: v.exactOptional(STORED_VALUE),
});

/** Of the tree of hashes over definitions, settings and pages of rows that differ. */
export const CHANGESET_ROOT = v.strictObject({ root: SHA256, leaves: COUNT });

export type ChangesetRoot = v.InferOutput<typeof CHANGESET_ROOT>;

/** What a check's query returned on one side, or why it returned nothing. */
export const CHECK_ANSWER = v.union([
  v.strictObject({
    columns: v.array(v.string()),
    /** The first twenty at most. */
    rows: v.array(v.array(STORED_VALUE)),
    count: COUNT,
    /** Over all rows. */
    sha256: SHA256,
  }),
  v.strictObject({ error: v.string() }),
]);
export type CheckAnswer = v.InferOutput<typeof CHECK_ANSWER>;

/** A check of the repository's profile, with its answers before and after. */
const BRIEF_CHECK = v.strictObject({
  name: v.string(),
  sql: v.string(),
  expect: v.exactOptional(v.picklist(["same", "empty"])),
  /** Whether what is expected is so; absent where nothing is. */
  holds: v.exactOptional(v.boolean()),
  before: CHECK_ANSWER,
  after: CHECK_ANSWER,
});
export type BriefCheck = v.InferOutput<typeof BRIEF_CHECK>;

/** One thing that the task and its base have changed differently; `ours` is the base's, `theirs` the task's. */
const CONFLICT = v.strictObject({
  kind: v.picklist([
    "changed_twice",
    "changed_and_deleted",
    "deleted_and_changed",
    "inserted_twice",
    "constraint",
    "foreign_key",
    "definition",
    "setting",
  ]),
  table: v.string(),
  key: v.exactOptional(columns),
  column: v.exactOptional(v.string()),
  base: v.exactOptional(columns),
  ours: v.exactOptional(columns),
  theirs: v.exactOptional(columns),
  detail: v.exactOptional(v.string()),
});
export type Conflict = v.InferOutput<typeof CONFLICT>;

/** What keeps the change to a database from landing. */
export const DATABASE_CONFLICTS = v.strictObject({
  db: v.string(),
  base: v.string(),
  /** Where the base stood. */
  txid: COUNT,
  /** The first of them. */
  conflicts: v.pipe(v.array(CONFLICT), v.maxLength(1_000)),
  /** How many there are. */
  total: COUNT,
});
export type DatabaseConflicts = v.InferOutput<typeof DATABASE_CONFLICTS>;

const side = v.picklist(["ours", "theirs"]);
const place = { table: v.string(), key: v.exactOptional(columns), column: v.exactOptional(v.string()) };
/** More than the conflicts that one row of a trace has room for. */
const MAX_DECISIONS = 4_096;

/** How a person decides conflicts: single ones, then all the others. */
export const DECIDE_REQUEST = v.strictObject({
  prefer: v.exactOptional(side),
  /**
   * Without `db` of whichever database has it; without `column` of the whole row. With `ours`, as the conflict was read
   * (null for nothing), it is refused where the database has another value by now.
   */
  resolve: v.exactOptional(v.pipe(
    v.array(v.strictObject({
      db: v.exactOptional(v.string()),
      ...place,
      take: side,
      ours: v.exactOptional(v.nullable(columns)),
    })),
    v.maxLength(MAX_DECISIONS),
  )),
});
export type DecideRequest = v.InferOutput<typeof DECIDE_REQUEST>;

/** The decision of one conflict, which holds while the base has what was seen: `ours`, null for nothing. */
const DECISION = v.strictObject({ db: v.string(), ...place, take: side, ours: v.nullable(columns) });
export const DECISIONS = v.pipe(v.array(DECISION), v.maxLength(MAX_DECISIONS));
export type Decision = v.InferOutput<typeof DECISION>;

/** A database of the task: its branch, and how it ended. */
export const BRIEF_DATABASE = v.strictObject({
  db: v.string(),
  /** The branch that it was forked from and is promoted onto. */
  base: v.string(),
  /** False: the agent left it as it was, and nothing is promoted. */
  changed: v.boolean(),
  /** At most a hundred, with the first rows of each kind. */
  tables: v.array(v.strictObject({
    ...TABLE_CHANGE.entries,
    rows: v.exactOptional(v.array(ROW_CHANGE)),
    /** Of 200 rows or more: on which values of its first columns they fall. */
    spread: v.exactOptional(v.array(COLUMN_SPREAD)),
  })),
  /** Tables beyond those listed. */
  more_tables: COUNT,
  /** Definitions of tables, indexes, views and triggers that are not what they were. */
  schema: v.array(DEFINITION_CHANGE),
  more_schema: COUNT,
  /** Settings of the file. */
  settings: v.exactOptional(v.array(v.strictObject({ setting: v.string(), before: v.string(), after: v.string() }))),
  /** Pages that differ and hold nothing of all this, and where; at most a hundred. */
  other_pages: v.exactOptional(v.array(v.strictObject({
    where: v.picklist(["table", "index", "definitions", "free", "pointer map", "unused"]),
    name: v.exactOptional(v.string()),
    pages: COUNT,
  }))),
  /** Something differs that is neither a row nor a definition: a setting, or pages. */
  other_changes: v.boolean(),
  /** Present where the repository's profile has some for a database that was changed. */
  checks: v.exactOptional(v.array(BRIEF_CHECK)),
});
export type BriefDatabase = v.InferOutput<typeof BRIEF_DATABASE>;

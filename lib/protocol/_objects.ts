/**
 * The objects in answers. The compiler holds them to the types of results.ts and messages.ts.
 */

import * as v from "../packages/valibot.ts";
import { namedValues } from "./named_values.ts";
import type { MergeConflict, MergeSide, Resolution } from "../merge/conflicts.ts";
import type { MergedTable } from "../merge/table_merge.ts";
import type { ChangeKind, ColumnDiff, DatabaseDiff, DefinitionDiff, JsonValue } from "../sqlite/diff_result.ts";
import type { OtherPages, RowDiff, SettingDiff, SideProblem, TableDiff } from "../sqlite/diff_result.ts";
import { BRANCH_STATES, FINDING_KINDS } from "../store/results.ts";
import type { BranchInfo, BranchStatus, CheckpointInfo, DatabaseInfo, Finding, LeftOut } from "../store/results.ts";
import type { MergeInfo, PointInfo, Recovery, RepairedBranch, Restored } from "../store/results.ts";
import { COUNT, FLAG, listOf, object, oneOf, optional, required, SECONDS, STAMP, STRING, STRINGS } from "./_fields.ts";
import type { Fields, Kind } from "./_fields.ts";
import type { CloseAnswer, OpenAnswer, SessionInfo } from "./messages.ts";

export const OF_BRANCH = { db: required(STRING, "the database"), branch: required(STRING, "the branch") };

export const STORAGE_MODE = oneOf("shared", "materialized");
export const OBJECT_KIND = oneOf("snapshot", "segment");

export const SESSION_ERROR: Kind<Required<CloseAnswer>["error"]> = object("error", {
  code: required(STRING, "one of the codes below"),
  message: required(STRING, "what went wrong"),
});

export const DATABASE_INFO: Kind<DatabaseInfo> = object("database", {
  db: OF_BRANCH.db,
  branches: required(COUNT, "number of its branches"),
});

const CHECKPOINT_INFO: Kind<CheckpointInfo> = object("checkpoint", {
  name: required(STRING, "its name"),
  txid: required(COUNT, "the transaction it names"),
  kind: required(OBJECT_KIND, "the object that ends there"),
  created_at: required(STAMP, "when it was made"),
  note: optional(STRING, "free text kept with it"),
});

const BRANCH_FIELDS: Fields<BranchInfo> = {
  ...OF_BRANCH,
  state: required(oneOf(...BRANCH_STATES), "computed at the moment of the request"),
  error: optional(STRING, "why, in state `error`"),
  shared: required(FLAG, "whether it points into a parent's chain"),
  txid: required(COUNT, "its durable head"),
  epoch: required(COUNT, "epoch of its last lease"),
  checkpoints: required(listOf(CHECKPOINT_INFO), "its named points"),
  protected: required(FLAG, "whether destroying it needs `force`"),
  touched_at: required(STAMP, "when it was last touched"),
  ttl_ms: optional(COUNT, "milliseconds after that at which it expires; absent: it never expires"),
  holder: optional(STRING, "the holder of its lease"),
  problem: optional(STRING, "why its content cannot be read or compared: a state of `idle` is not known then"),
  checkout: optional(STRING, "path of its writable checkout"),
};
export const BRANCH_INFO: Kind<BranchInfo> = object("branch", BRANCH_FIELDS);

export const BRANCH_STATUS: Kind<BranchStatus> = object("branch status", {
  ...BRANCH_FIELDS,
  storage: required(STORAGE_MODE, "how it keeps its storage"),
  lineage: required(STRING, "identity of its chain, 128 bits in hex"),
  depth: required(COUNT, "segments past the last snapshot of its chain"),
  chain_bytes: required(COUNT, "bytes of the stored objects of its chain"),
  own_bytes: required(COUNT, "of these, bytes of its own"),
  keep: optional(STRING, "how long its points are kept; absent: as the store's are"),
  history_points: optional(COUNT, "points of its past that are there"),
  history_bytes: optional(COUNT, "bytes that they need, and neither the head nor a checkpoint"),
});

export const FINDING: Kind<Finding> = object("finding", {
  what: required(oneOf(...FINDING_KINDS), "what is damaged"),
  where: required(STRING, "its key in the store, its path, or the address of a head or checkpoint"),
  why: required(STRING, "what is wrong"),
  hint: required(STRING, "what to do about it"),
  needed_by: required(STRINGS, "branches, checkpoints and points that cannot be read because of it; the first twenty"),
});

export const RESTORED: Kind<Restored> = object("restored", {
  what: required(oneOf(...FINDING_KINDS, "base"), "what it is"),
  where: required(STRING, "its key in the store, or its path"),
  from: required(STRING, "what proved itself"),
  lost: optional(STRING, "what it lacks, as far as nothing proved that"),
});

export const REPAIRED_BRANCH: Kind<RepairedBranch> = object("repaired branch", {
  ...OF_BRANCH,
  txid: required(COUNT, "its head now"),
  safety_branch: optional(STRING, "the branch that keeps what it was; absent where objects are missing"),
  lost: optional(
    object<NonNullable<RepairedBranch["lost"]>>("lost transactions", {
      first_txid: required(COUNT, "the first"),
      last_txid: required(COUNT, "the last"),
      since: optional(STAMP, "when the last checkpoint before them was made"),
      until: required(STAMP, "when the branch was last touched"),
    }),
    "the transactions that are lost to it",
  ),
  lost_checkpoints: required(STRINGS, "checkpoints that are lost to it"),
  lost_points: optional(COUNT, "how many points of its past are lost to it"),
});

const RECOVERY: Kind<Recovery> = object("recovery", {
  outcome: required(
    oneOf("resumed", "rebuilt", "adopted", "restored", "kept_both"),
    "`resumed`: it goes on from the head; `rebuilt`: likewise, its file made anew from the head and the log; `adopted`: " +
      "edits are taken up as a full copy; `restored`: it had nothing new or could not be read, and is the head again; " +
      "`kept_both`: neither follows the other for certain",
  ),
  safety_branch: optional(
    STRING,
    "`<branch>-found`: what the checkout held, the branch is the head; `<branch>-pre-recovery`: the head, the branch is " +
      "what the checkout held",
  ),
  set_aside: optional(STRING, "folder with a copy of the files as they were found"),
});

export const OPEN_FIELDS: Fields<OpenAnswer> = {
  ...OF_BRANCH,
  checkout: required(STRING, "absolute path of the SQLite file to open"),
  txid: required(COUNT, "the last durable transaction"),
  epoch: required(COUNT, "the session's epoch"),
  holder: required(STRING, "the holder of its lease"),
  recovery: optional(RECOVERY, "what became of a checkout that was not known to be the head; absent when it was"),
};

export const SESSION_INFO: Kind<SessionInfo> = object("session", {
  ...OF_BRANCH,
  state: required(oneOf("active", "pending", "error"), "`pending` while it is being opened: then nothing follows"),
  checkout: optional(STRING, "path of the SQLite file"),
  holder: optional(STRING, "the holder of its lease"),
  epoch: optional(COUNT, "its epoch"),
  durable_txid: optional(COUNT, "the last durable transaction"),
  durable_age_seconds: optional(SECONDS, "time since the last successful flush"),
  capture_lag_bytes: optional(COUNT, "committed bytes that are not captured yet"),
  wal_bytes: optional(COUNT, "size of the WAL file"),
  rebases: optional(COUNT, "how often it started over from a full copy"),
  error: optional(SESSION_ERROR, "why, in state `error`"),
});

const window = {
  bytes: v.number(),
  at: v.exactOptional(v.number()),
  sha256: v.exactOptional(v.string()),
};
const STORED = v.union([
  v.null(),
  v.number(),
  v.string(),
  v.strictObject({ integer: v.string() }),
  v.strictObject({ real: v.string() }),
  v.strictObject({ text: v.string(), hex: v.exactOptional(v.string()), ...window }),
  v.strictObject({ hex: v.string(), ...window }),
]);
const VALUE: Kind<JsonValue> = { type: "value", json: {}, schema: STORED };
const ROW: Kind<Record<string, JsonValue>> = {
  type: "object of values",
  json: { type: "object" },
  schema: namedValues(STORED),
};
export const CHANGE: Kind<ChangeKind> = oneOf("added", "removed", "changed");

export const ROW_DIFF: Kind<RowDiff> = object("row", {
  change: required(CHANGE, "what became of it"),
  key: required(ROW, "its primary key, or rowid"),
  rowid: optional(
    object<NonNullable<RowDiff["rowid"]>>("rowids", {
      before: optional(VALUE, "in the first"),
      after: optional(VALUE, "in the second"),
    }),
    "its rowid, where that is not in the key and differs",
  ),
  before: optional(ROW, "its columns in the first, of a changed row those that differ; absent for an added row"),
  after: optional(ROW, "its columns in the second, likewise; absent for a removed row"),
  same: optional(ROW, "of a changed row, with `same` in the request, its columns that are the same in both"),
});

export const MERGE_SIDE: Kind<MergeSide> = oneOf("ours", "theirs");

export const RESOLUTION: Kind<Resolution> = object("resolution", {
  table: required(STRING, "as in the conflict"),
  key: optional(ROW, "as in the conflict"),
  column: optional(STRING, "as in the conflict; every column of the row when absent"),
  take: required(MERGE_SIDE, "whose value stays: the target's, `ours`, or the source's"),
  ours: optional(
    { type: `${ROW.type} or null`, json: { type: ["object", "null"] }, schema: v.nullable(ROW.schema) },
    "what the target had then, as in the conflict, null for nothing: where it has something else, nothing is decided",
  ),
});

export const MERGED_TABLE: Kind<MergedTable> = object("table", {
  table: required(STRING, "its name"),
  rows_added: required(COUNT, "rows that came"),
  rows_removed: required(COUNT, "rows that went"),
  rows_changed: required(COUNT, "rows that changed"),
  rows_already: required(COUNT, "rows that were there, or gone, as in the source"),
});

export const MERGE_CONFLICT: Kind<MergeConflict> = object("conflict", {
  kind: required(
    oneOf(
      "changed_twice",
      "changed_and_deleted",
      "deleted_and_changed",
      "inserted_twice",
      "constraint",
      "foreign_key",
      "definition",
      "setting",
    ),
    "what is in conflict",
  ),
  table: required(STRING, "the table, or the name of the definition or setting"),
  key: optional(ROW, "the row's key"),
  column: optional(STRING, "the column, of values that were changed twice"),
  base: optional(ROW, "what both began with; absent where that was nothing"),
  ours: optional(ROW, "what the target has; absent where that is nothing"),
  theirs: optional(ROW, "what the source has; absent where that is nothing"),
  detail: optional(STRING, "what SQLite says, or what to do"),
});

export const MERGE_INFO: Kind<MergeInfo> = object("merge", {
  merge: required(STRING, "names it for `revert`"),
  at: required(STAMP, "when it was done"),
  from: required(STRING, "what was merged, or whose merge was taken back"),
  txid: required(COUNT, "where the branch stood with it"),
  in_force: required(FLAG, "whether it is not taken back"),
  reverts: optional(STRING, "the merge that it took back"),
});

export const POINT_INFO: Kind<PointInfo> = object("point", {
  txid: required(COUNT, "the transaction; `txid:<txid>` names the point"),
  at: optional(STAMP, "from when on the branch stood there; absent of what version 0.1.0 wrote"),
  op: required(STRING, "what brought it there: `flush`, `checkpoint`, `merge`, `rollback` and others"),
  checkpoints: optional(STRINGS, "the checkpoints there"),
  merge: optional(STRING, "the merge, as `revert` takes it"),
  kind: required(OBJECT_KIND, "the object that ends there"),
  pages: required(COUNT, "pages of that object"),
  bytes: required(COUNT, "its bytes"),
});

const COLUMN_DIFF: Kind<ColumnDiff> = object("column", {
  name: required(STRING, "its name"),
  change: required(oneOf("added", "removed", "renamed"), "what became of it"),
  from: optional(STRING, "its former name"),
  values: required(COUNT, "rows with another value than its default, or that had a value"),
});

const TABLE_DIFF: Kind<TableDiff> = object("table", {
  table: required(STRING, "its name"),
  change: required(CHANGE, "whether it is in one of the two alone"),
  internal: optional(oneOf(true), "SQLite's own, or storage of a virtual table"),
  rows_added: required(COUNT, "rows only in the second"),
  rows_removed: required(COUNT, "rows only in the first"),
  rows_changed: required(COUNT, "rows in both, with other content, storage class or rowid"),
  columns: optional(listOf(COLUMN_DIFF), "columns that are not the same in both"),
  unread: optional(STRING, "why its rows were not compared to the end: the counts are those up to there"),
  rows: optional(listOf(ROW_DIFF), "the first of these rows of each kind, with `rows` in the request"),
});

const DEFINITION_DIFF: Kind<DefinitionDiff> = object("definition", {
  type: required(STRING, "`table`, `index`, `view` or `trigger`"),
  name: required(STRING, "its name"),
  table: required(STRING, "the table that it belongs to"),
  table_before: optional(STRING, "where it belonged to in the first, if that differs"),
  change: required(CHANGE, "what became of it"),
  before: optional(VALUE, "its SQL in the first; null for an index that SQLite makes"),
  after: optional(VALUE, "its SQL in the second"),
});

const SETTING_DIFF: Kind<SettingDiff> = object("setting", {
  setting: required(STRING, "its name, such as `user_version`"),
  before: required(STRING, "in the first"),
  after: required(STRING, "in the second"),
});

const OTHER_PAGES: Kind<OtherPages> = object("pages", {
  where: required(oneOf("table", "index", "definitions", "free", "pointer map", "unused"), "where they are"),
  name: optional(STRING, "the table or index"),
  pages: required(COUNT, "how many"),
});

const SIDE_PROBLEM: Kind<SideProblem> = object("problem", {
  side: required(oneOf("before", "after"), "in which of the two"),
  problem: required(STRING, "what SQLite says"),
});

export const DATABASE_DIFF: Fields<DatabaseDiff> = {
  pages_changed: required(COUNT, "pages that differ"),
  settings: required(listOf(SETTING_DIFF), "settings of the file that differ"),
  definitions: required(listOf(DEFINITION_DIFF), "definitions that differ"),
  tables: required(listOf(TABLE_DIFF), "tables that differ: changed ones, removed, added, internal ones"),
  other_pages: required(listOf(OTHER_PAGES), "pages that differ and hold nothing that the rest shows"),
  problems: required(listOf(SIDE_PROBLEM), "damage in one of the two, in tables that differ"),
};

export const LEFT_OUT: Fields<LeftOut>["left_out"] = optional(
  STRINGS,
  "branches whose checkout holds edits that are not in the store",
);

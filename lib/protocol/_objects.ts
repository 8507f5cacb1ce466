/**
 * The objects in answers. The compiler holds them to the types of results.ts and messages.ts.
 */

import * as v from "../packages/valibot.ts";
import type { JsonValue, RowDiff, TableDiff } from "../sqlite/diff_result.ts";
import { BRANCH_STATES } from "../store/results.ts";
import type { BranchInfo, BranchStatus, CheckpointInfo, DatabaseInfo } from "../store/results.ts";
import {
  COUNT,
  type Fields,
  FLAG,
  type Kind,
  listOf,
  object,
  oneOf,
  optional,
  required,
  SECONDS,
  STAMP,
  STRING,
} from "./_fields.ts";
import type { CloseAnswer, OpenAnswer, SessionInfo } from "./messages.ts";

/** The branch that an answer is about. */
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
  problem: optional(STRING, "why its stored content cannot be read"),
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
});

export const OPEN_FIELDS: Fields<OpenAnswer> = {
  ...OF_BRANCH,
  checkout: required(STRING, "absolute path of the SQLite file to open"),
  txid: required(COUNT, "the last durable transaction"),
  epoch: required(COUNT, "the session's epoch"),
  holder: required(STRING, "the holder of its lease"),
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

const ROW: Kind<Record<string, JsonValue>> = {
  type: "object",
  json: { type: "object" },
  schema: v.record(
    v.string(),
    v.union([v.null(), v.number(), v.string(), v.strictObject({ hex: v.string(), bytes: v.number() })]),
  ),
};
const ROW_DIFF: Kind<RowDiff> = object("row", {
  change: required(oneOf("added", "removed", "changed"), "what became of it"),
  key: required(ROW, "its primary key, or rowid"),
  before: optional(ROW, "its columns in the first; absent for an added row"),
  after: optional(ROW, "its columns in the second; absent for a removed row"),
});

export const TABLE_DIFF: Kind<TableDiff> = object("table", {
  table: required(STRING, "its name"),
  change: required(
    oneOf("added", "removed", "changed", "schema"),
    "`schema`: the columns differ, so rows are not compared",
  ),
  rows_added: required(COUNT, "rows only in the second"),
  rows_removed: required(COUNT, "rows only in the first"),
  rows_changed: required(COUNT, "rows in both, with different values"),
  rows: optional(listOf(ROW_DIFF), "the first of these rows, with `rows` in the request"),
});

/**
 * The one table of operations: what each takes, answers and may fail with.
 *
 * Requests are checked against it (parse_args.ts); the tools of `taskd mcp` and the reference in
 * docs/reference/store_protocol.md are derived from it. The compiler holds it to the types in messages.ts: a field that
 * is missing here, optional in one and required in the other, or of another type does not compile.
 */

import type { ErrorCode } from "../errors.ts";
import { listOf, object, oneOf, optional, required } from "./_fields.ts";
import {
  ADDRESS,
  BRANCH,
  CHECKPOINT,
  COUNT,
  DATABASE,
  DIFF_ROWS,
  FLAG,
  GRACE,
  LEVELS,
  LEVELS_OR_NULL,
  LOCATION,
  LOG_LIMIT,
  MERGE,
  NOTE,
  POINT,
} from "./_fields.ts";
import { PATH, PLACE, STAMP, STAND, STRING, STRINGS, TABLE, TABLES, TTL, TTL_OR_NULL, VALUE_BYTES } from "./_fields.ts";
import type { Fields } from "./_fields.ts";
import { BRANCH_INFO, BRANCH_STATUS, CHANGE, DATABASE_DIFF, DATABASE_INFO, FINDING, LEFT_OUT } from "./_objects.ts";
import { OBJECT_KIND, OF_BRANCH, OPEN_FIELDS, REPAIRED_BRANCH, RESTORED, ROW_DIFF, SESSION_ERROR } from "./_objects.ts";
import { MERGE_CONFLICT, MERGE_INFO, MERGE_SIDE, MERGED_TABLE, POINT_INFO, RESOLUTION } from "./_objects.ts";
import { SESSION_INFO, STORAGE_MODE } from "./_objects.ts";
import type { BranchArgs, ComparedArgs, OpAnswer, OpArgs, OpName, RepointAnswer, RepointArgs } from "./messages.ts";
import type { MergeArgs, VerifyAnswer } from "./messages.ts";
import type { MergeBranchesResult } from "../capture/merge.ts";
import type { BranchName } from "../store/names.ts";
import type {
  CheckoutResult,
  ConditionInfo,
  HistoryCost,
  SafetyOptions,
  UndoableEntry,
  WaitOptions,
} from "../store/results.ts";

export { type AnyFields, type Field, object, objectSchema } from "./_fields.ts";

export interface OpSpec<O extends OpName> {
  summary: string;
  /** What a request has beside `op` and `id`. */
  fields: Fields<OpArgs<O>>;
  /** What an answer has beside `ok` and `id`. */
  answer: Fields<OpAnswer<O>>;
  /** Codes of its own, beside those any request can fail with. */
  errors: readonly ErrorCode[];
}

/** Codes that any request can fail with. */
export const COMMON_ERRORS = [
  "invalid_request",
  "unknown_op",
  "invalid_name",
  "too_large",
  "overloaded",
  "stopping",
  "denied",
  "no_space",
  "unavailable",
  "stalled",
  "ambiguous",
  "corrupt",
  "chain_gap",
  "unsupported_layout",
  "unsupported_format",
  "internal",
] as const satisfies readonly ErrorCode[];

const ON_BRANCH: Fields<BranchArgs> = {
  db: required(DATABASE, "the database"),
  branch: optional(BRANCH, "the branch; `main` when absent"),
};
const WAIT: Fields<WaitOptions> = {
  wait_ms: optional(
    GRACE,
    "how long to wait, ten minutes at most, for an application to close the file; 0 when absent",
  ),
};
const POINT_DOC = "a checkpoint's name, `txid:41`, `time:2026-11-25T15:00:00Z` or `age:15m`";
const KEEPS: Fields<SafetyOptions> = {
  safety: optional(FLAG, "keep what was there before as a branch; true when absent"),
  safety_ttl_ms: optional(TTL, "how long that branch lives; 7 days when absent"),
};
const ON_REPOINT: Fields<RepointArgs> = {
  ...ON_BRANCH,
  materialize: optional(FLAG, "copy the database instead of pointing into a parent's chain"),
  ...KEEPS,
  reopen: optional(
    FLAG,
    "close the live session of the changed branch first and open it again afterwards; `busy` when an application has " +
      "the file open",
  ),
  ...WAIT,
};
const OF_REPOINT: Fields<RepointAnswer> = {
  ...OF_BRANCH,
  txid: required(COUNT, "the transaction the branch stands at now"),
  mode: required(STORAGE_MODE, "how it keeps its storage from now on"),
  safety_branch: optional(STRING, "the branch that keeps what was there before; absent when declined"),
  checkout_refreshed: required(FLAG, "false leaves the checkout `detached` until the next checkout"),
  checkout_problem: optional(STRING, "why it was left: an application has it open, or it holds edits"),
  session: optional(object("opened session", OPEN_FIELDS), "with `reopen`: what open answers"),
};
const OF_CHECKOUT: Fields<CheckoutResult> = {
  ...OF_BRANCH,
  checkpoint: optional(STRING, "the checkpoint or other point, for a read-only checkout"),
  path: required(STRING, "absolute path of the SQLite file"),
  txid: required(COUNT, "the transaction it holds"),
  read_only: required(FLAG, "whether it is read-only"),
  source: required(
    oneOf("kept", "cached", "materialized"),
    "whether it was there, was copied from the cache, or was built from the store",
  ),
};
const FAST = optional(FLAG, "compare stored checksums alone: no database is rebuilt, none is given to SQLite");
const VERIFIED: Fields<VerifyAnswer> = {
  ...OF_BRANCH,
  txid: required(COUNT, "the transaction that was verified"),
  intact: required(FLAG, "whether no problem was found"),
  objects: required(COUNT, "objects of its chain"),
  pages: required(COUNT, "pages of the database"),
  problems: required(STRINGS, "what was found"),
  findings: required(listOf(FINDING), "the same, each with what to do"),
};
const COMPARED: Fields<ComparedArgs> = {
  a: required(ADDRESS, "`<db>`, `<db>@<branch>` or `<db>@<branch>@<point>`, a checkpoint or another point"),
  b: required(ADDRESS, "likewise"),
};
const SHOWN_BYTES = optional(VALUE_BYTES, "bytes of a text or blob that are shown; 256 when absent");
/** The branch is being destroyed. */
const CLAIMED = ["branch_deleting", "branch_reaping"] as const;
/** The live session of the branch cannot be flushed. */
const UNFLUSHED = ["session_failed", "fenced", "capture_failed"] as const;
const REPOINT_ERRORS = [
  "not_found",
  "lease_held",
  "conflict",
  "already_exists",
  "dirty",
  "protected",
  "busy",
  ...CLAIMED,
  ...UNFLUSHED,
] as const;

const ON_MERGE: Fields<MergeArgs> = {
  check: optional(FLAG, "find conflicts and count, and change nothing"),
  prefer: optional(MERGE_SIDE, "decides every conflict of two values"),
  resolutions: optional(listOf(RESOLUTION), "decide single conflicts, before `prefer`"),
  wait_ms: optional(GRACE, "how long to wait for a writer that holds the lock; 5 seconds when absent"),
};
const OF_MERGE: Fields<MergeBranchesResult> = {
  ...OF_BRANCH,
  from: required(STRING, "what was merged; of a revert, what the merge had brought"),
  txid: required(COUNT, "the transaction that the branch stands at now"),
  merged: required(FLAG, "whether it is in the branch now; false in conflict, and with `check`"),
  merge: optional(STRING, "names the merge for `revert`; absent when nothing was changed"),
  tables: required(listOf(MERGED_TABLE), "tables with rows that the source changed"),
  definitions: required(STRINGS, "tables, indexes, views and triggers that are taken over"),
  conflicts: required(listOf(MERGE_CONFLICT), "the first thousand conflicts that are not decided"),
  conflicts_total: required(COUNT, "how many there are"),
  locked_ms: required(COUNT, "milliseconds for which the write lock was held"),
  left_out: LEFT_OUT,
};
const MERGE_ERRORS = [
  "not_found",
  "conflict",
  "busy",
  "lease_held",
  "dirty",
  "interrupted",
  ...CLAIMED,
  ...UNFLUSHED,
] as const;

export const OPS: { readonly [O in OpName]: OpSpec<O> } = {
  create: {
    summary: "Makes a database with its branch `main`, empty or from an SQLite file.",
    fields: {
      db: ON_BRANCH.db,
      from: optional(PATH, "an SQLite file whose content it starts with; SQLite checks it"),
      force: optional(FLAG, "take a damaged file as it is"),
    },
    answer: {
      ...OF_BRANCH,
      txid: required(COUNT, "its first transaction"),
      size_bytes: required(COUNT, "size of the database"),
      stored_bytes: required(COUNT, "size in the store"),
    },
    errors: ["already_exists", "not_found", "not_a_database", "busy"],
  },
  open: {
    summary: "Opens a session: checks the branch out and captures every commit an application makes there.",
    fields: ON_BRANCH,
    answer: OPEN_FIELDS,
    errors: ["not_found", "lease_held", "conflict", "dirty", "busy", "session_failed", ...CLAIMED],
  },
  flush: {
    summary: "Makes everything committed so far durable.",
    fields: ON_BRANCH,
    answer: {
      txid: required(COUNT, "the last durable transaction"),
      kind: required(oneOf("snapshot", "segment", "none"), "what was written; `none` when nothing was new"),
      pages: required(COUNT, "pages written"),
      bytes: required(COUNT, "bytes written"),
    },
    errors: ["no_session", "busy", ...UNFLUSHED],
  },
  close: {
    summary: "Flushes and closes a session and gives its lease back; a failed session is abandoned.",
    fields: ON_BRANCH,
    answer: {
      ...OF_BRANCH,
      txid: optional(COUNT, "the last durable transaction; absent for a session that had failed"),
      error: optional(
        SESSION_ERROR,
        "of a session that had failed; what it did not make durable is still in the checkout",
      ),
      open_in: optional(STRINGS, "programs that still have the file open; what they commit now is not captured"),
    },
    errors: ["no_session", "busy", ...UNFLUSHED],
  },
  status: {
    summary: "Lists open sessions, and with `branch` describes that branch; on request more.",
    fields: {
      db: optional(DATABASE, "only sessions of this database"),
      branch: optional(BRANCH, "only this branch; needs `db`"),
      branches: optional(FLAG, "list the branches as well, as `branches` does"),
      ro_cache: optional(FLAG, "measure the read-only cache as well"),
    },
    answer: {
      sessions: required(listOf(SESSION_INFO), "the open sessions, and in error those that could not be opened again"),
      branch: optional(BRANCH_STATUS, "with `branch`: that branch"),
      branches: optional(listOf(BRANCH_INFO), "with `branches`: those of `db`, or of all databases"),
      ro_cache_bytes: optional(COUNT, "with `ro_cache`: bytes of the read-only cache"),
      condition: optional(
        object<ConditionInfo>("condition", {
          damaged: required(COUNT, "damaged objects, records and points that scrubbing has met"),
          set_aside: required(COUNT, "damaged things that repairs have put below `damaged/`"),
          scrubbed_at: optional(STAMP, "when everything had been read against its checksums last"),
        }),
        "with `branches`: what is known of damage",
      ),
      store: required(STRING, "location of the store"),
      sqlite_version: required(STRING, "the SQLite library that does the work"),
      pid: required(COUNT, "the process that answers"),
    },
    errors: ["not_found"],
  },
  branches: {
    summary: "Lists branches with their computed states.",
    fields: { db: optional(DATABASE, "only this database") },
    answer: { branches: required(listOf(BRANCH_INFO), "the branches") },
    errors: ["not_found"],
  },
  databases: {
    summary: "Lists databases.",
    fields: {},
    answer: { databases: required(listOf(DATABASE_INFO), "the databases") },
    errors: [],
  },
  checkpoint: {
    summary: "Names the present content of a branch; with a live session, everything committed so far is included.",
    fields: {
      ...ON_BRANCH,
      name: required(CHECKPOINT, "the checkpoint's name"),
      note: optional(NOTE, "free text kept with it"),
    },
    answer: {
      ...OF_BRANCH,
      checkpoint: required(STRING, "its name"),
      txid: required(COUNT, "the transaction it names"),
      kind: required(OBJECT_KIND, "the object that ends there"),
      pages: required(COUNT, "pages written"),
      stored_bytes: required(COUNT, "bytes written"),
      overwrite_detected: optional(
        oneOf(true),
        "only when the store's head, read after the commit, may be other content",
      ),
    },
    errors: ["not_found", "already_exists", "lease_held", "conflict", "busy", ...CLAIMED, ...UNFLUSHED],
  },
  checkout: {
    summary: "Puts the branch into its writable checkout; under a live session that is the session's own.",
    fields: {
      ...ON_BRANCH,
      force: optional(FLAG, "discard local edits; refused while a session or an application has the file open"),
      ...WAIT,
    },
    answer: OF_CHECKOUT,
    errors: ["not_found", "dirty", "lease_held", "conflict", "busy", "session_failed", ...CLAIMED],
  },
  "checkout-at": {
    summary:
      "Materializes a checkpoint or another point, read-only, into the cache. The path may be evicted: ask again " +
      "on ENOENT.",
    fields: { ...ON_BRANCH, checkpoint: required(POINT, POINT_DOC) },
    answer: OF_CHECKOUT,
    errors: ["not_found"],
  },
  fork: {
    summary:
      "Makes a branch that begins at another's head, checkpoint or earlier point; for the head a live session is flushed " +
      "first.",
    fields: {
      ...ON_BRANCH,
      new_branch: required(BRANCH, "the branch to make"),
      at: optional(POINT, `begin there instead of at the head; ${POINT_DOC}`),
      ttl_ms: optional(TTL, "how long it lives after it was last touched"),
      materialize: ON_REPOINT.materialize,
    },
    answer: {
      ...OF_BRANCH,
      txid: required(COUNT, "where it begins"),
      mode: required(STORAGE_MODE, "how it keeps its storage"),
      path: required(oneOf("fast", "slow"), "whether objects were shared or copied whole, or encoded anew"),
      left_out: LEFT_OUT,
    },
    errors: ["not_found", "already_exists", "conflict", ...CLAIMED, ...UNFLUSHED],
  },
  rollback: {
    summary: "Makes a checkpoint or another earlier point the head of its branch.",
    fields: { ...ON_REPOINT, to: required(POINT, POINT_DOC) },
    answer: OF_REPOINT,
    errors: REPOINT_ERRORS,
  },
  promote: {
    summary: "Makes the head of one branch the head of another; a live source is flushed first.",
    fields: {
      ...ON_REPOINT,
      onto: required(BRANCH, "the branch of the same database that changes"),
      expected: optional(STAND, "where the source has to stand, `<lineage>/<txid>`; `conflict` when it does not"),
      expected_onto: optional(STAND, "where the branch that changes has to stand, likewise"),
      refuse_in_use: optional(
        FLAG,
        "`busy` while an application has the branch's file open, which is left to it otherwise",
      ),
    },
    answer: { ...OF_REPOINT, left_out: LEFT_OUT },
    errors: REPOINT_ERRORS,
  },
  merge: {
    summary: "Brings what one branch changed into another, row by row and cell by cell, as one transaction on its " +
      "database: applications go on, also in a live session. Rows in conflict are answered, and nothing is changed.",
    fields: {
      ...ON_BRANCH,
      checkpoint: optional(POINT, `merge this instead of the head; ${POINT_DOC}`),
      into: required(BRANCH, "the branch of the same database that changes"),
      expected: optional(STAND, "where the source has to stand, `<lineage>/<txid>`; `conflict` when it does not"),
      forked_at: optional(STAND, "where the source was forked, likewise: bring exactly what it changed since"),
      ...ON_MERGE,
    },
    answer: OF_MERGE,
    errors: MERGE_ERRORS,
  },
  revert: {
    summary: "Takes a merge back as a merge of its own; what came since stays.",
    fields: {
      ...ON_BRANCH,
      merge: optional(MERGE, "as the merge answered; the newest in force when absent"),
      ...ON_MERGE,
    },
    answer: OF_MERGE,
    errors: MERGE_ERRORS,
  },
  merges: {
    summary: "Lists the merges into a branch, newest first.",
    fields: ON_BRANCH,
    answer: { merges: required(listOf(MERGE_INFO), "the last 32") },
    errors: ["not_found"],
  },
  log: {
    summary: "Lists the points of a branch that are kept, newest first: every flush is one, until garbage collection " +
      "deletes what it needs.",
    fields: {
      ...ON_BRANCH,
      limit: optional(LOG_LIMIT, "how many at most; 50 when absent"),
      after: optional(PLACE, "`next` of the part before; the newest when absent"),
    },
    answer: {
      ...OF_BRANCH,
      points: required(listOf(POINT_INFO), "the points"),
      next: optional(STRING, "where the next part begins; absent at the end"),
    },
    errors: ["not_found"],
  },
  reset: {
    summary: "Makes a branch hold what the branch holds that it was forked from; a live one of these is flushed first.",
    fields: ON_REPOINT,
    answer: { ...OF_REPOINT, left_out: LEFT_OUT, parent: required(STRING, "the branch it was forked from") },
    errors: REPOINT_ERRORS,
  },
  compact: {
    summary: "Rewrites a branch as one snapshot of its own.",
    fields: ON_BRANCH,
    answer: {
      ...OF_BRANCH,
      txid: required(COUNT, "its head"),
      objects_before: required(COUNT, "objects its chain had before"),
      stored_bytes: required(COUNT, "bytes written"),
    },
    errors: ["not_found", "lease_held", "conflict", "session_failed", ...CLAIMED],
  },
  destroy: {
    summary: "Removes a branch and its checkout; what it held is kept as a branch, for `undo`.",
    fields: {
      db: ON_BRANCH.db,
      branch: required(BRANCH, "the branch: never taken to be `main`"),
      force: optional(FLAG, "also when it is protected"),
      confirm: optional(FLAG, "also `main`, a protected branch, and one with edits that were never checkpointed"),
      ...KEEPS,
      ...WAIT,
    },
    answer: { ...OF_BRANCH, safety_branch: optional(STRING, "the branch that keeps what it held") },
    errors: [
      "not_found",
      "lease_held",
      "protected",
      "unconfirmed",
      "conflict",
      "already_exists",
      "busy",
      "session_failed",
      ...CLAIMED,
    ],
  },
  undo: {
    summary: "Takes back the last destroy, rollback, promote, repair or merge of a branch; a merge as `revert` does.",
    fields: {
      ...ON_REPOINT,
      expected: optional(BRANCH, "the `safety_branch` of the entry to take back; `conflict` when another is newer"),
    },
    answer: {
      ...OF_REPOINT,
      undone: required(STRING, "the operation that was taken back"),
      undone_at: required(STAMP, "when it had been done"),
    },
    errors: REPOINT_ERRORS,
  },
  undoable: {
    summary: "Lists what `undo` can take back on a branch, newest first.",
    fields: ON_BRANCH,
    answer: {
      entries: required(
        listOf(object<UndoableEntry>("operation", {
          op: required(STRING, "`destroy`, `rollback`, `promote`, `repair` or `merge`"),
          at: required(STAMP, "when it was done"),
          safety_branch: optional(STRING, "the branch that keeps what was there before; absent of a merge"),
          txid: required(COUNT, "head of that branch; of a merge where the branch stood with it"),
          merge: optional(STRING, "the merge"),
          expires_at: optional(STAMP, "when that branch expires; absent: never"),
        })),
        "the operations",
      ),
    },
    errors: [],
  },
  touch: {
    summary: "Restarts a branch's time to live, or changes it; and how long its points are kept.",
    fields: {
      ...ON_BRANCH,
      ttl_ms: optional(TTL_OR_NULL, "the new time to live; null: it never expires"),
      keep: optional(LEVELS_OR_NULL, "how long its points are kept; null: as the store's are"),
    },
    answer: {
      ...OF_BRANCH,
      touched_at: required(STAMP, "when it was touched"),
      ttl_ms: optional(COUNT, "its time to live in milliseconds; absent: it never expires"),
      keep: optional(STRING, "how long its points are kept; absent: as the store's are"),
    },
    errors: ["not_found", "conflict", ...CLAIMED],
  },
  protect: {
    summary: "Protects a branch from being destroyed or reaped, or stops protecting it.",
    fields: { ...ON_BRANCH, on: required(FLAG, "whether it is protected from now on") },
    answer: { ...OF_BRANCH, protected: required(FLAG, "whether it is protected") },
    errors: ["not_found", "conflict", ...CLAIMED],
  },
  export: {
    summary: "Writes a branch, a checkpoint or another point to an SQLite file; a live session is flushed first.",
    fields: {
      ...ON_BRANCH,
      checkpoint: optional(POINT, `this instead of the head; ${POINT_DOC}`),
      path: required(PATH, "the file to write"),
      force: optional(FLAG, "replace an existing file, unless an application has it open"),
      ...WAIT,
    },
    answer: {
      path: required(STRING, "the file"),
      txid: required(COUNT, "the transaction it holds"),
      size_bytes: required(COUNT, "its size"),
      left_out: LEFT_OUT,
    },
    errors: ["not_found", "already_exists", "busy", ...UNFLUSHED],
  },
  diff: {
    summary: "Compares two branches or checkpoints, table by table; live sessions are flushed first.",
    fields: {
      ...COMPARED,
      tables: optional(TABLES, "rows of these tables only"),
      rows: optional(DIFF_ROWS, "how many removed, added and changed rows of each table to show, of each kind"),
      value_bytes: SHOWN_BYTES,
    },
    answer: {
      a: required(STRING, "the first address"),
      b: required(STRING, "the second address"),
      identical: required(FLAG, "whether they hold the same bytes"),
      ...DATABASE_DIFF,
      left_out: LEFT_OUT,
    },
    errors: ["not_found", ...UNFLUSHED],
  },
  "diff-rows": {
    summary: "Reads the differing rows of one table, part by part; live sessions are flushed first.",
    fields: {
      ...COMPARED,
      table: required(TABLE, "the table"),
      after: optional(PLACE, "`next` of the part before; the first part when absent"),
      rows: optional(DIFF_ROWS, "how many rows at most; 100 when absent"),
      value_bytes: SHOWN_BYTES,
      change: optional(CHANGE, "only rows of which this became"),
      search: optional(TABLE, "only rows with this in a value of either side, whatever its case"),
      same: optional(FLAG, "whether changed rows have the columns that are the same, too"),
    },
    answer: {
      rows: required(listOf(ROW_DIFF), "the rows"),
      next: optional(STRING, "where the next part begins; absent at the end"),
    },
    errors: ["not_found", "invalid_request", ...UNFLUSHED],
  },
  verify: {
    summary: "Proves a branch and its checkpoints: every stored byte against its checksum, the head by SQLite as well.",
    fields: {
      ...ON_BRANCH,
      checkpoint: optional(CHECKPOINT, "this checkpoint alone"),
      fast: FAST,
    },
    answer: VERIFIED,
    errors: ["not_found", ...UNFLUSHED],
  },
  "verify-all": {
    summary: "Proves all that the store holds, as `verify` does, reading each object once.",
    fields: { fast: FAST },
    answer: {
      intact: VERIFIED.intact,
      objects: required(COUNT, "objects that were read"),
      bytes: required(COUNT, "their bytes"),
      branches: required(listOf(object("verified branch", VERIFIED)), "every branch"),
      findings: VERIFIED.findings,
      set_aside: required(COUNT, "damaged things that repairs have put below `damaged/`"),
    },
    errors: [],
  },
  repair: {
    summary:
      "Brings back what is damaged where something proves it; else takes a branch back to its newest sound point.",
    fields: {
      db: optional(DATABASE, "the database; everything when absent"),
      branch: optional(BRANCH, "the branch; `main` when absent"),
      from: optional(LOCATION, "another copy of the store; a bucket is that of the daemon's own store"),
      dry_run: optional(FLAG, "report what would be done and change nothing"),
    },
    answer: {
      dry_run: required(FLAG, "whether nothing was changed"),
      restored: required(listOf(RESTORED), "what is whole again"),
      moved: required(listOf(REPAIRED_BRANCH), "branches that lost something"),
      left: required(listOf(FINDING), "what is as damaged as before"),
      folder: required(STRING, "where everything is that was replaced, below the store"),
    },
    errors: ["not_found", "not_a_store", "invalid_request", "lease_held", "conflict", "session_failed", ...CLAIMED],
  },
  lease: {
    summary: "Names the holder of a branch.",
    fields: ON_BRANCH,
    answer: {
      ...OF_BRANCH,
      epoch: required(COUNT, "epoch of the last lease"),
      holder: optional(STRING, "who took it last; absent after it was given back"),
      expires_at: optional(STAMP, "absent after it was given back"),
      host: optional(STRING, "the host where that was, if it is known"),
      since: optional(STAMP, "when it was taken"),
      live: required(FLAG, "whether the lease holds now"),
    },
    errors: ["not_found"],
  },
  gc: {
    summary:
      "Runs one pass of garbage collection: what no branch reaches is marked, and deleted after its grace period.",
    fields: {
      grace_ms: optional(GRACE, "how long such an object is kept; the daemon's --gc-grace when absent"),
      keep: optional(LEVELS, "how long the points of branches are kept; as --keep of the daemon says when absent"),
      dry_run: optional(FLAG, "report what would be done and change nothing"),
    },
    answer: {
      marked: required(COUNT, "objects that branches reach"),
      tombstoned: required(COUNT, "objects newly found to be unreachable"),
      deleted: required(COUNT, "objects deleted"),
      backlog: required(COUNT, "unreachable objects inside their grace period"),
      backlog_bytes: required(COUNT, "their bytes, which later passes free"),
      kept: required(COUNT, "unreached objects that are left alone"),
      bytes_deleted: required(COUNT, "bytes deleted"),
      undeleted: required(COUNT, "objects that could not be deleted this time"),
      withdrawn: required(
        listOf(object<BranchName>("branch name", OF_BRANCH)),
        "branches removed because the process that made them died before it could withdraw them",
      ),
      history: required(
        listOf(object<HistoryCost>("cost of history", {
          ...OF_BRANCH,
          points: required(COUNT, "points of its past that are kept"),
          bytes: required(COUNT, "bytes that they alone need; what several branches need is counted for the first"),
        })),
        "what the points of the past cost, of each branch that has some",
      ),
    },
    errors: ["conflict", "gc_failed"],
  },
  shutdown: {
    summary: "Stops the daemon as SIGTERM does. The connection ends when every session has been flushed and closed.",
    fields: {},
    answer: { sessions: required(COUNT, "sessions that are being closed") },
    errors: [],
  },
  subscribe: {
    summary: "Turns the connection into a stream of events, one JSON object per line, until it is closed.",
    fields: { more: optional(FLAG, "also events of the further types") },
    answer: {},
    errors: [],
  },
};

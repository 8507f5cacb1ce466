/**
 * The one table of operations: what each takes, answers and may fail with.
 *
 * Requests are checked against it (parse_args.ts); the tools of `taskd mcp` and the reference in
 * docs/reference/store_protocol.md are derived from it. The compiler holds it to the types in messages.ts: a field that
 * is missing here, optional in one and required in the other, or of another type does not compile.
 */

import type { ErrorCode } from "../errors.ts";
import {
  ADDRESS,
  BRANCH,
  CHECKPOINT,
  COUNT,
  DATABASE,
  DIFF_ROWS,
  type Fields,
  FLAG,
  GRACE,
  listOf,
  NOTE,
  object,
  oneOf,
  optional,
  PATH,
  required,
  STAMP,
  STRING,
  STRINGS,
  TABLES,
  TTL,
  TTL_OR_NULL,
} from "./_fields.ts";
import {
  BRANCH_INFO,
  BRANCH_STATUS,
  DATABASE_INFO,
  OBJECT_KIND,
  OF_BRANCH,
  OPEN_FIELDS,
  SESSION_ERROR,
  SESSION_INFO,
  STORAGE_MODE,
  TABLE_DIFF,
} from "./_objects.ts";
import type { BranchArgs, OpAnswer, OpArgs, OpName, RepointAnswer, RepointArgs } from "./messages.ts";
import type { BranchName } from "../store/names.ts";
import type { CheckoutResult } from "../store/results.ts";

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
const ON_REPOINT: Fields<RepointArgs> = {
  ...ON_BRANCH,
  materialize: optional(FLAG, "copy the database instead of pointing into a parent's chain"),
  safety: optional(FLAG, "keep what was there before as a branch; true when absent"),
  safety_ttl_ms: optional(TTL, "how long that branch lives"),
  reopen: optional(FLAG, "close the live session of the changed branch first and open it again afterwards"),
};
const OF_REPOINT: Fields<RepointAnswer> = {
  ...OF_BRANCH,
  txid: required(COUNT, "the transaction the branch stands at now"),
  mode: required(STORAGE_MODE, "how it keeps its storage from now on"),
  safety_branch: optional(STRING, "the branch that keeps what was there before; absent when declined"),
  checkout_refreshed: required(FLAG, "false leaves the checkout `detached` until the next checkout"),
  session: optional(object("opened session", OPEN_FIELDS), "with `reopen`: what open answers"),
};
const OF_CHECKOUT: Fields<CheckoutResult> = {
  ...OF_BRANCH,
  checkpoint: optional(STRING, "the checkpoint, for a read-only checkout"),
  path: required(STRING, "absolute path of the SQLite file"),
  txid: required(COUNT, "the transaction it holds"),
  read_only: required(FLAG, "whether it is read-only"),
  source: required(
    oneOf("kept", "cached", "materialized"),
    "whether it was there, was copied from the cache, or was built from the store",
  ),
};
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

export const OPS: { readonly [O in OpName]: OpSpec<O> } = {
  create: {
    summary: "Makes a database with its branch `main`, empty or from an SQLite file.",
    fields: { db: ON_BRANCH.db, from: optional(PATH, "an SQLite file whose content it starts with") },
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
    },
    errors: ["no_session", "busy", ...UNFLUSHED],
  },
  status: {
    summary: "Lists open sessions, and with `branch` describes that branch.",
    fields: {
      db: optional(DATABASE, "only sessions of this database"),
      branch: optional(BRANCH, "only this branch; needs `db`"),
    },
    answer: {
      sessions: required(listOf(SESSION_INFO), "the open sessions"),
      branch: optional(BRANCH_STATUS, "with `branch`: that branch"),
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
    fields: { ...ON_BRANCH, force: optional(FLAG, "discard local edits; refused while a session is open") },
    answer: OF_CHECKOUT,
    errors: ["not_found", "dirty", "lease_held", "conflict", "busy", "session_failed", ...CLAIMED],
  },
  "checkout-at": {
    summary: "Materializes a checkpoint, read-only, into the cache. The path may be evicted: ask again on ENOENT.",
    fields: { ...ON_BRANCH, checkpoint: required(CHECKPOINT, "the checkpoint") },
    answer: OF_CHECKOUT,
    errors: ["not_found"],
  },
  fork: {
    summary: "Makes a branch that begins at another's head or checkpoint; a live session is flushed first.",
    fields: {
      ...ON_BRANCH,
      new_branch: required(BRANCH, "the branch to make"),
      at: optional(CHECKPOINT, "begin at this checkpoint instead of the head"),
      ttl_ms: optional(TTL, "how long it lives after it was last touched"),
      materialize: ON_REPOINT.materialize,
    },
    answer: {
      ...OF_BRANCH,
      txid: required(COUNT, "where it begins"),
      mode: required(STORAGE_MODE, "how it keeps its storage"),
      path: required(oneOf("fast", "slow"), "whether objects were shared or copied whole, or encoded anew"),
    },
    errors: ["not_found", "already_exists", "conflict", ...CLAIMED, ...UNFLUSHED],
  },
  rollback: {
    summary: "Makes a checkpoint the head of its branch.",
    fields: { ...ON_REPOINT, to: required(CHECKPOINT, "the checkpoint to go back to") },
    answer: OF_REPOINT,
    errors: REPOINT_ERRORS,
  },
  promote: {
    summary: "Makes the head of one branch the head of another; a live source is flushed first.",
    fields: { ...ON_REPOINT, onto: required(BRANCH, "the branch of the same database that changes") },
    answer: OF_REPOINT,
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
    summary: "Removes a branch and its checkout.",
    fields: {
      db: ON_BRANCH.db,
      branch: required(BRANCH, "the branch: never taken to be `main`"),
      force: optional(FLAG, "also when it is protected"),
    },
    answer: OF_BRANCH,
    errors: ["not_found", "lease_held", "protected", "conflict", "busy", "session_failed", ...CLAIMED],
  },
  touch: {
    summary: "Restarts a branch's time to live, or changes it.",
    fields: { ...ON_BRANCH, ttl_ms: optional(TTL_OR_NULL, "the new time to live; null: it never expires") },
    answer: {
      ...OF_BRANCH,
      touched_at: required(STAMP, "when it was touched"),
      ttl_ms: optional(COUNT, "its time to live in milliseconds; absent: it never expires"),
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
    summary: "Writes a branch or checkpoint to an SQLite file; a live session is flushed first.",
    fields: {
      ...ON_BRANCH,
      checkpoint: optional(CHECKPOINT, "this checkpoint instead of the head"),
      path: required(PATH, "the file to write"),
      force: optional(FLAG, "replace an existing file"),
    },
    answer: {
      path: required(STRING, "the file"),
      txid: required(COUNT, "the transaction it holds"),
      size_bytes: required(COUNT, "its size"),
    },
    errors: ["not_found", "already_exists", ...UNFLUSHED],
  },
  diff: {
    summary: "Compares two branches or checkpoints, table by table; live sessions are flushed first.",
    fields: {
      a: required(ADDRESS, "`<db>`, `<db>@<branch>` or `<db>@<branch>@<checkpoint>`"),
      b: required(ADDRESS, "likewise"),
      tables: optional(TABLES, "only these tables"),
      rows: optional(DIFF_ROWS, "how many differing rows of each table to show"),
    },
    answer: {
      a: required(STRING, "the first address"),
      b: required(STRING, "the second address"),
      identical: required(FLAG, "whether they hold the same"),
      pages_changed: required(COUNT, "pages that differ"),
      tables: required(listOf(TABLE_DIFF), "the tables that differ"),
    },
    errors: ["not_found", ...UNFLUSHED],
  },
  verify: {
    summary: "Reads every stored byte of a branch through its checksums and runs SQLite's integrity check.",
    fields: { ...ON_BRANCH, checkpoint: optional(CHECKPOINT, "this checkpoint instead of the head") },
    answer: {
      ...OF_BRANCH,
      txid: required(COUNT, "the transaction that was verified"),
      intact: required(FLAG, "whether no problem was found"),
      objects: required(COUNT, "objects that were read"),
      pages: required(COUNT, "pages of the database"),
      problems: required(STRINGS, "what was found"),
    },
    errors: ["not_found", ...UNFLUSHED],
  },
  lease: {
    summary: "Names the holder of a branch.",
    fields: ON_BRANCH,
    answer: {
      ...OF_BRANCH,
      epoch: required(COUNT, "epoch of the last lease"),
      holder: optional(STRING, "who took it last; absent after it was given back"),
      expires_at: optional(STAMP, "absent after it was given back"),
      live: required(FLAG, "whether the lease holds now"),
    },
    errors: ["not_found"],
  },
  gc: {
    summary:
      "Runs one pass of garbage collection: what no branch reaches is marked, and deleted after its grace period.",
    fields: {
      grace_ms: optional(GRACE, "how long such an object is kept; the daemon's --gc-grace when absent"),
      dry_run: optional(FLAG, "report what would be done and change nothing"),
    },
    answer: {
      marked: required(COUNT, "objects that branches reach"),
      tombstoned: required(COUNT, "objects newly found to be unreachable"),
      deleted: required(COUNT, "objects deleted"),
      backlog: required(COUNT, "unreachable objects inside their grace period"),
      kept: required(COUNT, "unreached objects that are left alone"),
      bytes_deleted: required(COUNT, "bytes deleted"),
      undeleted: required(COUNT, "objects that could not be deleted this time"),
      withdrawn: required(
        listOf(object<BranchName>("branch name", OF_BRANCH)),
        "branches removed because the process that made them died before it could withdraw them",
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
    fields: {},
    answer: {},
    errors: [],
  },
};

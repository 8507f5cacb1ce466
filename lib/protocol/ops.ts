/**
 * The one table of operations: what each takes, answers and may fail with.
 *
 * Requests are checked against it (parse.ts), the reference in docs/reference/store_protocol.md is
 * written from it, and the compiler holds it to the types in messages.ts: a field that
 * is missing here, or documented nowhere, does not compile.
 *
 * @module
 */

import type { ErrorCode } from "../errors.ts";
import {
  ADDRESS,
  BRANCH,
  CHECKPOINT,
  DATABASE,
  DIFF_ROWS,
  type Field,
  FLAG,
  GRACE,
  NOTE,
  optional,
  PATH,
  required,
  TABLES,
  TTL,
  TTL_OR_NULL,
} from "./_fields.ts";
import type { OpAnswer, OpArgs, OpName } from "./messages.ts";

export type { Field } from "./_fields.ts";

/** One operation. */
export interface OpSpec<O extends OpName> {
  summary: string;
  fields: { [K in keyof OpArgs<O>]-?: Field<Exclude<OpArgs<O>[K], undefined>> };
  /** Fields of the answer beside `ok` and `id`, with what they mean. */
  answer: { [K in keyof OpAnswer<O>]-?: string };
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

const ON_BRANCH = {
  db: required(DATABASE, "the database"),
  branch: optional(BRANCH, "the branch; `main` when absent"),
};
const ON_REPOINT = {
  ...ON_BRANCH,
  materialize: optional(FLAG, "copy the database instead of pointing into a parent's chain"),
  safety: optional(FLAG, "keep what was there before as a branch; true when absent"),
  safety_ttl_ms: optional(TTL, "how long that branch lives"),
  reopen: optional(FLAG, "close the live session of the changed branch first and open it again afterwards"),
};
const OF_BRANCH = { db: "the database", branch: "the branch" };
const OF_REPOINT = {
  ...OF_BRANCH,
  txid: "the transaction the branch stands at now",
  mode: "`shared` or `materialized`",
  safety_branch: "the branch that keeps what was there before; absent when declined",
  checkout_refreshed: "false leaves the checkout `detached` until the next checkout",
  session: "with `reopen`: what open answers",
};
const OF_CHECKOUT = {
  ...OF_BRANCH,
  checkpoint: "the checkpoint, for a read-only checkout",
  path: "absolute path of the SQLite file",
  txid: "the transaction it holds",
  read_only: "whether it is read-only",
  source: "`kept`, `cached` or `materialized`",
};
const REPOINT_ERRORS = [
  "not_found",
  "lease_held",
  "conflict",
  "already_exists",
  "dirty",
  "protected",
  "branch_deleting",
  "branch_reaping",
  "session_failed",
  "fenced",
  "capture_failed",
  "busy",
] as const;

/** Every operation. */
export const OPS: { readonly [O in OpName]: OpSpec<O> } = {
  create: {
    summary: "Makes a database with its branch `main`, empty or from an SQLite file.",
    fields: {
      db: ON_BRANCH.db,
      from: optional(PATH, "an SQLite file whose content it starts with"),
    },
    answer: {
      ...OF_BRANCH,
      txid: "its first transaction",
      size_bytes: "size of the database",
      stored_bytes: "size in the store",
    },
    errors: ["already_exists", "not_found", "not_a_database", "busy"],
  },
  open: {
    summary: "Opens a session: checks the branch out and captures every commit an application makes there.",
    fields: ON_BRANCH,
    answer: {
      ...OF_BRANCH,
      checkout: "absolute path of the SQLite file to open",
      txid: "the last durable transaction",
      epoch: "the session's epoch",
      holder: "the holder of its lease",
    },
    errors: [
      "not_found",
      "lease_held",
      "branch_deleting",
      "branch_reaping",
      "conflict",
      "dirty",
      "busy",
      "session_failed",
    ],
  },
  flush: {
    summary: "Makes everything committed so far durable.",
    fields: ON_BRANCH,
    answer: {
      txid: "the last durable transaction",
      kind: "`snapshot`, `segment`, or `none` when nothing was new",
      pages: "pages written",
      bytes: "bytes written",
    },
    errors: ["no_session", "session_failed", "fenced", "capture_failed", "busy"],
  },
  close: {
    summary: "Flushes and closes a session and gives its lease back; a failed session is given up.",
    fields: ON_BRANCH,
    answer: {
      ...OF_BRANCH,
      txid: "the last durable transaction; absent for a session that had failed",
      error: "`{code, message}` of a session that had failed; what it did not make durable is still in the checkout",
    },
    errors: ["no_session", "fenced", "capture_failed", "busy"],
  },
  status: {
    summary: "Lists open sessions, and with `branch` describes that branch.",
    fields: {
      db: optional(DATABASE, "only sessions of this database"),
      branch: optional(BRANCH, "only this branch; needs `db`"),
    },
    answer: {
      sessions: "one object per session: `db`, `branch`, `state`, and once it is open `checkout`, `holder`, `epoch`, " +
        "`durable_txid`, `durable_age_seconds`, `capture_lag_bytes`, `wal_bytes`, `rebases`, and `error` if it failed",
      branch: "with `branch`: the branch as `branches` lists it, with `storage`, `lineage`, `depth`, `chain_bytes`, " +
        "`own_bytes`",
      store: "location of the store",
      sqlite_version: "the SQLite library of the daemon",
      pid: "the daemon's process",
    },
    errors: ["not_found"],
  },
  branches: {
    summary: "Lists branches with their computed states.",
    fields: { db: optional(DATABASE, "only this database") },
    answer: {
      branches: "one object per branch: `db`, `branch`, `state`, `error`, `shared`, `txid`, `epoch`, `checkpoints`, " +
        "`protected`, `ttl_ms`, `touched_at`, `holder`, `checkout`, and `problem` if its stored content cannot be read",
    },
    errors: ["not_found"],
  },
  databases: {
    summary: "Lists databases.",
    fields: {},
    answer: { databases: "one object per database: `db` and `branches`, their number" },
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
      checkpoint: "its name",
      txid: "the transaction it names",
      kind: "`snapshot` or `segment`: the object that ends there",
      pages: "pages written",
      stored_bytes: "bytes written",
      overwrite_detected: "only when the store's head, looked at after the commit, may be other content: `true`",
    },
    errors: [
      "not_found",
      "already_exists",
      "lease_held",
      "conflict",
      "busy",
      "session_failed",
      "fenced",
      "capture_failed",
      "branch_deleting",
      "branch_reaping",
    ],
  },
  checkout: {
    summary: "Puts the branch into its writable checkout; under a live session that is the session's own.",
    fields: { ...ON_BRANCH, force: optional(FLAG, "discard local edits; refused while a session is open") },
    answer: OF_CHECKOUT,
    errors: ["not_found", "dirty", "lease_held", "conflict", "busy", "branch_deleting", "branch_reaping"],
  },
  "checkout-at": {
    summary: "Materializes a checkpoint, read-only, into the cache. The path may be evicted: ask again on ENOENT.",
    fields: { ...ON_BRANCH, checkpoint: required(CHECKPOINT, "the checkpoint") },
    answer: OF_CHECKOUT,
    errors: ["not_found"],
  },
  fork: {
    summary: "Makes a branch that begins where another stands; a live session is flushed first.",
    fields: {
      ...ON_BRANCH,
      new_branch: required(BRANCH, "the branch to make"),
      at: optional(CHECKPOINT, "begin at this checkpoint instead of the head"),
      ttl_ms: optional(TTL, "how long it lives after it was last touched"),
      materialize: ON_REPOINT.materialize,
    },
    answer: {
      ...OF_BRANCH,
      txid: "where it begins",
      mode: "`shared` or `materialized`",
      path: "`fast` or `slow`: whether objects were shared or copied whole, or encoded anew",
    },
    errors: [
      "not_found",
      "already_exists",
      "conflict",
      "session_failed",
      "fenced",
      "capture_failed",
      "branch_deleting",
      "branch_reaping",
    ],
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
      txid: "its head",
      objects_before: "objects its chain had before",
      stored_bytes: "bytes written",
    },
    errors: ["not_found", "lease_held", "conflict", "branch_deleting", "branch_reaping"],
  },
  destroy: {
    summary: "Removes a branch and its checkout.",
    fields: {
      db: ON_BRANCH.db,
      branch: required(BRANCH, "the branch: never taken to be `main`"),
      force: optional(FLAG, "also when it is protected"),
    },
    answer: OF_BRANCH,
    errors: ["not_found", "lease_held", "protected", "conflict", "busy", "branch_deleting", "branch_reaping"],
  },
  touch: {
    summary: "Restarts a branch's time to live, or changes it.",
    fields: { ...ON_BRANCH, ttl_ms: optional(TTL_OR_NULL, "the new time to live; null: it never expires") },
    answer: { ...OF_BRANCH, touched_at: "ISO 8601 UTC", ttl_ms: "its time to live; absent: it never expires" },
    errors: ["not_found", "conflict", "branch_deleting", "branch_reaping"],
  },
  protect: {
    summary: "Protects a branch from being destroyed or reaped, or stops protecting it.",
    fields: { ...ON_BRANCH, on: required(FLAG, "whether it is protected from now on") },
    answer: { ...OF_BRANCH, protected: "whether it is protected" },
    errors: ["not_found", "conflict", "branch_deleting", "branch_reaping"],
  },
  export: {
    summary: "Writes a branch or checkpoint to an SQLite file; a live session is flushed first.",
    fields: {
      ...ON_BRANCH,
      checkpoint: optional(CHECKPOINT, "this checkpoint instead of the head"),
      path: required(PATH, "the file to write"),
      force: optional(FLAG, "replace an existing file"),
    },
    answer: { path: "the file", txid: "the transaction it holds", size_bytes: "its size" },
    errors: ["not_found", "already_exists", "session_failed", "fenced", "capture_failed"],
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
      a: "the first address",
      b: "the second address",
      identical: "whether they hold the same",
      pages_changed: "pages that differ",
      tables:
        "one object per table that differs: `table`, `change`, `rows_added`, `rows_removed`, `rows_changed`, `rows`",
    },
    errors: ["not_found", "session_failed", "fenced", "capture_failed"],
  },
  verify: {
    summary: "Reads every stored byte of a branch through its checksums and runs SQLite's integrity check.",
    fields: { ...ON_BRANCH, checkpoint: optional(CHECKPOINT, "this checkpoint instead of the head") },
    answer: {
      ...OF_BRANCH,
      txid: "the transaction that was verified",
      intact: "whether no problem was found",
      objects: "objects that were read",
      pages: "pages of the database",
      problems: "array of what was found",
    },
    errors: ["not_found", "session_failed", "fenced", "capture_failed"],
  },
  lease: {
    summary: "Tells who holds a branch.",
    fields: ON_BRANCH,
    answer: {
      ...OF_BRANCH,
      epoch: "epoch of the last lease",
      holder: "who holds it; absent: nobody",
      expires_at: "ISO 8601 UTC; absent: nobody holds it",
      live: "whether the lease has not expired",
    },
    errors: ["not_found"],
  },
  gc: {
    summary:
      "Runs one pass of garbage collection: what no branch reaches is marked, and deleted after its grace period.",
    fields: {
      grace_ms: optional(GRACE, "how long such an object is kept; the daemon's -gc-grace when absent"),
      dry_run: optional(FLAG, "say what would be done and change nothing"),
    },
    answer: {
      marked: "objects that branches reach",
      tombstoned: "objects newly found to be unreachable",
      deleted: "objects deleted",
      backlog: "unreachable objects inside their grace period",
      kept: "unreached objects that are left alone",
      bytes_deleted: "bytes deleted",
      undeleted: "objects that could not be deleted this time",
      withdrawn: "array of `{db, branch}`: branches removed because their maker died before it could take them back",
    },
    errors: ["conflict", "gc_failed"],
  },
  shutdown: {
    summary: "Stops the daemon as SIGTERM does. The connection ends when every session has been flushed and closed.",
    fields: {},
    answer: { sessions: "sessions that are being closed" },
    errors: [],
  },
  subscribe: {
    summary: "Turns the connection into a stream of events, one JSON object per line, until it is closed.",
    fields: {},
    answer: {},
    errors: [],
  },
};

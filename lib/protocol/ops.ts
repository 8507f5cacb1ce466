/**
 * The one table of operations: what each takes, answers and may fail with.
 *
 * Requests are checked against it, the reference in docs/protocol.md is written
 * from it, and the compiler holds it to the types in messages.ts: a field that is
 * missing here, or documented nowhere, does not compile.
 *
 * @module
 */

import * as v from "valibot";
import { type ErrorCode, hasCode, TaskdError } from "../errors.ts";
import { formatAddress, parseAddress, parseName } from "../store/names.ts";
import type { OpAnswer, OpArgs, OpName } from "./messages.ts";

/** The longest file path a request may name, in UTF-16 units; Linux allows 4096 bytes with the final NUL. */
export const MAX_PATH_LENGTH = 4095;
/** The longest note of a checkpoint, in UTF-16 units. */
export const MAX_NOTE_LENGTH = 4096;
/** The most rows of a table that a diff shows. */
export const MAX_DIFF_ROWS = 10_000;
/** The most tables that a diff can be narrowed to. */
export const MAX_DIFF_TABLES = 1000;
/** The longest time to live: a hundred years, so that stamps stay within what dates can say. */
export const MAX_TTL_MS = 100 * 366 * 86_400_000;

/** One field of a request. */
export interface Field<T> {
  schema: v.GenericSchema<unknown, T>;
  required: boolean;
  /** Its type for people. */
  type: string;
  doc: string;
}

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

interface Kind<T> {
  schema: v.GenericSchema<unknown, T>;
  type: string;
}

/** A string that one of the parsers of names.ts accepts; its error keeps its code and hint. */
function parsed(type: string, parse: (text: string) => string): Kind<string> {
  return { type, schema: v.pipe(v.unknown(), v.string("must be a string"), v.transform(parse)) };
}

function integer(type: string, min: number, max: number): Kind<number> {
  const wrong = `must be an integer from ${min} to ${max}`;
  return {
    type,
    schema: v.pipe(
      v.unknown(),
      v.number(wrong),
      v.safeInteger(wrong),
      v.minValue(min, wrong),
      v.maxValue(max, wrong),
    ),
  };
}

function text(type: string, max_length: number): v.GenericSchema<unknown, string> {
  return v.pipe(
    v.unknown(),
    v.string("must be a string"),
    v.maxLength(max_length, `must have at most ${max_length} characters`),
    v.check((value) => !value.includes("\0"), `must be ${type} without NUL characters`),
  );
}

const DATABASE = parsed("name", (name) => parseName(name, "database"));
const BRANCH = parsed("name", (name) => parseName(name, "branch"));
const CHECKPOINT = parsed("name", (name) => parseName(name, "checkpoint"));
const ADDRESS = parsed("address", (address) => formatAddress(parseAddress(address)));
const NOTE: Kind<string> = { type: "string", schema: text("text", MAX_NOTE_LENGTH) };
const FLAG: Kind<boolean> = { type: "boolean", schema: v.pipe(v.unknown(), v.boolean("must be true or false")) };
const PATH: Kind<string> = {
  type: "absolute path",
  schema: v.pipe(text("a path", MAX_PATH_LENGTH), v.startsWith("/", "must be an absolute path")),
};
const TTL = integer("integer, ms", 1, MAX_TTL_MS);
const TTL_OR_NULL: Kind<number | null> = {
  type: "integer, ms, or null",
  schema: v.pipe(v.unknown(), v.union([v.null(), TTL.schema], `must be null or an integer from 1 to ${MAX_TTL_MS}`)),
};
const TABLES: Kind<string[]> = {
  type: "array of strings",
  schema: v.pipe(
    v.unknown(),
    v.array(text("a table name", MAX_NOTE_LENGTH), "must be an array of strings"),
    v.maxLength(MAX_DIFF_TABLES, `must have at most ${MAX_DIFF_TABLES} entries`),
  ),
};

function required<T>(kind: Kind<T>, doc: string): Field<T> {
  return { ...kind, required: true, doc };
}

function optional<T>(kind: Kind<T>, doc: string): Field<T> {
  return { ...kind, required: false, doc };
}

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
    errors: [...REPOINT_ERRORS, "session_failed", "fenced", "capture_failed"],
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
      rows: optional(integer("integer", 0, MAX_DIFF_ROWS), "how many differing rows of each table to show"),
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

/** Whether `name` is an operation. */
export function isOpName(name: string): name is OpName {
  return Object.hasOwn(OPS, name);
}

/**
 * Checks the fields of a request to `op`: all that are required, none unknown, each of its type.
 *
 * @throws {TaskdError} `invalid_request` or `invalid_name`, naming the field.
 */
export function parseArgs<O extends OpName>(op: O, given: Readonly<Record<string, unknown>>): OpArgs<O> {
  const fields = OPS[op].fields as Readonly<Record<string, Field<unknown>>>;
  const hint = `Fields of ${op}: ${Object.keys(fields).join(", ") || "none"}`;
  const args: Record<string, unknown> = {};
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(fields, name)) {
      throw new TaskdError("invalid_request", `Cannot run ${op}: unknown field ${JSON.stringify(name.slice(0, 100))}`, {
        hint,
      });
    }
  }
  for (const [name, field] of Object.entries(fields)) {
    if (Object.hasOwn(given, name)) args[name] = parseField(op, name, field, given[name]);
    else if (field.required) {
      throw new TaskdError("invalid_request", `Cannot run ${op}: missing field "${name}"`, { hint });
    }
  }
  return args as OpArgs<O>;
}

function parseField(op: OpName, name: string, field: Field<unknown>, value: unknown): unknown {
  try {
    const result = v.safeParse(field.schema, value, { abortEarly: true, abortPipeEarly: true });
    if (result.success) return result.output;
    const message = `Cannot run ${op}: field "${name}" ${result.issues[0].message}`;
    throw new TaskdError("invalid_request", message, { hint: `"${name}" is ${field.doc} (${field.type})` });
  } catch (error) {
    if (!hasCode(error, "invalid_name")) throw error;
    const hint = error.hint === undefined ? {} : { hint: error.hint };
    throw new TaskdError("invalid_name", `Cannot run ${op}: field "${name}": ${error.message}`, hint);
  }
}

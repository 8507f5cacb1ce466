/**
 * What goes over the daemon's socket, as types: one request and one answer for
 * each operation, and the events of a subscription. Nothing here exists at run
 * time, so a client that imports it loads nothing.
 *
 * @module
 */

import type { ErrorCode } from "../errors.ts";
import type { Txid } from "../store/names.ts";
import type {
  BranchInfo,
  BranchStatus,
  CheckoutResult,
  CheckpointResult,
  CompactResult,
  CreateResult,
  DatabaseInfo,
  DiffResult,
  FlushResult,
  ForkResult,
  RepointResult,
  SessionStatus,
  VerifyResult,
} from "../store/results.ts";

/** A branch of a database; without `branch` it is `main`. */
export interface BranchArgs {
  db: string;
  branch?: string;
}

/** What rollback and promote accept. */
export interface RepointArgs extends BranchArgs {
  /** Copy the whole database instead of pointing into a parent's chain. */
  materialize?: boolean;
  /** Keep what was there before as a branch; true unless told otherwise. */
  safety?: boolean;
  /** Milliseconds that the safety branch lives. */
  safety_ttl_ms?: number;
  /** Close a live session of the branch that changes, do it, and open the session again. */
  reopen?: boolean;
}

/** A session as `status` lists it; while it is being opened, most is not known yet. */
export interface SessionInfo extends Partial<Omit<SessionStatus, "db" | "branch" | "state">> {
  db: string;
  branch: string;
  state: SessionStatus["state"];
}

/** Answer of verify; `intact` is the library's `ok`, which on the wire says that the request worked. */
export interface VerifyAnswer extends Omit<VerifyResult, "ok"> {
  intact: boolean;
}

/** Answer of rollback and promote. */
export interface RepointAnswer extends RepointResult {
  /** Present after `reopen`. */
  session?: OpenAnswer;
}

/** Answer of open. */
export interface OpenAnswer {
  db: string;
  branch: string;
  /** Absolute path of the SQLite file that the application opens. */
  checkout: string;
  txid: Txid;
  epoch: number;
  holder: string;
}

/** Answer of close. */
export interface CloseAnswer {
  db: string;
  branch: string;
  /** The last durable transaction, unless the session had failed. */
  txid?: Txid;
  /** Why the session had failed: what it had not made durable is still in the checkout. */
  error?: { code: string; message: string };
}

/** Answer of status. */
export interface StatusAnswer {
  /** Open sessions, of the named database or branch where one is named. */
  sessions: SessionInfo[];
  /** The branch in depth, where one is named. */
  branch?: BranchStatus;
  /** Where the store is. */
  store: string;
  /** The SQLite library of the daemon. */
  sqlite_version: string;
  /** The daemon's process. */
  pid: number;
}

/** Answer of lease. */
export interface LeaseAnswer {
  db: string;
  branch: string;
  epoch: number;
  holder?: string;
  /** ISO 8601 UTC. */
  expires_at?: string;
  live: boolean;
}

/** Every operation: what it takes and what it answers. */
export interface OpTypes {
  create: { args: { db: string; from?: string }; answer: CreateResult };
  open: { args: BranchArgs; answer: OpenAnswer };
  flush: { args: BranchArgs; answer: FlushResult };
  close: { args: BranchArgs; answer: CloseAnswer };
  status: { args: { db?: string; branch?: string }; answer: StatusAnswer };
  branches: { args: { db?: string }; answer: { branches: BranchInfo[] } };
  databases: { args: Record<never, never>; answer: { databases: DatabaseInfo[] } };
  checkpoint: { args: BranchArgs & { name: string; note?: string }; answer: CheckpointResult };
  checkout: { args: BranchArgs & { force?: boolean }; answer: CheckoutResult };
  "checkout-at": { args: BranchArgs & { checkpoint: string }; answer: CheckoutResult };
  fork: {
    args: BranchArgs & { new_branch: string; at?: string; ttl_ms?: number; materialize?: boolean };
    answer: ForkResult;
  };
  rollback: { args: RepointArgs & { to: string }; answer: RepointAnswer };
  promote: { args: RepointArgs & { onto: string }; answer: RepointAnswer };
  compact: { args: BranchArgs; answer: CompactResult };
  destroy: { args: { db: string; branch: string; force?: boolean }; answer: { db: string; branch: string } };
  touch: {
    args: BranchArgs & { ttl_ms?: number | null };
    answer: { db: string; branch: string; touched_at: string; ttl_ms?: number };
  };
  protect: { args: BranchArgs & { on: boolean }; answer: { db: string; branch: string; protected: boolean } };
  export: {
    args: BranchArgs & { checkpoint?: string; path: string; force?: boolean };
    answer: { path: string; txid: Txid; size_bytes: number };
  };
  diff: { args: { a: string; b: string; tables?: string[]; rows?: number }; answer: DiffResult };
  verify: { args: BranchArgs & { checkpoint?: string }; answer: VerifyAnswer };
  lease: { args: BranchArgs; answer: LeaseAnswer };
  shutdown: { args: Record<never, never>; answer: { sessions: number } };
  subscribe: { args: Record<never, never>; answer: Record<never, never> };
}

/** The name of an operation. */
export type OpName = keyof OpTypes;
/** What operation `O` takes. */
export type OpArgs<O extends OpName> = OpTypes[O]["args"];
/** What operation `O` answers. */
export type OpAnswer<O extends OpName> = OpTypes[O]["answer"];

/** What a client may put beside `op` to find the answer again. */
export type RequestId = string | number;

/** A failure as it stands on the wire. */
export interface FailureMessage {
  ok: false;
  id?: RequestId;
  code: ErrorCode;
  error: string;
  hint?: string;
}

/** Details of each event type. */
export interface EventDetails {
  session_opened: { holder: string; epoch: number };
  flushed: { kind: "auto" | "manual"; txid: number; duration_seconds: number };
  flush_failed: { kind: "auto" | "manual"; code: string; error: string; duration_seconds: number };
  fenced: { cause: string };
  session_closed: { error?: string };
  reaped: { txid: number; ttl_seconds: number };
  evicted: { checkpoint: string; bytes: number };
  dropped_slow_consumer: Record<never, never>;
}

/** The type of an event. */
export type EventType = keyof EventDetails;

/** One event; `db` and `branch` are empty in `dropped_slow_consumer`. */
export type DaemonEvent = {
  [T in EventType]: {
    v: 1;
    /** ISO 8601 UTC. */
    ts: string;
    type: T;
    db: string;
    branch: string;
    detail: EventDetails[T];
  };
}[EventType];

/**
 * What goes over the daemon's socket, as types: one request and one answer for
 * each operation, and the events of a subscription. Nothing here exists at run
 * time, so a client that imports it loads nothing.
 */

import type { GcResult } from "../store/gc.ts";
import type { ErrorCode } from "../errors.ts";
import type { BranchName, Txid } from "../store/names.ts";
import type { BranchInfo, BranchStatus, ConditionInfo, DatabaseInfo, LeftOut, Recovery } from "../store/results.ts";
import type { SessionStatus, UndoableEntry } from "../store/results.ts";
import type { DestroyOptions, DiffOptions, DiffRowsOptions, ForkOptions, LongOptions } from "../store/results.ts";
import type { PromoteOptions, RepointOptions, TouchOptions, UndoOptions, WaitOptions } from "../store/results.ts";
import type { AuditResult, CheckoutResult, CheckpointResult, CompactResult, CreateResult } from "../store/results.ts";
import type { DestroyResult, DiffResult, FlushResult, ForkResult, RepairResult } from "../store/results.ts";
import type { LogResult, MergeInfo, RepointResult, TouchResult, UndoResult, VerifyResult } from "../store/results.ts";
import type { MergeBranchesOptions, MergeBranchesResult } from "../capture/merge.ts";
import type { MergeSide, Resolution } from "../merge/conflicts.ts";
import type { RowPage } from "../sqlite/diff_result.ts";
import type { ExportResult, LeaseInfo, LogOptions } from "../store/store.ts";

/** What merge and revert accept. */
export interface MergeArgs extends Pick<MergeBranchesOptions, "wait_ms"> {
  /** Find conflicts and count, and change nothing. */
  check?: boolean;
  /** Decides every conflict of two values. */
  prefer?: MergeSide;
  /** Decide single conflicts, before `prefer`. */
  resolutions?: Resolution[];
}

/** Two addresses that are compared. */
export interface ComparedArgs {
  /** The first. */
  a: string;
  /** The second. */
  b: string;
}

/** A branch of a database; without `branch` it is `main`. */
export interface BranchArgs {
  /** Database name. */
  db: string;
  /** Branch name; `main` when absent. */
  branch?: string;
}

/** What rollback and promote accept. */
export interface RepointArgs extends BranchArgs, Omit<RepointOptions, keyof LongOptions | "refuse_in_use"> {
  /** Close a live session of the branch that changes, do it, and open the session again. */
  reopen?: boolean;
}

/** A session as `status` lists it; while it is being opened, most is not known yet. */
export interface SessionInfo extends Partial<Omit<SessionStatus, "db" | "branch" | "state">>, BranchName {
  /** State of the session. */
  state: SessionStatus["state"];
}

/** Answer of verify; `intact` is the library's `ok`, which in an answer means that the request succeeded. */
export interface VerifyAnswer extends Omit<VerifyResult, "ok"> {
  /** Whether nothing was found. */
  intact: boolean;
}

/** Answer of verify-all; `intact` as in {@linkcode VerifyAnswer}. */
export interface AuditAnswer extends Omit<AuditResult, "ok" | "branches"> {
  /** Whether nothing was found. */
  intact: boolean;
  /** Every branch. */
  branches: VerifyAnswer[];
}

/** Answer of rollback and promote. */
export interface RepointAnswer extends RepointResult {
  /** Present after `reopen`. */
  session?: OpenAnswer;
}

/** Answer of open. */
export interface OpenAnswer extends BranchName {
  /** Absolute path of the SQLite file that the application opens. */
  checkout: string;
  /** Durable head. */
  txid: Txid;
  /** Epoch that its writes carry. */
  epoch: number;
  /** Who holds the lease. */
  holder: string;
  /** What became of a checkout that was not known to be the head. */
  recovery?: Recovery;
}

/** Answer of close. */
export interface CloseAnswer extends BranchName {
  /** The last durable transaction, unless the session had failed. */
  txid?: Txid;
  /** Why the session had failed: what it had not made durable is still in the checkout. */
  error?: { code: string; message: string };
  /** Programs that have the file open, as far as the system lists them: what they commit now is captured by no one. */
  open_in?: string[];
}

/** Answer of status. */
export interface StatusAnswer {
  /** Open sessions, of the named database or branch where one is named. */
  sessions: SessionInfo[];
  /** The branch in depth, where one is named. */
  branch?: BranchStatus;
  /** The branches, where they are asked for. */
  branches?: BranchInfo[];
  /** Bytes of the read-only cache, where they are asked for. */
  ro_cache_bytes?: number;
  /** With the branches: what is known of damage. */
  condition?: ConditionInfo;
  /** Where the store is. */
  store: string;
  /** The SQLite library that does the work. */
  sqlite_version: string;
  /** The process that answers. */
  pid: number;
}

/** Every operation: what it takes and what it answers. */
export interface OpTypes {
  /** Makes a database with its branch `main`. */
  create: { args: { db: string; from?: string; force?: boolean }; answer: CreateResult };
  /** Opens a session on a branch. */
  open: { args: BranchArgs; answer: OpenAnswer };
  /** Makes everything committed so far durable. */
  flush: { args: BranchArgs; answer: FlushResult };
  /** Flushes and closes a session. */
  close: { args: BranchArgs; answer: CloseAnswer };
  /** Lists open sessions; describes a branch. */
  status: { args: { db?: string; branch?: string; branches?: boolean; ro_cache?: boolean }; answer: StatusAnswer };
  /** Lists branches. */
  branches: { args: { db?: string }; answer: { branches: BranchInfo[] } };
  /** Lists databases. */
  databases: { args: Record<never, never>; answer: { databases: DatabaseInfo[] } };
  /** Names the present content of a branch. */
  checkpoint: { args: BranchArgs & { name: string; note?: string }; answer: CheckpointResult };
  /** Puts a branch into its writable checkout. */
  checkout: { args: BranchArgs & WaitOptions & { force?: boolean }; answer: CheckoutResult };
  /** Materializes a checkpoint or another point, read-only. */
  "checkout-at": { args: BranchArgs & { checkpoint: string }; answer: CheckoutResult };
  /** Makes a branch that begins at another's head or an earlier point. */
  fork: {
    args: BranchArgs & Omit<ForkOptions, keyof LongOptions> & { new_branch: string; at?: string };
    answer: ForkResult;
  };
  /** Makes an earlier point the head of its branch. */
  rollback: { args: RepointArgs & { to: string }; answer: RepointAnswer };
  /** Makes the head of one branch the head of another. */
  promote: {
    args: RepointArgs & { onto: string } & Pick<PromoteOptions, "expected" | "expected_onto" | "refuse_in_use">;
    answer: RepointAnswer & LeftOut;
  };
  /** Brings what one branch changed into another, which went on meanwhile. */
  merge: {
    args: BranchArgs & MergeArgs & { checkpoint?: string; into: string; expected?: string; forked_at?: string };
    answer: MergeBranchesResult;
  };
  /** Takes a merge back, and leaves what came since. */
  revert: { args: BranchArgs & MergeArgs & { merge?: string }; answer: MergeBranchesResult };
  /** Lists the merges into a branch. */
  merges: { args: BranchArgs; answer: { merges: MergeInfo[] } };
  /** Lists the points of a branch. */
  log: { args: BranchArgs & LogOptions; answer: LogResult };
  /** Makes a branch hold what the branch holds that it was forked from. */
  reset: { args: RepointArgs; answer: RepointAnswer & LeftOut & { parent: string } };
  /** Rewrites a branch as one snapshot. */
  compact: { args: BranchArgs; answer: CompactResult };
  /** Removes a branch. */
  destroy: { args: BranchName & DestroyOptions; answer: DestroyResult };
  /** Takes back the last destroy, rollback or promote of a branch. */
  undo: { args: RepointArgs & Pick<UndoOptions, "expected">; answer: UndoResult & Pick<RepointAnswer, "session"> };
  /** Lists what undo can take back. */
  undoable: { args: BranchArgs; answer: { entries: UndoableEntry[] } };
  /** Restarts a branch's time to live, or changes it. */
  touch: { args: BranchArgs & TouchOptions; answer: TouchResult };
  /** Protects a branch, or stops protecting it. */
  protect: { args: BranchArgs & { on: boolean }; answer: BranchName & { protected: boolean } };
  /** Writes a branch or checkpoint to a file. */
  export: {
    args: BranchArgs & WaitOptions & { checkpoint?: string; path: string; force?: boolean };
    answer: ExportResult;
  };
  /** Compares two branches or checkpoints. */
  diff: { args: ComparedArgs & DiffOptions; answer: DiffResult };
  /** Reads the differing rows of a table. */
  "diff-rows": { args: ComparedArgs & { table: string } & DiffRowsOptions; answer: RowPage };
  /** Proves that a branch can be restored. */
  verify: { args: BranchArgs & { checkpoint?: string; fast?: boolean }; answer: VerifyAnswer };
  /** Proves all that the store holds. */
  "verify-all": { args: { fast?: boolean }; answer: AuditAnswer };
  /** Brings back what is damaged. */
  repair: { args: Partial<BranchArgs> & { from?: string; dry_run?: boolean }; answer: RepairResult };
  /** Names the holder of a branch. */
  lease: { args: BranchArgs; answer: LeaseInfo };
  /** Collects garbage now. */
  gc: { args: { grace_ms?: number; keep?: string; dry_run?: boolean }; answer: GcResult };
  /** Stops the daemon. */
  shutdown: { args: Record<never, never>; answer: { sessions: number } };
  /** Turns the connection into a stream of events. */
  subscribe: { args: { more?: boolean }; answer: Record<never, never> };
}

/** The name of an operation. */
export type OpName = keyof OpTypes;
/** Operations that answer once; `subscribe` is the transport's own. */
export type CallableOp = Exclude<OpName, "subscribe">;
/** What operation `O` takes. */
export type OpArgs<O extends OpName> = OpTypes[O]["args"];
/** What operation `O` answers. */
export type OpAnswer<O extends OpName> = OpTypes[O]["answer"];

/** What a client may put beside `op` to find the answer again. */
export type RequestId = string | number;

/** A failure as it is sent: a {@linkcode TaskdError}, and the request's id. */
export interface FailureMessage {
  ok: false;
  id?: RequestId;
  code: ErrorCode;
  error: string;
  hint?: string;
}

/** Details of each event type. */
export interface EventDetails {
  /** A session opened. */
  session_opened: { holder: string; epoch: number };
  /** A flush succeeded. */
  flushed: { kind: "auto" | "manual"; txid: number; duration_seconds: number };
  /** A flush failed. */
  flush_failed: { kind: "auto" | "manual"; code: string; error: string; duration_seconds: number };
  /** A session's lease was taken. */
  fenced: { cause: string };
  /** A session closed. */
  session_closed: { error?: string };
  /** An expired branch was destroyed. */
  reaped: { txid: number; ttl_seconds: number };
  /** An entry of the read-only cache was evicted. */
  evicted: { checkpoint: string; bytes: number };
  /** The subscriber did not keep up; the stream ends. */
  dropped_slow_consumer: Record<never, never>;
}

/** Details of the further types, which only a subscriber that asks for `more` gets. */
export interface MoreEventDetails {
  /** A merge or a revert has changed a branch. */
  merged: { from: string; merge: string; rows: number; locked_ms: number; reverts?: true };
  /** A session that had been paused beyond its lease took it again: no other holder had. */
  lease_retaken: { holder: string; epoch: number; late_seconds: number };
}

/** The type of an event. */
export type EventType = keyof EventDetails;
/** The type of an event for who asks for `more`. */
export type AnyEventType = EventType | keyof MoreEventDetails;

/** An event of any type of `D`, a table of details by type. */
export type EventOf<D> = {
  [T in keyof D]: {
    v: 1;
    /** ISO 8601 UTC. */
    ts: string;
    type: T;
    db: string;
    branch: string;
    detail: D[T];
  };
}[keyof D];

/** One event; `db` and `branch` are empty in `dropped_slow_consumer`. */
export type DaemonEvent = EventOf<EventDetails>;
/** One event for who asks for `more`; `db` and `branch` are empty in one that is about no branch. */
export type AnyDaemonEvent = DaemonEvent | EventOf<MoreEventDetails>;

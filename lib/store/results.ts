/**
 * What the store's operations take and answer: plain JSON-ready values, the same
 * in the library, on the socket and under `--json`. Field names end in their unit.
 */

import type { DatabaseDiff } from "../sqlite/diff_result.ts";
import type { BranchName, Txid } from "./names.ts";

export type { DiffOptions, DiffRowsOptions } from "../sqlite/diff_result.ts";

/** A branch's storage mode. */
export type StorageMode = "shared" | "materialized";

/** How a fork moved bytes: `fast` copies or shares whole objects, `slow` re-encodes. */
export type CopyPath = "fast" | "slow";

/** The six computed states, most to least specific. */
export const BRANCH_STATES = ["error", "pending", "active", "dirty", "detached", "idle"] as const;
/** A computed branch state; never stored. */
export type BranchState = typeof BRANCH_STATES[number];

/** What an object of a chain is. */
export type ObjectKind = "snapshot" | "segment";

/** Progress of long work, called with the bytes done and, where known, in all. */
export type OnProgress = (done_bytes: number, total_bytes: number | undefined) => void;

/** What every long operation accepts. */
export interface LongOptions {
  /** Receives progress. */
  onProgress?: OnProgress;
  /** Ends the work early; the store stays as it was. */
  signal?: AbortSignal | undefined;
}

/** What an operation accepts that replaces or removes a branch's file. */
export interface WaitOptions {
  /** Milliseconds that it waits for an application to close the file, at most ten minutes; default none. */
  wait_ms?: number;
}

/** When a branch expires. */
export interface Lifetime {
  /** ISO 8601 UTC. */
  touched_at: string;
  /** Milliseconds after the last touch at which it expires; absent means never. */
  ttl_ms?: number;
}

/** What fork accepts. */
export interface ForkOptions extends LongOptions {
  /** Milliseconds after its last touch at which the new branch expires; never when absent. */
  ttl_ms?: number;
  /** Copy in full instead of sharing. */
  materialize?: boolean;
}

/** What touch accepts. */
export interface TouchOptions {
  /** The time to live from now on, in milliseconds; null: the branch never expires; absent: as before. */
  ttl_ms?: number | null;
  /** How long its points are kept from now on, such as `1d,1h:7d,1d:30d`; null: as the store's are; absent: as before. */
  keep?: string | null;
}

/** How an operation that takes content away keeps it. */
export interface SafetyOptions {
  /** Keep what was there before, with the checkout's edits, as a branch; default true. */
  safety?: boolean;
  /** Time to live of that branch in milliseconds; default seven days. */
  safety_ttl_ms?: number;
}

/** What rollback and promote accept. */
export interface RepointOptions extends SafetyOptions, WaitOptions, LongOptions {
  /** Copy in full instead of sharing. */
  materialize?: boolean;
  /**
   * Have the checkout follow: `busy` when an application has it open, and edits are left to the safety branch. By default
   * the branch moves and the file stays.
   */
  refuse_in_use?: boolean;
}

/** What promote accepts. */
export interface PromoteOptions extends RepointOptions {
  /** Where the source has to stand, as `<lineage>/<txid>`; `conflict` when it stands elsewhere. */
  expected?: string;
  /** Where the branch that changes has to stand, likewise. */
  expected_onto?: string;
}

/** What destroy accepts. */
export interface DestroyOptions extends SafetyOptions, WaitOptions {
  /** Also when it is protected. */
  force?: boolean;
  /** Also `main`, a protected branch, and one whose checkout has edits that are not in the store. */
  confirm?: boolean;
}

/** Answer of destroy. */
export interface DestroyResult extends BranchName {
  /** The branch that keeps what it held, unless that was declined or it was such a branch itself. */
  safety_branch?: string;
}

/** Answer of create. */
export interface CreateResult extends BranchName {
  /** Head of the new branch. */
  txid: Txid;
  /** Bytes of the database image. */
  size_bytes: number;
  /** Bytes that it takes in the store. */
  stored_bytes: number;
}

/** What undo accepts. */
export interface UndoOptions extends RepointOptions {
  /** The branch that keeps what is to come back, as the list names it; `conflict` when another is newer. */
  expected?: string;
}

/** An operation that undo can take back. */
export interface UndoableEntry {
  /** `destroy`, `rollback`, `promote`, `repair` or `merge`. */
  op: string;
  /** When it was done; ISO 8601 UTC. */
  at: string;
  /** The branch that keeps what was there before; absent of a merge, which is taken out of what is there. */
  safety_branch?: string;
  /** Head of that branch; of a merge where the branch stood with it. */
  txid: Txid;
  /** The merge. */
  merge?: string;
  /** When that branch expires; ISO 8601 UTC; absent: never. */
  expires_at?: string;
}

/** What checkout accepts. */
export interface CheckoutOptions extends WaitOptions, LongOptions {
  /** Drop edits that are not in the store. */
  force?: boolean;
}

/** Answer of checkout. */
export interface CheckoutResult extends BranchName {
  /** The named checkpoint, for a read-only checkout. */
  checkpoint?: string;
  /** Absolute path of the SQLite file. */
  path: string;
  /** Transaction of the file's content. */
  txid: Txid;
  /** Whether the file is an immutable checkpoint. */
  read_only: boolean;
  /** `kept`: was there and clean; `cached`: cloned from the cache; `materialized`: built from the store. */
  source: "kept" | "cached" | "materialized";
}

/** A merge into a branch. */
export interface MergeInfo {
  /** Names it for a revert. */
  merge: string;
  /** ISO 8601 UTC. */
  at: string;
  /** The address that was merged, or whose merge was taken back. */
  from: string;
  /** The transaction at which the branch stood with it. */
  txid: Txid;
  /** Whether it is not taken back. */
  in_force: boolean;
  /** The merge that it took back. */
  reverts?: string;
}

/** Answer of checkpoint. */
export interface CheckpointResult extends BranchName {
  /** Checkpoint name. */
  checkpoint: string;
  /** Transaction the checkpoint names. */
  txid: Txid;
  /** Kind of the object that ends at `txid`. */
  kind: ObjectKind;
  /** Pages written; 0 when nothing had changed. */
  pages: number;
  /** Bytes written to the store; 0 when nothing had changed. */
  stored_bytes: number;
  /** Present when the store's head, read after the commit, may not be what was written; the reason is in the log. */
  overwrite_detected?: true;
}

/** Answer of fork. */
export interface ForkResult extends BranchName, LeftOut {
  /** Transaction the fork begins at. */
  txid: Txid;
  /** How the branch keeps its storage from now on. */
  mode: StorageMode;
  /** How its bytes were moved. */
  path: CopyPath;
}

/** Answer of rollback and promote. */
export interface RepointResult extends BranchName {
  /** New head of the branch. */
  txid: Txid;
  /** How the branch keeps its storage from now on. */
  mode: StorageMode;
  /** The branch that keeps what was there before, unless it was declined. */
  safety_branch?: string;
  /** False when a writable checkout still has the old content: it is `detached` until the next checkout. */
  checkout_refreshed: boolean;
  /** Why it has. */
  checkout_problem?: string;
}

/** Answer of undo; `safety_branch` keeps what the operation had put there. */
export interface UndoResult extends RepointResult {
  /** The operation that was taken back. */
  undone: string;
  /** When it had been done; ISO 8601 UTC. */
  undone_at: string;
}

/** Answer of compact. */
export interface CompactResult extends BranchName {
  /** Transaction of the one snapshot that is left. */
  txid: Txid;
  /** Objects the chain had before. */
  objects_before: number;
  /** Bytes written to the store. */
  stored_bytes: number;
}

/** A named point of a branch. */
export interface CheckpointInfo {
  /** Checkpoint name. */
  name: string;
  /** Transaction it names. */
  txid: Txid;
  /** Kind of the object that ends there. */
  kind: ObjectKind;
  /** ISO 8601 UTC. */
  created_at: string;
  /** Free text of the person who made it. */
  note?: string;
}

/** One branch as `branches` lists it. */
export interface BranchInfo extends Lifetime, BranchName {
  /** Computed at the moment of the call. */
  state: BranchState;
  /** Why, for state `error`. */
  error?: string;
  /** True when the branch holds a base pointer into a parent's chain. */
  shared: boolean;
  /** Durable head. */
  txid: Txid;
  /** Fencing epoch; every lease taken raises it. */
  epoch: number;
  /** Named points. */
  checkpoints: CheckpointInfo[];
  /** Whether destroying it needs force. */
  protected: boolean;
  /** Who holds the live lease. */
  holder?: string;
  /** Why its stored content cannot be read, when it cannot. */
  problem?: string;
  /** The writable checkout, when there is one. */
  checkout?: string;
}

/** Answer of status: a branch in more depth. */
export interface BranchStatus extends BranchInfo {
  /** Storage mode. */
  storage: StorageMode;
  /** Identity of its current chain: 128 random bits in hex. */
  lineage: string;
  /** Segments past the newest snapshot of its chain. */
  depth: number;
  /** Bytes of the stored objects its chain resolves through. */
  chain_bytes: number;
  /** Of those, bytes in the branch's own lineage. */
  own_bytes: number;
  /** How long its points are kept, such as `1d,1h:7d,1d:30d`; absent: as the store's are. */
  keep?: string;
  /** Points of its past that are there; absent where they were not to be counted. */
  history_points?: number;
  /** Bytes of the stored objects that they need, and neither the head nor a checkpoint. */
  history_bytes?: number;
}

/** What the kept points of a branch's past cost. */
export interface HistoryCost extends BranchName {
  /** Points that are kept beside the head. */
  points: number;
  /** Bytes of the stored objects that they alone need. */
  bytes: number;
}

/** What folding of the past has done. */
export interface FoldResult {
  /** Points that have objects of their own now. */
  folded: number;
  /** Points that are kept no more, and that no log has any longer. */
  pruned: number;
  /** Bytes read for it. */
  read_bytes: number;
  /** Bytes written. */
  stored_bytes: number;
  /** Branches of which points could not be folded this time, and why. */
  failed: { db: string; branch: string; error: string }[];
}

/** Answer of touch. */
export interface TouchResult extends Lifetime, BranchName {
  /** How long its points are kept, as {@linkcode TouchOptions.keep}; absent: as the store's are. */
  keep?: string;
}

/** One database. */
export interface DatabaseInfo {
  /** Database name. */
  db: string;
  /** Number of its branches. */
  branches: number;
}

/** What an operation says that reads branches' stored content. */
export interface LeftOut {
  /** Branches whose checkout holds edits that are not in the store, and so not in what was read. */
  left_out?: string[];
}

/** Answer of diff. */
export interface DiffResult extends DatabaseDiff, LeftOut {
  /** Address of the first. */
  a: string;
  /** Address of the second. */
  b: string;
  /** Whether both hold the same bytes. */
  identical: boolean;
}

/** Answer of verify. */
export interface VerifyResult extends BranchName {
  /** Head that was verified. */
  txid: Txid;
  /** Whether nothing was found. */
  ok: boolean;
  /** Objects of its chain. */
  objects: number;
  /** Pages of the materialized database. */
  pages: number;
  /** What integrity_check and the checksums found; empty when ok. */
  problems: string[];
  /** The same, each with what to do. */
  findings: Finding[];
}

/** What a {@linkcode Finding} is about. */
export const FINDING_KINDS = [
  "object",
  "gap",
  "point",
  "content",
  "manifest",
  "ref",
  "tombstones",
  "cache",
  "shadow",
  "sidecar",
] as const;

/** Something that is damaged. */
export interface Finding {
  /** What it is. */
  what: typeof FINDING_KINDS[number];
  /** Its key in the store, its path, or the address of a head or checkpoint. */
  where: string;
  /** What is wrong. */
  why: string;
  /** What to do about it. */
  hint: string;
  /** Branches, checkpoints and points of the past that cannot be read because of it; the first twenty. */
  needed_by: string[];
}

/** Answer of a verification of the whole store. */
export interface AuditResult {
  /** Whether nothing was found. */
  ok: boolean;
  /** Objects that were read, each once. */
  objects: number;
  /** Their bytes. */
  bytes: number;
  /** Every branch. */
  branches: VerifyResult[];
  /** Everything that was found. */
  findings: Finding[];
  /** Damaged things that repairs have put below `damaged/`. */
  set_aside: number;
}

/** Answer of scrub: what one slice read. */
export interface ScrubResult {
  /** Objects and cached copies that were read. */
  objects: number;
  /** Their bytes. */
  bytes: number;
  /** What was found damaged for the first time. */
  found: { where: string; why: string }[];
  /** Damaged things that are known. */
  damaged: number;
  /** Whether this slice ended a pass over everything. */
  finished: boolean;
}

/** What is known of a store's condition without reading it. */
export interface ConditionInfo {
  /** Damaged things that scrubbing or a verification has met. */
  damaged: number;
  /** Damaged things that repairs have put below `damaged/`. */
  set_aside: number;
  /** When everything had been read against its checksums last; ISO 8601 UTC. */
  scrubbed_at?: string;
}

/** What repair brought back, or found the means for in a dry run. */
export interface Restored {
  /** What it is. */
  what: typeof FINDING_KINDS[number] | "base";
  /** Its key in the store, or its path. */
  where: string;
  /** What proved itself. */
  from: string;
  /** What it lacks, as far as nothing proved that. */
  lost?: string;
}

/** A branch that lost something that nothing could prove. */
export interface RepairedBranch extends BranchName {
  /** Its head now. */
  txid: Txid;
  /** The branch that keeps what it was, damage and all; absent where objects are missing. */
  safety_branch?: string;
  /** The transactions that are lost to it, and between which times they were made. */
  lost?: { first_txid: Txid; last_txid: Txid; since?: string; until: string };
  /** Checkpoints that are lost to it. */
  lost_checkpoints: string[];
  /** How many points of its past are lost to it; absent for none. */
  lost_points?: number;
}

/** Answer of repair. */
export interface RepairResult {
  /** Nothing was changed. */
  dry_run: boolean;
  /** What is whole again. */
  restored: Restored[];
  /** Branches that lost something. */
  moved: RepairedBranch[];
  /** What is as damaged as before. */
  left: Finding[];
  /** Where everything is that was replaced, below the store. */
  folder: string;
}

/** What an opening did about a checkout that was not known to be its branch's head. */
export interface Recovery {
  /**
   * `resumed`: it goes on from the head; `rebuilt`: the same, and its file was made anew from the head and the log;
   * `adopted`: edits made without a session are taken up as a full copy; `restored`: it had nothing that the store does
   * not have, or could not be read, and the head is put back; `kept_both`: its content and the head differ and neither
   * can be proved to follow the other: one is the branch and the other {@linkcode safety_branch}.
   */
  outcome: "resumed" | "rebuilt" | "adopted" | "restored" | "kept_both";
  /** `<branch>-found`: content of the checkout, the head is the branch; `<branch>-pre-recovery`: the head. */
  safety_branch?: string;
  /** Folder with a copy of the files as they were found. */
  set_aside?: string;
}

/** Answer of a flush. */
export interface FlushResult {
  /** Durable head after the flush. */
  txid: Txid;
  /** Kind of the object written; `none` when nothing was pending. */
  kind: ObjectKind | "none";
  /** Pages written. */
  pages: number;
  /** Bytes written to the store. */
  bytes: number;
}

/** One open session. */
export interface SessionStatus extends BranchName {
  /** State of the session. */
  state: "active" | "pending" | "error";
  /** Absolute path of the captured SQLite file. */
  checkout: string;
  /** Holder of the lease: this session. */
  holder: string;
  /** Epoch that its writes carry. */
  epoch: number;
  /** Head that is durable in the store. */
  durable_txid: Txid;
  /** Seconds since the last successful flush. */
  durable_age_seconds: number;
  /** Committed WAL bytes that are not captured yet. */
  capture_lag_bytes: number;
  /** Size of the -wal file. */
  wal_bytes: number;
  /** Times the session had to start over from a full copy. */
  rebases: number;
  /** Why, for state `error`. */
  error?: { code: string; message: string };
}

/** A point of a branch's past. */
export interface PointInfo {
  /** The transaction; `txid:<txid>` names the point. */
  txid: Txid;
  /** From when on the branch stood there, ISO 8601 UTC; absent of what version 0.1.0 wrote. */
  at?: string;
  /** What brought it there: `flush`, `checkpoint`, `merge`, `rollback` and others. */
  op: string;
  /** The checkpoints there. */
  checkpoints?: string[];
  /** The merge, as `revert` takes it. */
  merge?: string;
  /** The object that ends there. */
  kind: ObjectKind;
  /** Pages of that object. */
  pages: number;
  /** Its bytes. */
  bytes: number;
}

/** Answer of log. */
export interface LogResult extends BranchName {
  /** The points that are kept, the newest first. */
  points: PointInfo[];
  /** Where the next part begins; absent at the end. */
  next?: string;
}

/**
 * What the store's operations take and answer: plain JSON-ready values, the same
 * in the library, on the socket and under `--json`. Field names end in their unit.
 */

import type { TableDiff } from "../sqlite/diff_result.ts";
import type { BranchName, Txid } from "./names.ts";

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
}

/** What rollback and promote accept. */
export interface RepointOptions extends LongOptions {
  /** Copy in full instead of sharing. */
  materialize?: boolean;
  /** Keep the old head as a branch; default true. */
  safety?: boolean;
  /** Time to live of that branch in milliseconds; default seven days. */
  safety_ttl_ms?: number;
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
export interface ForkResult extends BranchName {
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
}

/** Answer of touch. */
export interface TouchResult extends Lifetime, BranchName {
}

/** One database. */
export interface DatabaseInfo {
  /** Database name. */
  db: string;
  /** Number of its branches. */
  branches: number;
}

/** Answer of diff. */
export interface DiffResult {
  /** Address of the first. */
  a: string;
  /** Address of the second. */
  b: string;
  /** Whether both hold the same content. */
  identical: boolean;
  /** Pages that differ. */
  pages_changed: number;
  /** The tables that differ. */
  tables: TableDiff[];
}

/** Answer of verify. */
export interface VerifyResult extends BranchName {
  /** Head that was verified. */
  txid: Txid;
  /** Whether nothing was found. */
  ok: boolean;
  /** Objects whose checksums were read through. */
  objects: number;
  /** Pages of the materialized database. */
  pages: number;
  /** What integrity_check and the checksums found; empty when ok. */
  problems: string[];
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

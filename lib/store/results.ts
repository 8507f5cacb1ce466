/**
 * What the store's operations take and answer: plain JSON-ready values, the same
 * in the library, on the socket and under `--json`. Field names end in their unit.
 *
 * @module
 */

import type { Txid } from "./names.ts";

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
  /** Told how far the work is. */
  onProgress?: OnProgress;
  /** Ends the work early; the store stays as it was. */
  signal?: AbortSignal;
}

/** Answer of create. */
export interface CreateResult {
  db: string;
  branch: string;
  txid: Txid;
  /** Bytes of the database image. */
  size_bytes: number;
  /** Bytes that it takes in the store. */
  stored_bytes: number;
}

/** Answer of checkout. */
export interface CheckoutResult {
  db: string;
  branch: string;
  /** The named checkpoint, for a read-only checkout. */
  checkpoint?: string;
  /** Absolute path of the SQLite file. */
  path: string;
  txid: Txid;
  read_only: boolean;
  /** `kept`: was there and clean; `cached`: cloned from the cache; `materialized`: built from the store. */
  source: "kept" | "cached" | "materialized";
}

/** Answer of checkpoint. */
export interface CheckpointResult {
  db: string;
  branch: string;
  checkpoint: string;
  txid: Txid;
  /** Kind of the object that ends at `txid`. */
  kind: ObjectKind;
  /** Pages written; 0 when nothing had changed. */
  pages: number;
  /** Bytes written to the store; 0 when nothing had changed. */
  stored_bytes: number;
}

/** Answer of fork. */
export interface ForkResult {
  db: string;
  branch: string;
  txid: Txid;
  mode: StorageMode;
  path: CopyPath;
}

/** Answer of rollback and promote. */
export interface RepointResult {
  db: string;
  branch: string;
  txid: Txid;
  mode: StorageMode;
  /** The branch that keeps what was there before, unless it was declined. */
  safety_branch?: string;
  /** Whether a writable checkout was refreshed; false leaves it `detached` until the next checkout. */
  checkout_refreshed: boolean;
}

/** Answer of compact. */
export interface CompactResult {
  db: string;
  branch: string;
  txid: Txid;
  /** Objects the chain had before. */
  objects_before: number;
  stored_bytes: number;
}

/** A named point of a branch. */
export interface CheckpointInfo {
  name: string;
  txid: Txid;
  kind: ObjectKind;
  /** ISO 8601 UTC. */
  created_at: string;
  /** Free text of the person who made it. */
  note?: string;
}

/** One branch as `branches` lists it. */
export interface BranchInfo {
  db: string;
  branch: string;
  state: BranchState;
  /** Why, for state `error`. */
  error?: string;
  /** True when the branch holds a base pointer into a parent's chain. */
  shared: boolean;
  txid: Txid;
  epoch: number;
  checkpoints: CheckpointInfo[];
  protected: boolean;
  /** Milliseconds after the last touch at which it expires; absent means never. */
  ttl_ms?: number;
  /** ISO 8601 UTC. */
  touched_at: string;
  /** Who holds the live lease. */
  holder?: string;
  /** The writable checkout, when there is one. */
  checkout?: string;
}

/** Answer of status: a branch in more depth. */
export interface BranchStatus extends BranchInfo {
  storage: StorageMode;
  lineage: string;
  /** Segments past the newest snapshot of its chain. */
  depth: number;
  /** Bytes of the stored objects its chain resolves through. */
  chain_bytes: number;
  /** Of those, bytes in the branch's own lineage. */
  own_bytes: number;
}

/** One database. */
export interface DatabaseInfo {
  db: string;
  branches: number;
}

/** Row counts of one table's difference. */
export interface TableDiff {
  table: string;
  /** `changed`: rows differ; `schema`: the columns differ, so rows are not compared. */
  change: "added" | "removed" | "changed" | "schema";
  rows_added: number;
  rows_removed: number;
  rows_changed: number;
  /** The first rows, when asked for. */
  rows?: RowDiff[];
}

/** A value as JSON can carry it: integers beyond 2^53 as text, blobs as `{hex, bytes}` cut short. */
export type JsonValue = null | number | string | { hex: string; bytes: number };

/** One differing row. */
export interface RowDiff {
  change: "added" | "removed" | "changed";
  /** Primary key (or rowid) columns. */
  key: Record<string, JsonValue>;
  before?: Record<string, JsonValue>;
  after?: Record<string, JsonValue>;
}

/** Answer of diff. */
export interface DiffResult {
  a: string;
  b: string;
  identical: boolean;
  pages_changed: number;
  tables: TableDiff[];
}

/** Answer of verify. */
export interface VerifyResult {
  db: string;
  branch: string;
  txid: Txid;
  ok: boolean;
  /** Objects whose checksums were read through. */
  objects: number;
  pages: number;
  /** What integrity_check and the checksums found; empty when ok. */
  problems: string[];
}

/** Answer of a flush. */
export interface FlushResult {
  txid: Txid;
  kind: ObjectKind | "none";
  pages: number;
  bytes: number;
}

/** One open session. */
export interface SessionStatus {
  db: string;
  branch: string;
  state: "active" | "pending" | "error";
  checkout: string;
  holder: string;
  epoch: number;
  durable_txid: Txid;
  durable_age_seconds: number;
  capture_lag_bytes: number;
  /** Size of the -wal file. */
  wal_bytes: number;
  /** Times the session had to start over from a full copy. */
  rebases: number;
  error?: { code: string; message: string };
}

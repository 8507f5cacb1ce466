/**
 * What the commands ask for: one interface, answered by the store in this process
 * or by the daemon behind its socket, with the same results.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Address } from "../../lib/store/names.ts";
import type { CloseAnswer, DaemonEvent, LeaseAnswer, OpenAnswer, SessionInfo } from "../../lib/protocol/messages.ts";
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
  LongOptions,
  RepointResult,
  VerifyResult,
} from "../../lib/store/results.ts";
import type { GcResult } from "../../lib/store/gc.ts";
import type { Plan } from "./plan.ts";

/** Where a database file is. */
export interface ExportResult {
  path: string;
  txid: number;
  size_bytes: number;
}

/** Answer of touch. */
export interface TouchResult {
  db: string;
  branch: string;
  /** ISO 8601 UTC. */
  touched_at: string;
  ttl_ms?: number;
}

/** Options of rollback and promote. */
export interface RepointOptions extends LongOptions {
  materialize?: boolean;
  safety?: boolean;
  /** Milliseconds that the safety branch lives; the store's default when absent. */
  safety_ttl_ms?: number;
  /** Close the changed branch's live session first and open it again afterwards; without a daemon there is none. */
  reopen?: boolean;
}

/** Operations that always work on the store, whether a daemon is alive or not. */
export interface StoreOperations {
  create(db: string, options?: { from?: string } & LongOptions): Promise<CreateResult>;
  path(address: Address): Promise<string>;
  export(address: Address, file: string, options?: { force?: boolean } & LongOptions): Promise<ExportResult>;
  verify(address: Address, options?: LongOptions): Promise<VerifyResult>;
  branches(db?: string): Promise<BranchInfo[]>;
}

/** Operations on branches, which go through the daemon when one is alive. */
export interface BranchOperations {
  checkout(address: Address, options?: { force?: boolean } & LongOptions): Promise<CheckoutResult>;
  checkpoint(address: Address, name: string, options?: { note?: string } & LongOptions): Promise<CheckpointResult>;
  fork(
    address: Address,
    branch: string,
    options?: { ttl_ms?: number; materialize?: boolean } & LongOptions,
  ): Promise<ForkResult>;
  rollback(address: Address, options?: RepointOptions): Promise<RepointResult>;
  promote(from: Address, onto: Address, options?: RepointOptions): Promise<RepointResult>;
  compact(address: Address, options?: LongOptions): Promise<CompactResult>;
  destroy(address: Address, options?: { force?: boolean }): Promise<{ db: string; branch: string }>;
  touch(address: Address, options?: { ttl_ms?: number | null }): Promise<TouchResult>;
  protect(address: Address, on: boolean): Promise<{ db: string; branch: string; protected: boolean }>;
  diff(a: Address, b: Address, options?: { tables?: string[]; rows?: number } & LongOptions): Promise<DiffResult>;
  status(address: Address): Promise<BranchStatus>;
  branches(db?: string): Promise<BranchInfo[]>;
  databases(): Promise<DatabaseInfo[]>;
  lease(address: Address): Promise<LeaseAnswer>;
  collectGarbage(options: { grace_ms: number; dry_run?: boolean; signal?: AbortSignal }): Promise<GcResult>;
}

/** Operations on live sessions, which only a daemon has. */
export interface SessionOperations {
  open(address: Address): Promise<OpenAnswer>;
  flush(address: Address): Promise<FlushResult>;
  close(address: Address): Promise<CloseAnswer>;
  status(address?: Address): Promise<SessionInfo[]>;
  events(onSubscribed: () => void): AsyncIterable<DaemonEvent>;
}

/** Everything a command can ask for. */
export interface Operations {
  readonly branches: BranchOperations;
  /** The store itself; a call whose work the daemon does opens it only when it asks. */
  store(): Promise<StoreOperations>;
  /** The daemon's sessions, when a daemon does the work. */
  readonly live?: SessionOperations;
  /** Version of the SQLite library that does the work. */
  sqliteVersion(): Promise<string>;
  /** Lets go of the store and the connection. */
  close(): Promise<void>;
}

/** The live sessions, for commands that make no sense without a daemon. */
export function liveSessions(ops: Operations): SessionOperations {
  if (ops.live !== undefined) return ops.live;
  throw new TaskdError("daemon_unreachable", "No daemon serves this store", { hint: "Start it with: taskd serve" });
}

/** Opens what the plan's route says; modules are loaded only now. */
export async function openOperations(plan: Plan, signal: AbortSignal): Promise<Operations> {
  if (plan.route === "store") {
    const { openStoreOperations } = await import("./_store_operations.ts");
    return await openStoreOperations(plan);
  }
  const { openSocketOperations } = await import("./_socket_operations.ts");
  return await openSocketOperations(plan, signal);
}

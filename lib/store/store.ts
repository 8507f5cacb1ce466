/**
 * The branch store: every operation on branches at rest. What needs a live
 * database is a session, in lib/capture.
 */

import type { Backend } from "../backend/backend.ts";
import { type Clock, type RandomBytes, systemClock, systemRandom } from "../clock.ts";
import { Chains } from "./chain.ts";
import { ChainCache } from "./chain_cache.ts";
import { Checkouts } from "./checkouts.ts";
import type { StoreContext } from "./context.ts";
import { collectGarbage, type GcOptions, type GcResult } from "./gc.ts";
import { Holder } from "./holder.ts";
import { openManifest } from "./manifest.ts";
import type { Address } from "./names.ts";
import { checkout, checkoutPath } from "./ops/checkout.ts";
import { checkpoint } from "./ops/checkpoint.ts";
import { create } from "./ops/create.ts";
import { fork } from "./ops/fork.ts";
import { branches, databases, type InspectOptions, type LeaseInfo, leaseInfo, status } from "./ops/inspect.ts";
import { destroy, protect, touch } from "./ops/lifecycle.ts";
import { diff, type ExportResult, exportTo, verify } from "./ops/read.ts";
import { compact, promote, rollback } from "./ops/repoint.ts";
import { type ReapedBranch, reapExpired } from "./reap.ts";
import { Refs } from "./ref.ts";
import type {
  BranchInfo,
  BranchStatus,
  CheckoutResult,
  CheckpointResult,
  CompactResult,
  CreateResult,
  DatabaseInfo,
  DiffResult,
  ForkOptions,
  ForkResult,
  LongOptions,
  RepointOptions,
  RepointResult,
  TouchOptions,
  TouchResult,
  VerifyResult,
} from "./results.ts";
import { enforceRoCacheBudget, roCacheBytes, type RoCacheResult } from "./ro_cache.ts";
import { makeDirectory, Workspace } from "./workspace.ts";

export type { GcOptions, GcResult } from "./gc.ts";
export type { InspectOptions, LeaseInfo } from "./ops/inspect.ts";
export type { ExportResult } from "./ops/read.ts";
export type { ReapedBranch } from "./reap.ts";
export type { EvictedEntry, RoCacheResult } from "./ro_cache.ts";

/** Chain depth at which an operation at rest materializes; the contract's number. */
export const DEFAULT_DEPTH_FLOOR = 16;

/** What a store is opened with. */
export interface StoreOptions {
  /** Where its objects are. */
  backend: Backend;
  /** Directory of checkouts and caches; for a local store, the store's own. */
  workspace: string;
  /** The workspace is apart from the store: it is marked as this store's, and refused when it is another's. */
  separate_workspace?: boolean;
  /** Time; default the system's. */
  clock?: Clock;
  /** Randomness; default the system's. */
  random?: RandomBytes;
  /** First part of lease holders' names, lower-case letters; default `cli`. */
  holder?: string;
  /** Chain depth from which fork, promote and rollback materialize; default {@linkcode DEFAULT_DEPTH_FLOOR}. */
  depth_floor?: number;
  /** Receives lines for a log. */
  log?: (line: string) => void;
}

/** Answer of {@linkcode Store.reapExpired}. */
export interface ReapResult {
  /** Branches that are gone now. */
  reaped: ReapedBranch[];
  /** Branches that could not be read or destroyed, and why. */
  failed: { db: string; branch: string; error: string }[];
}

/**
 * An open branch store, made by {@linkcode openStore}. Times are ISO 8601 in UTC, sizes
 * bytes; what ends in `_ms` is milliseconds.
 *
 * Every method throws a {@linkcode TaskdError}: beside the codes that it names, `unavailable`, `denied` and `no_space` of
 * where the store is, and `interrupted` on its signal.
 *
 * @example Try a change on a fork, take it over, and take it back
 * ```ts
 * import { openStore, parseAddress } from "@taskd/taskd";
 *
 * const [main, fork] = [parseAddress("shop"), parseAddress("shop@try")];
 * const directory = await Deno.makeTempDir();
 * using store = await openStore(directory);
 * await store.create("shop");
 * await store.checkpoint(main, "empty", { note: "before anything was in it" });
 * await store.protect(main, true);
 *
 * await store.fork(main, "try", { ttl_ms: 3_600_000 }); // gone an hour after its last use
 * const { path } = await store.checkout(fork); // an ordinary SQLite file: change it with any client
 * console.log(path === await store.path(fork)); // true
 * await store.checkpoint(fork, "v1");
 * console.log((await store.diff(main, fork)).identical); // true
 * await store.touch(fork, { ttl_ms: null }); // never expires
 *
 * await store.promote(fork, main);
 * await store.rollback(parseAddress("shop@main@empty"));
 * await store.destroy(fork);
 * await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @example Look at a store, and prove that it can be restored
 * ```ts
 * import { openStore, parseAddress } from "@taskd/taskd";
 *
 * const main = parseAddress("shop");
 * const directory = await Deno.makeTempDir();
 * using store = await openStore(directory);
 * await store.create("shop");
 *
 * for (const { db } of await store.databases()) console.log((await store.branches(db)).length); // 1
 * console.log((await store.status(main)).state, (await store.lease(main)).live); // idle false
 * console.log((await store.verify(main)).problems); // []
 * await store.export(main, `${directory}/copy.db`);
 * await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @example Keep a store small
 * ```ts
 * import { openStore, parseAddress } from "@taskd/taskd";
 *
 * const directory = await Deno.makeTempDir();
 * const store = await openStore(directory);
 * await store.create("shop");
 *
 * await store.compact(parseAddress("shop"));
 * await store.reapExpired();
 * await store.collectGarbage({ grace_ms: 15 * 60_000 });
 * if (store.roCacheBytes() > 1 << 30) await store.enforceRoCacheBudget({ budget_bytes: 1 << 30 });
 * store.close();
 * await Deno.remove(directory, { recursive: true });
 * ```
 */
export class Store {
  /**
   * What sessions and the janitor work with.
   *
   * @internal
   */
  readonly context: StoreContext;

  private constructor(context: StoreContext) {
    this.context = context;
  }

  /**
   * Opens a store; one that is empty is made a store by its manifest.
   *
   * @example
   * ```ts
   * import { openBackend, Store } from "@taskd/taskd";
   *
   * const workspace = await Deno.makeTempDir();
   * using store = await Store.open({ backend: await openBackend(workspace), workspace });
   * console.log(await store.databases()); // []
   * await Deno.remove(workspace, { recursive: true });
   * ```
   *
   * @throws {TaskdError} `not_a_store`, `unsupported_layout`, `usage` (another store's workspace).
   */
  static async open(options: StoreOptions): Promise<Store> {
    const { backend, clock = systemClock, random = systemRandom } = options;
    const manifest = await openManifest(backend, { now: clock.now(), random });
    makeDirectory(options.workspace, options.workspace);
    const workspace = new Workspace(options.workspace, random);
    if (options.separate_workspace) workspace.claim(manifest.store_id);
    const cache = new ChainCache(workspace, backend, clock);
    return new Store({
      backend,
      workspace,
      refs: new Refs(backend, random),
      chains: new Chains(backend),
      cache,
      checkouts: new Checkouts({ workspace, backend, cache, clock }),
      holder: new Holder(options.workspace, options.holder ?? "cli", { random, clock }),
      clock,
      random,
      depth_floor: options.depth_floor ?? DEFAULT_DEPTH_FLOOR,
      layout_version: manifest.layout_version,
      log: options.log ?? (() => {}),
    });
  }

  /**
   * Makes the database `db` with the branch `main`: empty, or a consistent copy of the SQLite file `from`.
   *
   * @throws {TaskdError} `already_exists`, `invalid_name`; of `from` `not_found`, `not_a_database` or `busy`.
   */
  create(db: string, options: { from?: string } & LongOptions = {}): Promise<CreateResult> {
    return create(this.context, db, options);
  }

  /**
   * Makes or refreshes a branch's checkout; an address with a checkpoint gives a read-only one.
   *
   * @throws {TaskdError} `not_found`, `dirty` (local edits would be lost, and no `force`), `lease_held`, `corrupt`.
   */
  checkout(address: Address, options: { force?: boolean } & LongOptions = {}): Promise<CheckoutResult> {
    return checkout(this.context, address, options);
  }

  /**
   * Path of an existing checkout.
   *
   * @throws {TaskdError} `not_found`.
   */
  path(address: Address): Promise<string> {
    return checkoutPath(this.context, address);
  }

  /**
   * Stores the checkout's edits and names the state.
   *
   * @throws {TaskdError} `already_exists`, `not_found`, `lease_held`, `busy`, `too_large` (the note).
   */
  checkpoint(address: Address, name: string, options: { note?: string } & LongOptions = {}): Promise<CheckpointResult> {
    return checkpoint(this.context, address, name, options);
  }

  /**
   * Makes the branch `branch` from an address of the same database.
   *
   * @throws {TaskdError} `not_found`, `already_exists`, `invalid_name`.
   */
  fork(address: Address, branch: string, options: ForkOptions = {}): Promise<ForkResult> {
    return fork(this.context, address, branch, options);
  }

  /**
   * Moves a branch back to the checkpoint that the address names.
   *
   * @throws {TaskdError} `not_found`, `lease_held`, `dirty`, `conflict`.
   */
  rollback(address: Address, options: RepointOptions = {}): Promise<RepointResult> {
    return rollback(this.context, address, options);
  }

  /**
   * Makes the head of `onto` that of `from`.
   *
   * @throws {TaskdError} `not_found`, `lease_held`, `dirty`, `conflict`.
   */
  promote(from: Address, onto: Address, options: RepointOptions = {}): Promise<RepointResult> {
    return promote(this.context, from, onto, options);
  }

  /**
   * Folds a branch's chain into one snapshot.
   *
   * @throws {TaskdError} `not_found`, `lease_held`, `corrupt`.
   */
  compact(address: Address, options: LongOptions = {}): Promise<CompactResult> {
    return compact(this.context, address, options);
  }

  /**
   * Destroys a branch; a protected one only with `force`.
   *
   * @throws {TaskdError} `not_found`, `protected`, `lease_held`, `conflict`, `usage` (the address of a checkpoint).
   */
  destroy(address: Address, options: { force?: boolean } = {}): Promise<{ db: string; branch: string }> {
    return destroy(this.context, address, options);
  }

  /**
   * Counts a branch as used now, and sets its time to live or, with null, ends it.
   *
   * @throws {TaskdError} `not_found`, `conflict`.
   */
  touch(address: Address, options: TouchOptions = {}): Promise<TouchResult> {
    return touch(this.context, address, options);
  }

  /**
   * Guards a branch against destroy, or ends that.
   *
   * @throws {TaskdError} `not_found`, `conflict`.
   */
  protect(address: Address, on: boolean): Promise<{ db: string; branch: string; protected: boolean }> {
    return protect(this.context, address, on);
  }

  /**
   * Writes an address's stored content to a file.
   *
   * @throws {TaskdError} `not_found`, `already_exists` (the file, and no `force`), `no_space`, `corrupt`.
   */
  export(address: Address, file: string, options: { force?: boolean } & LongOptions = {}): Promise<ExportResult> {
    return exportTo(this.context, address, file, options);
  }

  /**
   * Compares two addresses, by page and by row.
   *
   * @param options `tables`: compare these alone; `rows`: how many changed rows of a table the answer lists.
   * @throws {TaskdError} `not_found`, `corrupt`.
   */
  diff(a: Address, b: Address, options: { tables?: string[]; rows?: number } & LongOptions = {}): Promise<DiffResult> {
    return diff(this.context, a, b, options);
  }

  /**
   * Proves that an address can be restored.
   *
   * @throws {TaskdError} `not_found`. Damage is among the result's problems.
   */
  verify(address: Address, options: LongOptions = {}): Promise<VerifyResult> {
    return verify(this.context, address, options);
  }

  /**
   * One branch in depth.
   *
   * @throws {TaskdError} `not_found`.
   */
  status(address: Address, options: InspectOptions = {}): Promise<BranchStatus> {
    return status(this.context, address, options);
  }

  /**
   * All branches, or those of one database.
   *
   * @throws {TaskdError} `not_found` (the database).
   */
  branches(db?: string, options: InspectOptions = {}): Promise<BranchInfo[]> {
    return branches(this.context, db, options);
  }

  /** All databases. */
  databases(): Promise<DatabaseInfo[]> {
    return databases(this.context);
  }

  /**
   * Who holds a branch.
   *
   * @throws {TaskdError} `not_found`.
   */
  lease(address: Address): Promise<LeaseInfo> {
    return leaseInfo(this.context, address);
  }

  /**
   * Runs one pass of garbage collection: deletes what no branch reaches, after its grace period. Also removes what dead
   * operations left in the workspace.
   *
   * @throws {TaskdError} `gc_failed` (what branches need could not all be found: nothing was deleted), `conflict`.
   */
  async collectGarbage(options: GcOptions): Promise<GcResult> {
    const result = await collectGarbage(this.context, options);
    if (!options.dry_run) this.context.workspace.sweep(this.context.clock.now());
    return result;
  }

  /**
   * Destroys the branches whose time to live has passed, and finishes interrupted destroys.
   *
   * @returns What is gone, and what failed, which holds up no other.
   */
  async reapExpired(): Promise<ReapResult> {
    const failed: ReapResult["failed"] = [];
    const onError = (address: { db: string; branch: string }, error: Error) => {
      failed.push({ ...address, error: error.message });
    };
    return { reaped: await reapExpired(this.context, { onError }), failed };
  }

  /**
   * Brings the read-only cache within a budget, least recently used entries first; 0 only measures it. Also removes what
   * dead operations left in the workspace.
   *
   * @throws {TaskdError} `denied`, `unavailable` (the workspace cannot be listed).
   */
  enforceRoCacheBudget(options: { budget_bytes: number }): Promise<RoCacheResult> {
    return enforceRoCacheBudget(this.context, options);
  }

  /** Bytes of the read-only cache. */
  roCacheBytes(): number {
    return roCacheBytes(this.context);
  }

  /** Takes back this process's sign of life; leases that it still holds are honoured until they run out. */
  close(): void {
    this.context.holder.close();
  }

  /** Closes the store at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.close();
  }
}

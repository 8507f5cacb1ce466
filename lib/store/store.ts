/**
 * The branch store: every operation on branches at rest. What needs a live
 * database is a session, in lib/capture.
 */

import { type AuditOptions, verify, verifyAll } from "./audit.ts";
import type { StoreContext } from "./context.ts";
import { programsWith } from "./file_in_use.ts";
import { foldHistory, type FoldOptions } from "./fold.ts";
import { collectGarbage, type GcOptions, type GcResult } from "./gc.ts";
import type { Address, BranchName } from "./names.ts";
import { openContext, type StoreOptions } from "./open_context.ts";
import { checkout, checkoutPath } from "./ops/checkout.ts";
import { checkpoint } from "./ops/checkpoint.ts";
import { create } from "./ops/create.ts";
import { fork } from "./ops/fork.ts";
import { branches, databases, type InspectOptions, type LeaseInfo, leaseInfo, status } from "./ops/inspect.ts";
import { destroy, protect, touch } from "./ops/lifecycle.ts";
import { diff, diffRows, type ExportResult, exportTo } from "./ops/read.ts";
import { compact, promote, rollback } from "./ops/repoint.ts";
import { undo, undoable } from "./ops/undo.ts";
import { reapExpired, type ReapResult } from "./reap.ts";
import { repair, type RepairOptions } from "./repair.ts";
import type { BranchInfo, BranchStatus, ConditionInfo, DatabaseInfo, LeftOut, UndoableEntry } from "./results.ts";
import type { CheckoutOptions, DestroyOptions, DiffOptions, DiffRowsOptions, ForkOptions } from "./results.ts";
import type { LongOptions, PromoteOptions, RepointOptions, TouchOptions, UndoOptions, WaitOptions } from "./results.ts";
import type { AuditResult, CheckoutResult, CheckpointResult, CompactResult, CreateResult } from "./results.ts";
import type { DestroyResult, DiffResult, ForkResult, RepairResult, RepointResult, ScrubResult } from "./results.ts";
import type { FoldResult, LogResult, MergeInfo, TouchResult, UndoResult, VerifyResult } from "./results.ts";
import type { RowPage } from "../sqlite/diff_result.ts";
import { merges, parentOf } from "./merge_base.ts";
import { log, type LogOptions, readingPoints } from "./points.ts";
import { enforceRoCacheBudget, roCacheBytes, type RoCacheResult, sweep } from "./ro_cache.ts";
import { condition, scrub } from "./scrub.ts";

export type { FoldOptions } from "./fold.ts";
export type { GcOptions, GcResult } from "./gc.ts";
export type { InspectOptions, LeaseInfo } from "./ops/inspect.ts";
export type { ExportResult } from "./ops/read.ts";
export type { LogOptions } from "./points.ts";
export { DEFAULT_DEPTH_FLOOR, type StoreOptions } from "./open_context.ts";
export type { ReapedBranch, ReapResult } from "./reap.ts";
export type { EvictedEntry, RoCacheResult } from "./ro_cache.ts";

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
 * console.log((await store.parent(fork)).branch, await store.merges(main)); // main []
 * console.log((await store.log(main)).points.map(({ op }) => op)); // [ "checkpoint" ]
 *
 * await store.promote(fork, main);
 * await store.rollback(parseAddress("shop@main@empty"));
 * await store.undo(main); // what was promoted is back
 * await store.destroy(fork);
 * console.log((await store.undoable(fork))[0]?.op); // destroy
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
 * console.log(await store.openIn(main)); // []
 * console.log((await store.verify(main)).problems); // []
 * console.log((await store.verifyAll({ fast: true })).findings); // []
 * console.log((await store.repair({ dry_run: true })).restored); // []
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
 * await store.touch(parseAddress("shop"), { keep: "1d,1h:7d" });
 * console.log((await store.foldHistory()).failed); // []
 * await store.reapExpired();
 * await store.collectGarbage({ grace_ms: 15 * 60_000 });
 * await store.scrub({ scrub_every_ms: 30 * 24 * 3_600_000 });
 * console.log((await store.condition()).damaged); // 0
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
    return new Store(await openContext(options));
  }

  /**
   * Makes the database `db` with the branch `main`: empty, or a consistent copy of the SQLite file `from`, which SQLite
   * checks; `force` takes a damaged one.
   *
   * @throws {TaskdError} `already_exists`, `invalid_name`; of `from` `not_found`, `not_a_database`, `corrupt` or `busy`.
   */
  create(db: string, options: { from?: string; force?: boolean } & LongOptions = {}): Promise<CreateResult> {
    return create(this.context, db, options);
  }

  /**
   * Makes or refreshes a branch's checkout; an address with a checkpoint gives a read-only one.
   *
   * @throws {TaskdError} `not_found`, `dirty` (local edits would be lost, and no `force`), `busy` (an application has the
   * file open that would be replaced), `lease_held`, `corrupt`.
   */
  checkout(address: Address, options: CheckoutOptions = {}): Promise<CheckoutResult> {
    return readingPoints([address], () => checkout(this.context, address, options));
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
    return readingPoints([address], () => fork(this.context, address, branch, options));
  }

  /**
   * Moves a branch back to the checkpoint, or other point, that the address names.
   *
   * @throws {TaskdError} `not_found`, `lease_held`, `conflict`; with `refuse_in_use` `busy`.
   */
  rollback(address: Address, options: RepointOptions = {}): Promise<RepointResult> {
    return readingPoints([address], () => rollback(this.context, address, options));
  }

  /**
   * Makes the head of `onto` that of `from`; `expected` and `expected_onto` say where the two have to stand.
   *
   * @throws {TaskdError} `not_found`, `lease_held`, `conflict`; with `refuse_in_use` `busy`.
   */
  promote(from: Address, onto: Address, options: PromoteOptions = {}): Promise<RepointResult & LeftOut> {
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
   * Destroys a branch; a protected one only with `force`. What it held is kept as a branch, from which
   * {@linkcode Store.undo} brings it back.
   *
   * @throws {TaskdError} `not_found`, `protected`, `unconfirmed`, `lease_held`, `busy` (an application has the checkout
   * open), `conflict`, `usage` (the address of a checkpoint).
   */
  destroy(address: Address, options: DestroyOptions = {}): Promise<DestroyResult> {
    return destroy(this.context, address, options);
  }

  /**
   * Takes back the last destroy, rollback or promote of a branch that is not taken back yet. What that had put there is
   * kept in turn.
   *
   * @throws {TaskdError} `not_found` (nothing is kept), `conflict`, `lease_held`, `busy`.
   */
  undo(address: Address, options: UndoOptions = {}): Promise<UndoResult> {
    return undo(this.context, address, options);
  }

  /**
   * What {@linkcode Store.undo} can take back on a branch, newest first; empty also for a branch that there is not.
   *
   * @throws {TaskdError} `denied`, `unavailable` (the store cannot be read).
   */
  undoable(address: Address): Promise<UndoableEntry[]> {
    return undoable(this.context, address);
  }

  /**
   * The merges into a branch, newest first; the last 32 are known.
   *
   * @throws {TaskdError} `not_found`.
   */
  merges(address: Address): Promise<MergeInfo[]> {
    return merges(this.context, address);
  }

  /**
   * The points of a branch that are kept, the newest first: each can be named where a checkpoint can.
   *
   * @throws {TaskdError} `not_found`, `invalid_request` (a place that no part ended at).
   */
  log(address: Address, options: LogOptions = {}): Promise<LogResult> {
    return log(this.context, address, options);
  }

  /**
   * The branch that a branch was forked from.
   *
   * @throws {TaskdError} `not_found`, `conflict` when that is not known.
   */
  parent(address: Address): Promise<BranchName> {
    return parentOf(this.context, address);
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
   * @throws {TaskdError} `not_found`, `already_exists` (the file, and no `force`), `busy` (an application has it open),
   * `no_space`, `corrupt`.
   */
  export(
    address: Address,
    file: string,
    options: { force?: boolean } & WaitOptions & LongOptions = {},
  ): Promise<ExportResult> {
    return readingPoints([address], () => exportTo(this.context, address, file, options));
  }

  /**
   * Compares two addresses, by page and by row.
   *
   * @param options `tables`: compare these alone; `rows`: how many changed rows of a table the answer lists.
   * @throws {TaskdError} `not_found`, `corrupt`.
   */
  diff(a: Address, b: Address, options: DiffOptions & LongOptions = {}): Promise<DiffResult> {
    return readingPoints([a, b], () => diff(this.context, a, b, options));
  }

  /**
   * A part of the rows of a table that differ between two addresses, of the same or different databases.
   *
   * @throws {TaskdError} `not_found`, `corrupt`; `invalid_request` for a place that no part ended at.
   */
  diffRows(a: Address, b: Address, table: string, options: DiffRowsOptions & LongOptions = {}): Promise<RowPage> {
    return readingPoints([a, b], () => diffRows(this.context, a, b, table, options));
  }

  /**
   * Proves that a branch can be restored, its checkpoints included, or one checkpoint.
   *
   * @param options `fast`: compare stored checksums, and rebuild nothing.
   * @throws {TaskdError} `not_found`. Damage is among the result's findings.
   */
  verify(address: Address, options: AuditOptions = {}): Promise<VerifyResult> {
    return verify(this.context, address, options);
  }

  /**
   * Proves all that the store holds, reading each object once; otherwise as {@linkcode Store.verify}.
   *
   * @throws {TaskdError} `denied`, `unavailable` (the store cannot be listed). Damage is among the result's findings.
   */
  verifyAll(options: AuditOptions = {}): Promise<AuditResult> {
    return verifyAll(this.context, options);
  }

  /**
   * Brings back what is damaged where something proves it, and takes branches that lost something back to their newest
   * sound point; what they were is kept.
   *
   * @throws {TaskdError} `not_found`, `lease_held` (of a branch that is named).
   */
  repair(options: RepairOptions = {}): Promise<RepairResult> {
    return repair(this.context, options);
  }

  /**
   * Reads as much of the store against its checksums as is due since the last call: everything once in `scrub_every_ms`.
   *
   * @throws {TaskdError} `unavailable`, `denied`. Damage is in the answer.
   */
  scrub(options: { scrub_every_ms: number }): Promise<ScrubResult> {
    return scrub(this.context, options);
  }

  /**
   * What is known of damage without reading the store.
   *
   * @throws {TaskdError} `unavailable`, `denied`.
   */
  condition(): Promise<ConditionInfo> {
    return condition(this.context);
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

  /**
   * All databases.
   *
   * @throws {TaskdError} `denied`, `unavailable` (the store cannot be listed).
   */
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
   * The programs that have the file of a branch open, by name and process, as far as the system lists them; empty where
   * it lists none. Nothing is opened or locked for it.
   */
  openIn({ db, branch }: Address): Promise<string[]> {
    const { workspace, clock } = this.context;
    return programsWith(workspace.checkout(db, branch), clock, 2);
  }

  /**
   * Runs one pass of garbage collection: deletes what no branch reaches, after its grace period. Also removes what dead
   * operations left in the workspace.
   *
   * @throws {TaskdError} `gc_failed` (what branches need could not all be found: nothing was deleted), `conflict`.
   */
  async collectGarbage(options: GcOptions): Promise<GcResult> {
    const result = await collectGarbage(this.context, options);
    if (!options.dry_run) await sweep(this.context);
    return result;
  }

  /**
   * Drops points that are kept no more from the branches' logs, and folds the others, so that each is near a snapshot and
   * few snapshots serve all of them. Reads up to a limit of bytes; the next call goes on.
   *
   * @throws {TaskdError} `denied`, `unavailable` (the store cannot be listed). What could not be folded is in the answer.
   */
  foldHistory(options: FoldOptions = {}): Promise<FoldResult> {
    return foldHistory(this.context, options);
  }

  /**
   * Destroys the branches whose time to live has passed, and finishes interrupted destroys.
   *
   * @returns What is gone, and what failed, which holds up no other.
   * @throws {TaskdError} `denied`, `unavailable` (the store cannot be listed).
   */
  reapExpired(): Promise<ReapResult> {
    return reapExpired(this.context);
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

  /**
   * Bytes of the read-only cache.
   *
   * @throws {TaskdError} `denied`, `unavailable` (the workspace cannot be listed).
   */
  roCacheBytes(): number {
    return roCacheBytes(this.context);
  }

  /**
   * Takes back this process's sign of life; leases that it still holds are honoured until they run out. Removes the
   * images that were kept for the next page of rows.
   */
  close(): void {
    this.context.held_images.close();
    this.context.holder.close();
  }

  /** Closes the store at the end of a `using` block. */
  [Symbol.dispose](): void {
    this.close();
  }
}

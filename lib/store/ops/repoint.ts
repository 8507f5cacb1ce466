/**
 * rollback, promote and compact: a branch is given another lineage, under its lease. Its checkpoints stay, each naming
 * the lineage in which it resolves; a safety fork keeps its old head reachable.
 */

import { hasCode, messageOf, TaskdError } from "../../errors.ts";
import { ImageFile } from "../../sqlite/checkout_file.ts";
import type { DatabaseImage } from "../../sqlite/wal_tail.ts";
import { requireSound } from "../audit.ts";
import { type Base, placeOf } from "../chain.ts";
import type { TakenFile } from "../file_in_use.ts";
import { isoNow, newLineage, type Point, pointAt, pointIn, type StoreContext, targetOf } from "../context.ts";
import { imageSha256 } from "../chain_cache.ts";
import { type Lease, refuseClaimed, withLease } from "../lease.ts";
import { leftOut } from "../left_out.ts";
import { pastOf } from "../merge_base.ts";
import { type Address, formatAddress, requireBranch } from "../names.ts";
import { writeSnapshot } from "../objects.ts";
import { withPoint } from "../point_log.ts";
import type { Kept, Ref, UndoEntry } from "../ref.ts";
import type { LeftOut } from "../results.ts";
import type { LongOptions, PromoteOptions, RepointOptions, WaitOptions } from "../results.ts";
import type { CompactResult, RepointResult } from "../results.ts";
import { type ListVersion, listVersion, spare } from "../tombstones.ts";
import { checkpointsOf, keepContent, type KeptBranch } from "./keep.ts";
import { baseOf, beginLineage, materializeLineage, type NewLineage } from "./lineage.ts";

export async function rollback(
  context: StoreContext,
  address: Address,
  options: RepointOptions = {},
): Promise<RepointResult> {
  if (address.checkpoint === undefined) {
    throw new TaskdError("usage", `Cannot roll ${formatAddress(address)} back: no checkpoint is named`, {
      hint: "Name one: <db>@<branch>@<checkpoint>",
    });
  }
  const since = await listVersion(context.backend);
  return await withLease(context, address, async (lease) => {
    const point = await pointIn(context, address, lease.ref);
    return await repoint(context, lease, point, { ...options, since, op: "rollback" });
  });
}

/** Makes a branch's head that of another branch (or of one of its checkpoints) of the same database. */
export async function promote(
  context: StoreContext,
  from: Address,
  onto: Address,
  options: PromoteOptions = {},
): Promise<RepointResult & LeftOut> {
  if (from.db !== onto.db || from.branch === onto.branch || onto.checkpoint !== undefined) {
    throw new TaskdError("usage", `Cannot promote ${formatAddress(from)} onto ${formatAddress(onto)}`, {
      hint: "Name two different branches of one database",
    });
  }
  return await withLease(context, onto, async (lease) => {
    const since = await listVersion(context.backend);
    const point = await pointAt(context, from);
    refuseClaimed(point.ref);
    requirePlace("promote", from, { lineage: point.lineage, txid: point.head.txid }, options.expected);
    requirePlace("promote", onto, lease.ref, options.expected_onto);
    const left_out = await leftOut(context, point);
    return { ...await repoint(context, lease, point, { ...options, since, op: "promote" }), ...left_out };
  });
}

/** Under the lease, so that nothing moves the branch from there on; the content of a place never changes. */
export function requirePlace(
  done: string,
  address: Address,
  at: Base,
  expected: string | undefined,
): void {
  const place = placeOf(at);
  if (expected === undefined || expected === place) return;
  throw new TaskdError("conflict", `Cannot ${done}: ${formatAddress(address)} stands at ${place}, not at ${expected}`, {
    hint: "It was written meanwhile: compare again",
  });
}

export async function compact(
  context: StoreContext,
  address: Address,
  options: LongOptions = {},
): Promise<CompactResult> {
  requireBranch(address, "compact");
  const { db, branch } = address;
  const since = await listVersion(context.backend);
  return await withLease(context, address, async (lease) => {
    const before = await pointIn(context, { db, branch }, lease.ref);
    const attempted = `Cannot compact ${formatAddress(address)}`;
    await requireSound(context, before, attempted, options);
    const lineage = await recordPendingLineage(context, lease, { point: before, since, attempted });
    const begun = await materializeLineage(context, before, { ...options, epoch: lease.epoch, lineage });
    const target = targetOf(before);
    const own = context.checkouts.belongs(target);
    const interrupted = own && context.checkouts.recordPending(target, {
      lineage: begun.lineage,
      txid: begun.head.txid,
      digest: begun.head.digest,
      same_content: true,
    });
    await moveTo(context, lease, begun, { entry: lease.ref.undo, op: "compact" });
    const after = await pointIn(context, { db, branch }, lease.ref);
    if (own) context.checkouts.rebind(target, targetOf(after), interrupted);
    return {
      db,
      branch,
      txid: after.head.txid,
      objects_before: before.chain.objects.length,
      stored_bytes: begun.stored_bytes,
    };
  });
}

/** What repoint is to do beside moving the branch. */
export interface RepointDetails extends RepointOptions {
  op: string;
  since: ListVersion;
  /** The operation that this takes back. */
  takes_back?: Kept;
}

/** Points a leased branch at `point`, and its checkout too, unless that is in use or holds edits that are not kept. */
export async function repoint(
  context: StoreContext,
  lease: Lease,
  point: Point,
  options: RepointDetails,
): Promise<RepointResult> {
  const { db, branch } = lease.address;
  // Before anything moves: a branch never gets a head that cannot be read. A fork does not ask, because it has to take
  // milliseconds and leaves what it begins at where it is.
  const attempted = `Cannot move ${formatAddress(lease.address)} to ${formatAddress(point.address)}`;
  await requireSound(context, point, attempted, options);
  const before = await pointIn(context, { db, branch }, lease.ref);
  const lineage = await recordPendingLineage(context, lease, { point, since: options.since, attempted });
  const begun = await beginLineage(context, point, { ...options, epoch: lease.epoch, lineage });
  using old = await takeOld(context, before, {
    ...options,
    attempted: `Cannot replace the checkout of ${db}@${branch}`,
  });
  if (options.refuse_in_use && options.safety === false && old.edits !== undefined) {
    throw new TaskdError("dirty", `${attempted}: its checkout holds edits that are not in the store`, {
      hint: "Try again, or keep them in a safety branch",
    });
  }
  // The steps that take long or fail come first, so that a failed rollback leaves no branch behind.
  const kept = options.safety === false
    ? undefined
    : await keepContent(context, before, { ...options, edits: old.edits });
  const { takes_back } = options;
  const entry = takes_back === undefined ? kept : takes_back.before;
  await moveTo(context, lease, begun, { entry, source: point.ref, op: options.op });

  const problem = old.problem ?? await follow(context, lease, old, { ...options, kept });
  if (problem !== undefined) context.log(`checkout of ${db}@${branch} not refreshed: ${problem}`);
  return {
    db,
    branch,
    txid: begun.head.txid,
    mode: begun.mode,
    ...(kept === undefined ? {} : { safety_branch: kept.branch }),
    checkout_refreshed: problem === undefined,
    ...(problem === undefined ? {} : { checkout_problem: problem }),
  };
}

/**
 * Lets the checkout follow its branch. Best effort by contract: the branch has moved, and a checkout that could not follow
 * is `detached`. One with edits stays as it is; once those are kept, the next checkout replaces it, and this one where
 * the branch is opened again: over the old content a session would take all of it up, and undo the move.
 *
 * @returns Why it did not follow.
 */
async function follow(
  context: StoreContext,
  lease: Lease,
  { taken, edits }: OldCheckout,
  options: { kept: KeptBranch | undefined; refuse_in_use?: boolean } & LongOptions,
): Promise<string | undefined> {
  if (taken?.database === undefined) return undefined;
  const { kept } = options;
  const { db } = lease.address;
  try {
    if (edits === undefined || options.refuse_in_use && kept !== undefined) {
      const after = await pointIn(context, lease.address, lease.ref);
      await context.checkouts.restore(targetOf(after), { ...options, taken });
      return undefined;
    }
    if (kept === undefined) return "it holds edits that are not in the store";
    const stored = await pointAt(context, { db, branch: kept.branch });
    // As it is: giving it up, to have SQLite fold its log, would let a commit in that is not kept.
    context.checkouts.stampHeld(taken.path, stored, taken.database.standing());
    return `it holds edits that were never checkpointed; they are kept in ${db}@${kept.branch}`;
  } catch (error) {
    return messageOf(error);
  }
}

/** A branch's checkout before the branch moves or goes. */
export interface OldCheckout extends Disposable {
  /** The file, or that there is none, until this is disposed of; undefined when it cannot be had. */
  taken: TakenFile | undefined;
  /** Its content, when the store does not have that. */
  edits: DatabaseImage | undefined;
  /** Why the file stays as it is. */
  problem: string | undefined;
}

/** Codes of a file that cannot be had: it stays as it is, and its branch moves. */
const NOT_HAD = ["busy", "denied", "unavailable"] as const;

/** A head that cannot be read does not keep a branch from being moved away from it: whatever the checkout holds is kept. */
function unreadable(error: unknown): undefined {
  if (!hasCode(error, "corrupt", "chain_gap", "unsupported_format")) throw error;
}

/** Takes the checkout of `before`, and looks whether the store has what is in it. */
export async function takeOld(
  context: StoreContext,
  before: Point,
  options: { attempted: string; refuse_in_use?: boolean } & WaitOptions & LongOptions,
): Promise<OldCheckout> {
  const { checkouts, workspace } = context;
  const { db, branch } = before.address;
  const path = workspace.checkout(db, branch);
  const target = targetOf(before);
  // Inspected before it is taken: that opens the file.
  const seen = checkouts.fileStamp(path);
  const view = checkouts.inspect(target);
  let taken: TakenFile | undefined;
  let edits: DatabaseImage | undefined;
  let problem: string | undefined;
  try {
    taken = await checkouts.take(db, branch, options.attempted, options);
    const { database } = taken;
    if (view !== undefined && database === undefined) problem = "it is not a database that SQLite can open";
    const clean = view?.stat_clean === true && checkouts.fileStamp(path) === seen;
    if (database !== undefined && !clean) {
      const image = database.image();
      const stored = await context.cache.sha256(db, before.chain, before.head.digest).catch(unreadable);
      if (await imageSha256(image, options) !== stored) edits = image;
    }
  } catch (error) {
    const left = hasCode(error, "not_a_database", "corrupt") || (!options.refuse_in_use && hasCode(error, ...NOT_HAD));
    if (!left) {
      taken?.[Symbol.dispose]();
      throw error;
    }
    problem = messageOf(error);
  }
  return { taken, edits, problem, [Symbol.dispose]: () => taken?.[Symbol.dispose]() };
}

/**
 * Names, in the leased ref, the lineage that the branch is about to be given and the point that it continues, so that
 * garbage collection keeps both from here on; throws `conflict` when the point is being removed.
 */
export async function recordPendingLineage(
  context: StoreContext,
  lease: Lease,
  { point, since, attempted }: { point: Point; since: ListVersion; attempted: string },
): Promise<string> {
  const lineage = newLineage(context);
  const base = baseOf(point);
  await lease.write((ref) => ({ ...ref, pending: { holder: lease.holder, lineage, base } }));
  await spare(context, attempted, { at: base, chain: point.chain, since });
  return lineage;
}

/**
 * Points the leased ref at a lineage that was begun for it. After an error the lineage is left to garbage collection:
 * the write may have landed although its answer was lost, and others may have forked from it since.
 *
 * @param of.entry The operation that undo takes back next; in the same write, so that neither is there without the other.
 * @param of.op What the branch's log calls it.
 * @param of.source The ref of the branch whose point the lineage continues.
 */
export async function moveTo(
  context: StoreContext,
  lease: Lease,
  begun: NewLineage,
  { entry, source, op }: { entry: UndoEntry | undefined; source?: Ref; op: string },
): Promise<void> {
  const from = begun.base ?? lease.ref.pending?.base;
  const refs = [lease.ref, ...source === undefined ? [] : [source]];
  const history = from === undefined ? {} : await pastOf(context, refs, {
    from,
    shared: begun.base !== undefined,
    ...source !== undefined && from.txid === begun.head.txid ? { digest: begun.head.digest } : {},
  });
  await lease.write((ref): Ref | undefined => {
    if (ref.lineage === begun.lineage) return undefined;
    const { base: _base, pending: _pending, undo: _undo, past: _past, origin: _origin, ...rest } = ref;
    const moved: Ref = {
      ...rest,
      ...history,
      ...(entry === undefined ? {} : { undo: { branch: entry.branch, id: entry.id } }),
      lineage: begun.lineage,
      txid: begun.head.txid,
      digest: begun.head.digest,
      checkpoints: checkpointsOf(ref),
      touched_at: isoNow(context),
      ...(begun.base === undefined ? {} : { base: begun.base }),
    };
    return withPoint(ref, moved, op);
  });
}

/** Gives all points of a leased branch that have this digest the content of a file, as a snapshot of a lineage of its own. */
export async function repointToFile(
  context: StoreContext,
  lease: Lease,
  { path, txid, digest }: { path: string; txid: number; digest: string },
): Promise<void> {
  const { backend, checkouts, workspace } = context;
  const lineage = newLineage(context);
  // Garbage collection keeps it until the ref names it.
  await lease.write((ref) => ({ ...ref, pending: { holder: lease.holder, lineage, base: { lineage, txid: 0 } } }));
  using image = ImageFile.open(path);
  const place = { lineage, epoch: lease.epoch };
  const { head } = await writeSnapshot(backend, place, { txid, image, clone_path: path });
  const { address, ref: before } = lease;
  // Its own chain may not resolve.
  const id = workspace.sidecar(workspace.checkout(address.db, address.branch))?.chain_id ?? "";
  const target = { ...address, ref: before, chain: { objects: [], id, txid, depth: 0, bytes: 0 } };
  const own = before.digest === digest && checkouts.belongs(target);
  const interrupted = own &&
    checkouts.recordPending(target, { lineage, txid, digest: head.digest, same_content: true });
  await lease.write((ref) => {
    if (ref.pending?.lineage !== lineage) return undefined;
    const { pending: _, base, ...rest } = ref;
    const same = { digest: head.digest, lineage, kind: head.kind };
    const checkpoints = checkpointsOf(ref).map((each) => each.digest === digest ? { ...each, ...same } : each);
    if (ref.digest === digest) return { ...rest, lineage, digest: head.digest, checkpoints };
    return { ...rest, checkpoints, ...(base === undefined ? {} : { base }) };
  });
  if (own) checkouts.rebind(target, targetOf(await pointIn(context, address, lease.ref)), interrupted);
}

/**
 * rollback, promote and compact: a branch is given another lineage, under its lease. Its checkpoints stay, each naming
 * the lineage in which it resolves; a safety fork keeps its old head reachable.
 */

import { hasCode, TaskdError } from "../../errors.ts";
import { isoNow, newLineage, type Point, pointAt, pointIn, type StoreContext, targetOf } from "../context.ts";
import { type Lease, refuseClaimed, withLease } from "../lease.ts";
import { type Address, formatAddress, MAX_NAME_CHARS, requireBranch } from "../names.ts";
import type { Ref } from "../ref.ts";
import type { CompactResult, LongOptions, RepointOptions, RepointResult } from "../results.ts";
import { safetyTtlField } from "../time_to_live.ts";
import { assertSpared, type Moment, momentOf } from "../tombstones.ts";
import {
  abandonLineage,
  baseOf,
  beginLineage,
  createForkedBranch,
  materializeLineage,
  type NewLineage,
} from "./lineage.ts";

export async function rollback(
  context: StoreContext,
  address: Address,
  options: RepointOptions = {},
): Promise<RepointResult> {
  if (address.checkpoint === undefined) {
    throw new TaskdError(
      "usage",
      `Cannot roll ${formatAddress(address)} back: no checkpoint is named`,
      { hint: "Name one: <db>@<branch>@<checkpoint>" },
    );
  }
  const since = momentOf(context.clock);
  return await withLease(context, address, async (lease) => {
    const point = await pointIn(context, address, lease.ref);
    return await repoint(context, lease, point, { ...options, since, suffix: "pre-rollback" });
  });
}

/** Makes a branch's head that of another branch (or of one of its checkpoints) of the same database. */
export async function promote(
  context: StoreContext,
  from: Address,
  onto: Address,
  options: RepointOptions = {},
): Promise<RepointResult> {
  if (from.db !== onto.db || from.branch === onto.branch || onto.checkpoint !== undefined) {
    throw new TaskdError(
      "usage",
      `Cannot promote ${formatAddress(from)} onto ${formatAddress(onto)}`,
      { hint: "Name two different branches of one database" },
    );
  }
  return await withLease(context, onto, async (lease) => {
    const since = momentOf(context.clock);
    const point = await pointAt(context, from);
    refuseClaimed(point.ref);
    return await repoint(context, lease, point, { ...options, since, suffix: "pre-promote" });
  });
}

export async function compact(
  context: StoreContext,
  address: Address,
  options: LongOptions = {},
): Promise<CompactResult> {
  requireBranch(address, "compact");
  const { db, branch } = address;
  const since = momentOf(context.clock);
  return await withLease(context, address, async (lease) => {
    const before = await pointIn(context, { db, branch }, lease.ref);
    const lineage = await recordPendingLineage(context, lease, before, since);
    const begun = await materializeLineage(context, before, { ...options, epoch: lease.epoch, lineage });
    const target = targetOf(before);
    const own = context.checkouts.belongs(target);
    const interrupted = own && context.checkouts.recordPending(target, {
      lineage: begun.lineage,
      txid: begun.head.txid,
      digest: begun.head.digest,
      same_content: true,
    });
    await moveTo(context, lease, begun);
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

async function repoint(
  context: StoreContext,
  lease: Lease,
  point: Point,
  options: RepointOptions & { suffix: string; since: Moment },
): Promise<RepointResult> {
  const { db, branch } = lease.address;
  const before = await pointIn(context, { db, branch }, lease.ref);
  const target = targetOf(before);
  const seen = context.checkouts.fileStamp(context.workspace.checkout(db, branch));
  const view = context.checkouts.inspect(target);
  // The stamp of content that is known to be stored: a later edit changes it, and is left alone.
  const fileStamp = view?.stat_clean ? seen : view && await context.checkouts.unchangedStamp(view.path, target);

  const lineage = await recordPendingLineage(context, lease, point, options.since);
  const begun = await beginLineage(context, point, { ...options, epoch: lease.epoch, lineage });
  // The steps that take long or fail come first, so that a failed rollback leaves no branch behind.
  const safety_branch = options.safety === false ? undefined : await keepHead(context, before, options);
  await moveTo(context, lease, begun);

  // Where there is no checkout, none is left with the old content.
  let checkout_refreshed = view === undefined;
  if (fileStamp !== undefined) {
    // Best effort by contract: the branch has moved, and a checkout that could not follow is `detached`.
    try {
      const after = await pointIn(context, { db, branch }, lease.ref);
      await context.checkouts.restore(targetOf(after), { ...options, fileStamp });
      checkout_refreshed = true;
    } catch (error) {
      context.log(`checkout of ${db}@${branch} not refreshed: ${(error as Error).message}`);
    }
  }
  return {
    db,
    branch,
    txid: begun.head.txid,
    mode: begun.mode,
    ...(safety_branch === undefined ? {} : { safety_branch }),
    checkout_refreshed,
  };
}

/**
 * Names, in the leased ref, the lineage that the branch is about to be given and the point that it continues, so that
 * garbage collection keeps both from here on; throws `conflict` when it may have begun to remove the point.
 */
async function recordPendingLineage(context: StoreContext, lease: Lease, point: Point, since: Moment): Promise<string> {
  const lineage = newLineage(context);
  const base = baseOf(point);
  await lease.write((ref) => ({ ...ref, pending: { holder: lease.holder, lineage, base } }));
  const attempted = `Cannot move ${formatAddress(lease.address)} to ${formatAddress(point.address)}`;
  await assertSpared(context, attempted, { at: base, chain: point.chain, since });
  return lineage;
}

/**
 * Points the leased ref at a lineage that was begun for it. After an error the lineage is left to garbage collection:
 * the write may have landed although its answer was lost, and others may have forked from it since.
 */
async function moveTo(context: StoreContext, lease: Lease, begun: NewLineage): Promise<void> {
  await lease.write((ref): Ref | undefined => {
    if (ref.lineage === begun.lineage) return undefined;
    const { base: _base, pending: _pending, ...rest } = ref;
    return {
      ...rest,
      lineage: begun.lineage,
      txid: begun.head.txid,
      digest: begun.head.digest,
      checkpoints: ref.checkpoints.map((known) => ({ lineage: ref.lineage, ...known })),
      touched_at: isoNow(context),
      ...(begun.base === undefined ? {} : { base: begun.base }),
    };
  });
}

/** Keeps a branch's head as a branch of its own and returns that branch's name. */
async function keepHead(
  context: StoreContext,
  before: Point,
  options: RepointOptions & { suffix: string; since: Moment },
): Promise<string> {
  const { db, branch } = before.address;
  const begun = await beginLineage(context, before, { epoch: 1 });
  for (let count = 1; count <= 1000; count++) {
    const tail = count === 1 ? `-${options.suffix}` : `-${options.suffix}-${count}`;
    const name = branch.slice(0, MAX_NAME_CHARS - tail.length) + tail;
    try {
      await createForkedBranch(context, { db, branch: name }, {
        point: before,
        begun,
        since: options.since,
        ttl: safetyTtlField(options),
      });
      return name;
    } catch (error) {
      if (!hasCode(error, "already_exists")) throw error;
    }
  }
  await abandonLineage(context.backend, begun.lineage);
  throw new TaskdError(
    "already_exists",
    `Cannot keep the head of ${db}@${branch}: 1000 safety forks exist`,
    { hint: `Destroy some of the branches ${branch}-${options.suffix}-*` },
  );
}

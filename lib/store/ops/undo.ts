/**
 * undo: takes back the last operation that took something away from a branch.
 *
 * A branch's ref names the newest such operation by the branch that keeps what was there before; that one names the
 * operation before it. The name moves in the write that moves the branch: an interrupted undo was done or was not.
 */

import { TaskdError } from "../../errors.ts";
import { type Point, pointIn, type StoreContext } from "../context.ts";
import { refuseClaimed, withLease } from "../lease.ts";
import { mergesInForce } from "../merge_base.ts";
import { type Address, type BranchName, formatAddress, requireBranch } from "../names.ts";
import type { UndoEntry } from "../ref.ts";
import type { UndoableEntry, UndoOptions, UndoResult } from "../results.ts";
import { expiresAt, ttlField } from "../time_to_live.ts";
import { listVersion } from "../tombstones.ts";
import { checkpointsOf, historyOf, type Keeper, keptByDestroy, mergesOf, pointsFor } from "./keep.ts";
import { beginLineage, createForkedBranch } from "./lineage.ts";
import { repoint } from "./repoint.ts";

/** Operations that are listed; each is older than the one before. */
const MAX_LISTED = 100;

/** The last moment of a date, in milliseconds since 1970: https://tc39.es/ecma262/#sec-time-values-and-time-range. */
const MAX_DATE_MS = 8.64e15;

/** What {@linkcode undo} can take back, newest first. */
export async function undoable(context: StoreContext, address: Address): Promise<UndoableEntry[]> {
  requireBranch(address, "list what can be taken back on");
  const { db, branch } = address;
  const found = await context.refs.find(db, branch);
  const entries: UndoableEntry[] = [];
  let keeper = found === undefined ? (await destroyed(context, address))[0] : await follow(context, db, found.ref.undo);
  while (keeper !== undefined && entries.length < MAX_LISTED) {
    const { ref, kept } = keeper;
    const ends = expiresAt(ref);
    entries.push({
      op: kept.op,
      at: kept.at,
      safety_branch: keeper.branch,
      txid: ref.txid,
      ...(ends === undefined ? {} : { expires_at: new Date(Math.min(ends, MAX_DATE_MS)).toISOString() }),
    });
    keeper = await follow(context, db, kept.before);
  }
  const merged = found === undefined ? [] : await mergesInForce(context, address, found.ref);
  for (const { id, at, onto, reverts } of merged) {
    if (reverts === undefined) entries.push({ op: "merge", at, txid: onto.txid, merge: id });
  }
  return entries.sort((a, b) => a.at < b.at ? 1 : a.at > b.at ? -1 : 0);
}

export async function undo(context: StoreContext, address: Address, options: UndoOptions = {}): Promise<UndoResult> {
  requireBranch(address, "undo an operation on");
  const { db, branch } = address;
  const found = await context.refs.find(db, branch);
  if (found === undefined) return await restoreDestroyed(context, address, options);
  refuseClaimed(found.ref);
  if (found.ref.undo === undefined) throw await nothing(context, address);
  return await withLease(context, address, async (lease) => {
    const entry = lease.ref.undo;
    const keeper = await follow(context, db, entry);
    if (keeper === undefined) {
      throw new TaskdError("not_found", `Cannot undo anything on ${db}@${branch}: what was there before is not kept`, {
        hint: entry === undefined ? "It was given up with --no-safety" : `${db}@${entry.branch} has expired or is gone`,
      });
    }
    refuseOther(address, keeper, options);
    const point = await pointIn(context, { db, branch: keeper.branch }, keeper.ref);
    const since = await listVersion(context.backend);
    const done = await repoint(context, lease, point, { ...options, op: "undo", since, takes_back: keeper.kept });
    return { ...done, undone: keeper.kept.op, undone_at: keeper.kept.at };
  });
}

/** Makes a destroyed branch again, with its checkpoints, its merges and its own time to live. */
async function restoreDestroyed(
  context: StoreContext,
  { db, branch }: Address,
  options: UndoOptions,
): Promise<UndoResult> {
  const since = await listVersion(context.backend);
  const [keeper] = await destroyed(context, { db, branch });
  if (keeper === undefined) throw await nothing(context, { db, branch });
  refuseOther({ db, branch }, keeper, options);
  const { ref, kept } = keeper;
  const point: Point = await pointIn(context, { db, branch: keeper.branch }, ref);
  const begun = await beginLineage(context, point, { ...options, epoch: 1 });
  await createForkedBranch(context, { db, branch }, {
    point,
    begun,
    since,
    more: {
      ...ttlField(kept),
      ...await historyOf(context, point, begun),
      ...mergesOf(ref),
      ...pointsFor(ref, begun),
      checkpoints: checkpointsOf(ref),
      ...(kept.protected ? { protected: true } : {}),
      ...(kept.before === undefined ? {} : { undo: kept.before }),
    },
  });
  const { head, mode } = begun;
  return { db, branch, txid: head.txid, mode, checkout_refreshed: true, undone: kept.op, undone_at: kept.at };
}

/** Refuses another keeper than was named, and one that holds something else by now. */
function refuseOther({ db, branch }: BranchName, keeper: Keeper, { expected }: UndoOptions): void {
  const { ref, kept } = keeper;
  const same = ref.txid === kept.txid && (ref.lineage !== kept.id || ref.digest === kept.digest);
  if (kept.txid !== undefined && !same) {
    throw new TaskdError(
      "conflict",
      `Cannot undo the ${kept.op} of ${db}@${branch}: ${keeper.branch} was changed since`,
      {
        hint: `To have what it holds now: taskd promote ${db}@${keeper.branch} --onto ${branch}`,
      },
    );
  }
  if (expected === undefined || expected === keeper.branch) return;
  throw new TaskdError("conflict", `Cannot undo what ${db}@${expected} keeps: ${keeper.branch} is newer`, {
    hint: `taskd undo ${db}@${branch} --list shows what can be taken back`,
  });
}

/** The branch that an entry names, unless it is gone. */
async function follow(context: StoreContext, db: string, entry: UndoEntry | undefined): Promise<Keeper | undefined> {
  if (entry === undefined) return undefined;
  const ref = (await context.refs.find(db, entry.branch))?.ref;
  return ref?.kept?.id === entry.id ? { branch: entry.branch, ref, kept: ref.kept } : undefined;
}

/** What a destroy has kept and undo may bring back, newest first. */
async function destroyed(context: StoreContext, address: { db: string; branch?: string }): Promise<Keeper[]> {
  return (await keptByDestroy(context, address)).filter(({ kept }) => !kept.ended);
}

async function nothing(context: StoreContext, address: Address): Promise<TaskdError> {
  const alive = new Set((await context.refs.list(address.db)).map(({ branch }) => branch));
  const other = (await destroyed(context, { db: address.db })).find(({ kept }) => !alive.has(kept.branch));
  return new TaskdError("not_found", `There is nothing to undo on ${formatAddress(address)}`, {
    hint: other === undefined
      ? "What was destroyed, rolled back or replaced is kept for 7 days"
      : `${address.db}@${other.kept.branch} was destroyed at ${other.kept.at}: taskd undo ${address.db}@${other.kept.branch}`,
  });
}

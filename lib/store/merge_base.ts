/**
 * What two branches have in common: the point from which a three-way merge looks at both. That is where one was forked
 * from the other, or what one has taken from the other since; a record of either counts only while its branch still has
 * it, which a rollback or a promote may have ended.
 */

import { type Base, placeOf } from "./chain.ts";
import type { StoreContext } from "./context.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { type Address, type BranchName, DEFAULT_BRANCH, formatAddress, requireBranch } from "./names.ts";
import { loggedPoints } from "./point_log.ts";
import type { ContentPoint, MergeRecord, Ref } from "./ref.ts";
import type { MergeInfo } from "./results.ts";

/** Merges that a branch remembers; of an older one only the rows are left. */
export const MAX_MERGES = 32;

/** Lineages before its own that a branch remembers. */
const MAX_PAST = 64;

/** What a branch's log calls points with which its history goes on. */
const GOES_ON = ["create", "fork", "checkpoint", "merge", "revert", "compact"];

/** Points of other branches that a merge remembers to have brought with its source. */
const MAX_ALSO = 8;

/** How far a branch's history goes in each lineage. */
type Reach = ReadonlyMap<string, number>;

/** A branch, or one of its checkpoints, as one side of a merge. */
export interface MergeSideRef {
  address: Address;
  ref: Ref;
  at: ContentPoint;
}

/**
 * The newest point that both sides have.
 *
 * @throws {TaskdError} `conflict` when none is known, or it is stored no more.
 */
export async function mergeBase(
  context: StoreContext,
  source: MergeSideRef,
  target: MergeSideRef,
): Promise<ContentPoint> {
  const found = await commonPoint(context, source, target);
  if (found !== undefined) return found;
  throw new TaskdError(
    "conflict",
    `Cannot merge ${formatAddress(source.address)} into ${formatAddress(target.address)}: no common point is known`,
    { hint: "One has to be a fork of the other, or both of a third; `taskd promote` replaces a branch whole" },
  );
}

/**
 * Where the source was forked, which has to be at `place`: what it changed since is brought, and nothing else, also into
 * a target that has gone back behind that. Where the target has all of the source it is the source itself.
 *
 * @throws {TaskdError} `conflict` when it was forked elsewhere.
 */
export async function forkBase(
  context: StoreContext,
  source: MergeSideRef,
  target: MergeSideRef,
  place: string,
): Promise<ContentPoint> {
  const found = await commonPoint(context, source, target);
  if (found?.lineage === source.at.lineage && found.txid === source.at.txid) return found;
  const origin = originOf(source.ref);
  if (origin !== undefined && placeOf(origin) === place) return origin;
  throw new TaskdError("conflict", `Cannot merge ${formatAddress(source.address)}: it was not forked at ${place}`, {
    hint: "It was promoted onto or rolled back since: compare again",
  });
}

async function commonPoint(
  context: StoreContext,
  source: MergeSideRef,
  target: MergeSideRef,
): Promise<ContentPoint | undefined> {
  const reach = { source: await reachOf(context, source), target: await reachOf(context, target) };
  const taken = {
    source: takenOf(source.ref).filter(({ onto }) => has(reach.source, onto)),
    target: takenOf(target.ref).filter(({ onto }) => has(reach.target, onto)),
  };
  const merged = [...taken.source, ...taken.target];
  await addMerged(context, reach.source, taken.source);
  await addMerged(context, reach.target, taken.target);
  const known = [target.at, source.at, originOf(source.ref), originOf(target.ref), ...merged.flatMap(pointsOf)];
  const common = known.filter((point) => point !== undefined).filter((point) =>
    has(reach.source, point) && has(reach.target, point)
  );
  return (await inFront(context, common, merged)).at(-1);
}

/** The points that a merge brought. */
function pointsOf({ source, also = [] }: Pick<MergeRecord, "source" | "also">): ContentPoint[] {
  return [...also, source];
}

/** Adds what came by merges to what a branch, or a point, has of its own. */
async function addMerged(
  context: StoreContext,
  reach: Map<string, number>,
  merged: readonly MergeRecord[],
): Promise<void> {
  let left = merged;
  for (;;) {
    const come = left.filter(({ onto }) => has(reach, onto));
    if (come.length === 0) return;
    left = left.filter((merge) => !come.includes(merge));
    for (const [lineage, txid] of await walk(context, come.flatMap(pointsOf))) {
      reach.set(lineage, Math.max(txid, reach.get(lineage) ?? 0));
    }
  }
}

/** The merges of a branch that no other one has taken back, unless that was taken back itself. */
function notTakenBack({ merges = [] }: Ref): MergeRecord[] {
  const taken_back = new Set<string>();
  for (const { id, reverts } of merges.toReversed()) {
    if (reverts !== undefined && !taken_back.has(id)) taken_back.add(reverts);
  }
  return merges.filter(({ id }) => !taken_back.has(id));
}

/** What a branch has of others. What was taken back is brought again by the next merge, so that no reversal is among it. */
function takenOf(ref: Ref): MergeRecord[] {
  return notTakenBack(ref).filter(({ reverts }) => reverts === undefined);
}

/**
 * What a merge of this branch brings of other branches, which have been merged into it: the newest that are known.
 * Without it, a branch that gets them by way of a third one would get them twice.
 */
export async function alsoOf(context: StoreContext, side: MergeSideRef): Promise<ContentPoint[]> {
  const reach = await reachOf(context, side);
  const found = takenOf(side.ref).filter(({ onto }) => has(reach, onto)).flatMap(pointsOf);
  const newest = new Map(found.map((point) => [point.lineage, point]));
  return [...newest.values()].slice(-MAX_ALSO);
}

/**
 * The points that no other of them has, by its chain or by a merge. Of two that have each other, as after a merge that
 * found all of it there, the later one.
 */
async function inFront(
  context: StoreContext,
  points: readonly ContentPoint[],
  merged: readonly MergeRecord[],
): Promise<ContentPoint[]> {
  const distinct = [...new Map(points.map((point) => [`${point.lineage}/${point.txid}`, point])).values()];
  const reaches = await Promise.all(distinct.map(async (point) => {
    const reach = await walk(context, [point]);
    await addMerged(context, reach, merged);
    return reach;
  }));
  return distinct.filter((point, i) =>
    !reaches.some((reach, j) => i !== j && has(reach, point) && (j > i || !has(reaches[i]!, distinct[j])))
  );
}

/** Where a branch was forked. */
function originOf({ base, origin }: Ref): ContentPoint | undefined {
  if (origin !== undefined || base?.digest === undefined) return origin;
  const { lineage, txid, digest } = base;
  return { lineage, txid, digest };
}

function has(reach: Reach, point: Base | undefined): boolean {
  return point !== undefined && point.txid <= (reach.get(point.lineage) ?? -1);
}

/** What a full copy continues is in no base pointer: the ref says it, of the branch's present lineage. */
async function reachOf(context: StoreContext, { at, ref }: MergeSideRef): Promise<Map<string, number>> {
  const { past = [] } = ref;
  const origin = originOf(ref);
  const starts = [at, ...at.lineage === ref.lineage ? past : [], ...origin === undefined ? [] : [origin]];
  const reach = await walk(context, starts);
  if (at.lineage !== ref.lineage || at.txid !== ref.txid) return reach;
  // Folded points lie in lineages to which none leads; up to what moved the branch elsewhere, they are all its own.
  for (const { lineage, txid, op, folded } of loggedPoints(ref)) {
    if (folded !== undefined) reach.set(lineage, Math.max(txid, reach.get(lineage) ?? 0));
    if (op !== undefined && !GOES_ON.includes(op)) break;
  }
  return reach;
}

async function walk({ chains }: StoreContext, starts: readonly Base[]): Promise<Map<string, number>> {
  const reach = new Map<string, number>();
  for (const start of starts) {
    for (let next: Base | undefined = start; next !== undefined;) {
      const { lineage, txid }: Base = next;
      if ((reach.get(lineage) ?? -1) >= txid) break;
      reach.set(lineage, txid);
      const base = await chains.base(lineage).catch(unreadable);
      next = base && { lineage: base.lineage, txid: Math.min(base.txid, txid) };
    }
  }
  return reach;
}

/** Beyond a damaged base pointer nothing is known: that ends what can be merged, and nothing else. */
function unreadable(error: unknown): undefined {
  if (!hasCode(error, "corrupt")) throw error;
}

/**
 * What a branch's ref is to say of its past once it continues `from` in another lineage.
 *
 * @param refs The branch's, and that of the branch whose point it is.
 * @param shared Whether the new lineage has a base pointer, which says the same.
 * @param digest Of the object that ends at `from`: a branch that follows one which was no fork is a fork of it from there.
 */
export async function pastOf(
  context: StoreContext,
  refs: readonly Ref[],
  { from, shared, digest }: { from: Base; shared: boolean; digest?: string },
): Promise<Pick<Ref, "past" | "origin">> {
  const reach = await walk(context, [from]);
  // Of a branch whose lineage is left, what came before that is no past of the point.
  const known = refs.filter(({ lineage }) => reach.has(lineage));
  const found = Array.from(reach, ([lineage, txid]) => ({ lineage, txid }));
  const past = [...shared ? [] : found, ...known.flatMap(({ past = [] }) => past)].slice(0, MAX_PAST);
  // The branch's own, also none, while it goes on; else that of the branch which it follows.
  const follows = known[0] ?? refs.find((ref) => has(reach, originOf(ref)));
  const forked = digest === undefined || known.includes(refs[0]!) ? undefined : { ...from, digest };
  const origin = (follows && originOf(follows)) ?? forked;
  return { ...(past.length === 0 ? {} : { past }), ...(origin === undefined ? {} : { origin }) };
}

/** The ref with one merge more, unless it has that. */
export function withMerge(ref: Ref, merge: MergeRecord): Ref {
  if (ref.merges?.some(({ id }) => id === merge.id)) return ref;
  return { ...ref, merges: [...ref.merges ?? [], merge].slice(-MAX_MERGES) };
}

/** The merges of a branch that are still in it: neither taken back nor before a rollback or another end of its history. */
export async function mergesInForce(context: StoreContext, address: Address, ref: Ref): Promise<MergeRecord[]> {
  const { lineage, txid, digest } = ref;
  const reach = await reachOf(context, { address, ref, at: { lineage, txid, digest } });
  return notTakenBack(ref).filter(({ onto }) => has(reach, onto));
}

/** The merges that a branch remembers, newest first. */
export async function merges(context: StoreContext, address: Address): Promise<MergeInfo[]> {
  requireBranch(address, "list the merges of");
  const { ref } = await context.refs.read(address.db, address.branch);
  const known = new Set(await mergesInForce(context, address, ref));
  return [...ref.merges ?? []].reverse().map((merge) => {
    const { id, at, from, onto, reverts } = merge;
    const info = { merge: id, at, from, txid: onto.txid, in_force: known.has(merge) };
    return reverts === undefined ? info : { ...info, reverts };
  });
}

/**
 * The branch that a branch was forked from: the one that continues the lineage of its fork point, or `main`, where that
 * has the point.
 *
 * @throws {TaskdError} `conflict` when it was forked from none that is there.
 */
export async function parentOf(context: StoreContext, address: Address): Promise<BranchName> {
  requireBranch(address, "find the parent of");
  const { db, branch } = address;
  const { ref } = await context.refs.read(db, branch);
  const origin = originOf(ref);
  const names = origin === undefined ? [] : (await context.refs.list(db)).filter((other) => other.branch !== branch);
  // Most are forks of it, and it is read first.
  names.sort((a, b) => Number(b.branch === DEFAULT_BRANCH) - Number(a.branch === DEFAULT_BRANCH));
  let main: Ref | undefined;
  for (const found of names) {
    const { ref: other } = await context.refs.read(db, found.branch);
    if (other.kept === undefined && has(new Map([[other.lineage, other.txid]]), origin)) return found;
    if (found.branch === DEFAULT_BRANCH) main = other;
  }
  if (main !== undefined) {
    const { lineage, txid, digest } = main;
    const side = { address: { db, branch: DEFAULT_BRANCH }, ref: main, at: { lineage, txid, digest } };
    if (has(await reachOf(context, side), origin)) return side.address;
  }
  throw new TaskdError(
    "conflict",
    `Cannot reset ${formatAddress(address)}: the branch it was forked from is not known`,
    {
      hint: `Name what it shall hold: taskd promote <branch> --onto ${branch}`,
    },
  );
}

/** Points that a ref's later merges begin at. */
export function mergePointsOf(ref: Ref): ContentPoint[] {
  const { merges = [] } = ref;
  const origin = originOf(ref);
  return [
    ...origin === undefined ? [] : [origin],
    ...merges.flatMap(({ base, before, ...brought }) => [base, ...pointsOf(brought), ...before ? [before] : []]),
  ];
}

/**
 * Folding: points of a branch's past that are kept are given objects of their own, which say what changed since a point
 * far before them, in place of the chain of small segments and frequent snapshots in which they were written. Those go as
 * garbage then, unless a head, a checkpoint or another branch needs them. How folded points lie: fold_plan.ts.
 *
 * One run of points becomes one lineage with a base pointer, complete before the ref names it, in these steps:
 *
 * 1. The ref announces it (`folding`): from here on garbage collection keeps the lineage and what it continues.
 * 2. The tombstones are read, as all that make a ref reach objects do: gc.ts, 2.
 * 3. The lineage is written: its base pointer, then an object for each point.
 * 4. In one compare-and-swap the branch's log names the points there, and the announcement goes.
 *
 * No lease is needed, and a session goes on: the head and its chain are left as they are. Two that fold one branch at once
 * differ by the announcement, which the later one has replaced: the swap of the other is refused. Whatever stops
 * at any step leaves the points where they were, and garbage.
 *
 * A point of which something is damaged stays where it is, is known as damage from then on, and holds up no other.
 */

import { join } from "node:path/posix";
import { hasCode, TaskdError, throwIfInterrupted } from "../errors.ts";
import { ImageFile } from "../sqlite/checkout_file.ts";
import { lockPage } from "../sqlite/header.ts";
import { changedPages } from "../sqlite/changed_pages.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import { type Base, type Chain, type ChainObject, chainOf, encodeBase, isShareable, viewsOf } from "./chain.ts";
import { walkBack } from "./chain.ts";
import { isoNow, newLineage, type StoreContext } from "./context.ts";
import { translated, unreadable } from "./errors.ts";
import { depthOfRun, MAX_FOLDED_CHAIN, parentInRun, parentsOf, runOf } from "./fold_plan.ts";
import { keptPoints } from "./history.ts";
import { baseKey } from "./keys.ts";
import { refuseClaimed } from "./lease.ts";
import { LAYOUT_SHARED, raiseLayout } from "./manifest.ts";
import { TreeImage } from "./materialize.ts";
import { type BranchName, formatAddress } from "./names.ts";
import { readObjectIndex } from "./object_index.ts";
import { type Head, writeSegment } from "./objects.ts";
import { type LoggedPoint, loggedPoints, withPoints } from "./point_log.ts";
import { opOf } from "./points.ts";
import type { Ref } from "./ref.ts";
import type { FoldResult } from "./results.ts";
import { isDamage, KnownDamage } from "./_fold_damage.ts";
import { DEFAULT_LEVELS, HOUR_MS, type KeepLevel, retained } from "./retention.ts";
import type { Ages } from "./timeline.ts";
import { type ListVersion, listVersion, spare } from "./tombstones.ts";

/** Bytes of chains that one call reads, after which it begins no other run; a run that is larger is done all the same. */
const MAX_BYTES = 1 << 30;
/** An announcement of so long ago is that of a process which is gone; one that is not is refused its swap. */
const ABANDONED_MS = HOUR_MS;
/** What `--at` may ask for although it is not kept: garbage collection has its grace. */
const YOUNG: KeepLevel = { every_ms: 0, for_ms: HOUR_MS };
/** So many points that are kept no more are worth a write of their own. */
const PRUNED_TOGETHER = 64;

/** What folding accepts. */
export interface FoldOptions {
  /** How long the points of branches are kept that do not say so themselves; {@linkcode DEFAULT_LEVELS} when absent. */
  keep?: readonly KeepLevel[];
  /** Bytes of chains to read, about; 1 GiB when absent. */
  max_bytes?: number;
  /** Ends it early; what is not folded by then is by the next call. */
  signal?: AbortSignal | undefined;
}

/**
 * Drops points from the branches' logs that no level keeps, and folds those that are kept and that neither a head's chain
 * holds nor folding has dealt with. A branch that cannot be folded holds up no other, and is tried again by the next call.
 *
 * @throws {TaskdError} `denied`, `unavailable` (the branches cannot be listed).
 */
export async function foldHistory(context: StoreContext, options: FoldOptions = {}): Promise<FoldResult> {
  const ages = await context.timeline.look();
  const result: FoldResult = { folded: 0, pruned: 0, read_bytes: 0, stored_bytes: 0, failed: [] };
  for (const name of await context.refs.list()) {
    throwIfInterrupted(options.signal);
    const damage = new KnownDamage(context, name, result);
    try {
      while (
        result.read_bytes < (options.max_bytes ?? MAX_BYTES) &&
        await foldRun(context, name, { ...options, ages, damage }, result)
      );
    } catch (error) {
      throwIfInterrupted(options.signal);
      if (!hasCode(error, ...PASSED_OVER)) result.failed.push({ ...name, error: (error as Error).message });
    }
  }
  return result;
}

/** Codes of a branch that is going or gone, or that another process has folded just then. */
const PASSED_OVER = ["not_found", "branch_deleting", "branch_reaping", "conflict"] as const;

/** Points to fold, and the chains at which they are now. */
interface Run {
  points: { point: LoggedPoint; chain: Chain }[];
  /** What the first of them is to follow: a folded point or else its own snapshot. */
  after: Chain;
  /** {@linkcode LoggedPoint.folded} of what it follows, or the next. */
  root: number;
  /** The last folded point before it, for where it has little in common with what it is to follow. */
  nearest?: Chain | undefined;
}

/** All that a run reads. */
function chainsOf({ points, after, nearest }: Run): Chain[] {
  return [after, ...nearest ? [nearest] : [], ...points.map(({ chain }) => chain)];
}

/** Deals with one run of one branch; false when there is nothing left to do. */
async function foldRun(
  context: StoreContext,
  name: BranchName,
  options: FoldOptions & { ages: Ages; damage: KnownDamage },
  result: FoldResult,
): Promise<boolean> {
  const since = await listVersion(context.backend);
  const { ref } = await context.refs.read(name.db, name.branch);
  refuseClaimed(ref);
  const { clock } = context;
  const logged = loggedPoints(ref);
  const kept = keptPoints(ref, options.keep ?? DEFAULT_LEVELS, options.ages);
  const run = await nextRun(context, ref, kept, options.damage);
  const left = leftIn(ref, options).length;
  const dropped = logged.length - left;
  if (run === undefined) {
    const abandoned = ref.folding !== undefined && clock.now() - Date.parse(ref.folding.at) > ABANDONED_MS;
    if (dropped < PRUNED_TOGETHER && !abandoned) return false;
    const seen = ref.folding?.nonce;
    await context.refs.update(name.db, name.branch, (ref) => {
      refuseClaimed(ref);
      const { folding, ...rest } = ref;
      return withPoints(abandoned && folding?.nonce === seen ? rest : ref, leftIn(ref, options));
    });
    result.pruned += dropped;
    return false;
  }
  let done: Done;
  try {
    done = isRoot(run) ? run : await store(context, name, run, { ...options, since, result });
  } catch (error) {
    throwIfInterrupted(options.signal);
    if (!isDamage(unreadable(error)) || !await options.damage.look(chainsOf(run))) throw error;
    return true;
  }
  await swap(context, name, done, options);
  result.pruned += dropped;
  result.folded += done.points.length;
  return true;
}

/** The points of a ref's log, without those that are kept no more; what is young may still be there without being kept. */
function leftIn(ref: Ref, { keep = DEFAULT_LEVELS, ages }: FoldOptions & { ages: Ages }): LoggedPoint[] {
  const logged = loggedPoints(ref);
  const [head, ...past] = logged;
  return [head!, ...retained(past, [...ref.keep ?? keep, YOUNG], ages.ofPoints(logged).slice(1))];
}

/** The oldest points of a branch that are to be folded; undefined when there are none. */
async function nextRun(
  { backend }: StoreContext,
  ref: Ref,
  kept: readonly LoggedPoint[],
  damage: KnownDamage,
): Promise<Run | undefined> {
  const unfolded = kept.filter(({ folded }) => folded === undefined).reverse();
  if (unfolded.length === 0) return undefined;
  const view = viewsOf(backend);
  const resolve = async (at: Base): Promise<Chain | undefined> => {
    try {
      return chainOf((await Array.fromAsync(walkBack(at, view))).reverse(), at.txid);
    } catch (error) {
      // It is there no more.
      if (!hasCode(error, "chain_gap")) throw error;
      return undefined;
    }
  };
  const present = await resolve(ref);
  // A head with a gap is for repair: what its chain holds is not known.
  if (!present) return undefined;
  const head = new Set(present.objects.map(({ key }) => key));
  const found: Run["points"] = [];
  let page_size: number | undefined;
  for (const point of unfolded) {
    if (runOf([...found.map(({ point }) => point), point]).length <= found.length) break;
    const chain = await damage.passing(point, () => resolve(point));
    const last = chain?.objects.at(-1);
    if (!chain || !last || head.has(last.key) || damage.has(chain)) continue;
    const { header } = await damage.passing(last, () => readObjectIndex(backend, last)) ?? {};
    if (!header) continue;
    if (header.page_size !== (page_size ??= header.page_size)) break;
    found.push({ point, chain });
  }
  const [first] = found;
  if (first === undefined) return undefined;
  const need = depthOfRun(found.length);
  const older = kept.slice(kept.indexOf(first.point)).reverse();
  const root = Math.max(0, ...loggedPoints(ref).map(({ folded = 0 }) => folded));
  // What lies at an earlier snapshot differs too much, or may go before this does.
  const folded = older.filter((point) => point.folded === root && point.txid < first.point.txid);
  const usable = async (point: LoggedPoint | undefined) => {
    const chain = point && await damage.passing(point, () => resolve(point));
    if (!chain || chain.objects.length + need > MAX_FOLDED_CHAIN || !isShareable(chain)) return undefined;
    const last = chain.objects.at(-1)!;
    if (damage.has(chain)) return undefined;
    const { header } = await damage.passing(last, () => readObjectIndex(backend, last)) ?? {};
    return header?.page_size === page_size ? chain : undefined;
  };
  for (const parent of parentsOf(first.point, folded)) {
    const after = await usable(parent);
    if (after) return { points: found, after, root, nearest: await usable(folded.at(-1)) };
  }
  return ownRoot({ points: found, root });
}

/** The run with a snapshot of its own, that of the first point's chain. */
function ownRoot({ points, root }: Pick<Run, "points" | "root">): Run {
  const [snapshot, ...more] = points[0]!.chain.objects;
  // A point that is the snapshot stays where it is, and the others follow it as they would any other.
  const together = more.length === 0 ? points.slice(0, 1) : points;
  return { points: together, after: chainOf([snapshot!], snapshot!.last), root: root + 1 };
}

/** Whether the first point is the snapshot that it is to follow: it stays where it is, and is folded as it is. */
function isRoot({ points: [first], after }: Run): boolean {
  return first!.chain.id === after.id;
}

/** A run that is stored, in a lineage of its own unless it is a root. */
type Done = Run & { lineage?: string };

/** Steps 1 to 3. */
async function store(
  context: StoreContext,
  { db, branch }: BranchName,
  planned: Run,
  { since, result, signal }: FoldOptions & { since: ListVersion; result: FoldResult },
): Promise<Done> {
  const { backend, refs, workspace } = context;
  const attempted = `Cannot fold points of ${formatAddress({ db, branch })}`;
  const onBytes = (count: number) => {
    throwIfInterrupted(signal);
    result.read_bytes += count;
  };
  const path = () => workspace.beside(join(workspace.root, "tmp", "fold"));
  using before = new TreeImage(backend, path());
  using image = new TreeImage(backend, path());
  const [first] = planned.points;
  await image.rebuild(first!.chain.objects, onBytes);
  let run = planned;
  let { digest } = await before.rebuild(run.after.objects, onBytes);
  let differences = await differing(before.path, image.path);
  const better = await betterThan(context, run, differences.size);
  if (better) {
    run = better;
    if (isRoot(run)) return run;
    ({ digest } = await before.rebuild(run.after.objects, onBytes));
    differences = await differing(before.path, image.path);
  }
  const { points, after } = run;
  const lineage = newLineage(context);
  const base = { lineage: after.objects.at(-1)!.lineage, txid: after.txid };
  const folding = { nonce: lineage, at: isoNow(context), lineage, base };
  await refs.update(db, branch, (ref) => {
    refuseClaimed(ref);
    return { ...ref, folding };
  });
  await spare(context, attempted, { at: base, chain: after, since });
  if (context.layout_version < LAYOUT_SHARED) {
    context.layout_version = (await raiseLayout(backend, LAYOUT_SHARED)).layout_version;
  }
  await translated(attempted, () => backend.create(baseKey(lineage), encodeBase(base)));
  const heads: Head[] = [];
  /** What each changed against the one before it. */
  const changed = [differences];
  let applied = first!.chain.objects;
  for (const [number, { point: { txid }, chain }] of points.entries()) {
    if (number > 0) changed.push(await advance(context, image, applied, chain.objects, { path, onBytes }));
    applied = chain.objects;
    using now = ImageFile.open(image.path);
    const parent = parentInRun(number);
    const pages = unionOf(changed.slice(parent === undefined ? number : parent + 1, number + 1), now);
    const { page_count } = now;
    const written = await writeSegment(backend, { lineage, epoch: 1 }, {
      prev: parent === undefined ? { txid: after.txid, digest, kind: "segment" } : heads[parent]!,
      txid,
      changes: { pages, page_count, low_page_count: page_count, commits: txid - after.txid },
      image: now,
    });
    result.stored_bytes += written.stored_bytes;
    heads.push(written.head);
  }
  return { ...run, lineage };
}

/**
 * What a run is to follow where most of the database was written anew since what it was to follow, as by a bulk load:
 * its own snapshot, if that is after it, for all that comes later had to say it again; else the point before it.
 */
async function betterThan({ backend }: StoreContext, run: Run, changed: number): Promise<Run | undefined> {
  const { after, nearest } = run;
  const { objects } = run.points[0]!.chain;
  const pagesOf = async (object: ChainObject) => (await readObjectIndex(backend, object)).header.page_count;
  const most = await pagesOf(objects.at(-1)!) / 2;
  if (changed <= most) return undefined;
  if (objects[0]!.key !== after.objects[0]!.key && await pagesOf(objects[0]!) > most) return ownRoot(run);
  return nearest === undefined || nearest.id === after.id ? undefined : { ...run, after: nearest };
}

/** Brings an image on from a chain to the next, and returns the pages that may have changed. */
async function advance(
  { backend }: StoreContext,
  image: TreeImage,
  from: readonly ChainObject[],
  to: readonly ChainObject[],
  { path, onBytes }: { path: () => string; onBytes: (count: number) => void },
): Promise<Set<number>> {
  const more = to.slice(from.length);
  if (!from.every(({ key }, index) => key === to[index]?.key) || more.some(({ kind }) => kind === "snapshot")) {
    using earlier = image.fork(path());
    await image.rebuild(to, onBytes);
    return await differing(earlier.path, image.path);
  }
  const pages = new Set<number>();
  for (const object of more) {
    await image.apply(object, onBytes);
    for (const [pgno] of (await readObjectIndex(backend, object)).entries()) pages.add(pgno);
  }
  return pages;
}

/** Page numbers of some changes that an image still has, ascending; the first page where there is none. */
function unionOf(changes: readonly Set<number>[], { page_size, page_count }: DatabaseImage): number[] {
  const all = new Set(changes.flatMap((pages) => [...pages]));
  const pages = [...all].filter((pgno) => pgno <= page_count && pgno !== lockPage(page_size)).sort((a, b) => a - b);
  return pages.length === 0 ? [1] : pages;
}

/** The pages of an image in a file that are not as in an earlier one. */
async function differing(before_path: string, now_path: string): Promise<Set<number>> {
  using before = ImageFile.open(before_path);
  using now = ImageFile.open(now_path);
  return new Set(await changedPages(before, now));
}

/** Step 4: the points of the run are in its lineage now; where they are, when it has none. */
async function swap(
  context: StoreContext,
  { db, branch }: BranchName,
  { points: stored, lineage, root }: Done,
  options: FoldOptions & { ages: Ages },
): Promise<void> {
  const keyOf = (point: LoggedPoint) => `${point.lineage}/${point.txid}/${point.at_ms}`;
  const folded = new Map(stored.map(({ point, chain }) => [keyOf(point), chain.objects.at(-1)!.lineage]));
  await context.refs.update(db, branch, (ref) => {
    refuseClaimed(ref);
    const logged = loggedPoints(ref);
    if (lineage !== undefined && ref.folding?.nonce !== lineage) {
      // Our own write succeeded, but its answer was lost and the ref has been changed since.
      if (logged.some((point) => point.lineage === lineage)) return undefined;
      throw new TaskdError("conflict", `Cannot fold points of ${formatAddress({ db, branch })}: another process does`, {
        hint: "Try again",
      });
    }
    const points = logged.map((point, index): LoggedPoint => {
      const here = index === 0 ? undefined : folded.get(keyOf(point));
      if (here === undefined) return point;
      const op = opOf(ref, point);
      return { ...point, lineage: lineage ?? here, ...(op === undefined ? {} : { op }), folded: root };
    });
    const { folding, ...rest } = withPoints(ref, points);
    const next: Ref = lineage === undefined && folding !== undefined ? { ...rest, folding } : rest;
    return withPoints(next, leftIn(next, options));
  });
}

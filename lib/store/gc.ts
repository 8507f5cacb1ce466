/**
 * Garbage collection: deletes objects that no branch reaches. It runs beside every other
 * operation and beside other passes, without a lock, and is safe in any interleaving.
 *
 * What is reached: for every ref the chain of its head and of each checkpoint, each in its own
 * lineage, with image indexes and the base pointers on the way; also what a lease's holder may
 * be writing (its lineage at or above its epoch and head), and what it is about to make its
 * branch of (`pending` in the ref), or folding to keep points in (`folding`). Anything of that which cannot be
 * read, parsed or resolved fails the pass before it changes anything. Kept points of the past are reached, too, as
 * far as they are there: a ref only ever gains those that its head was at, or that folding has announced.
 *
 * A pass reads the tombstones (1), reads the refs (2), lists the objects (3), resolves (4), and
 * by one compare-and-swap over what it read in 1 writes new tombstones and dooms those past
 * their grace (5). It then reads the refs again and revokes new tombstones on what came to
 * be reached meanwhile (6), and deletes what is doomed (7). Invariants:
 *
 * 1. Refs are read before objects are listed, and a ref is written after its objects: what a
 *    ref that was read needs is in the listing. What is written later is not, so it is not touched.
 * 2. A process that makes a ref reach objects that it did not reach before (create, fork, safety forks;
 *    rollback, promote and compact with `pending`, folding with `folding`) writes the ref first (R), then reads the
 *    tombstones (C): it revokes those that cover what it relies on, its own new lineage
 *    included, and withdraws the ref if that is doomed or gone.
 * 3. Nothing is doomed that had no tombstone on the list at 1, and since the swap at 5 holds,
 *    it was listed all the time from 1 to 5. Take an R that makes a doomed object reached. If R
 *    is before 2, then 2 saw it (a listing is not older than its beginning) and the object
 *    was not doomed, or the ref was gone already. If R is after 2, then C is after 1: it revokes
 *    the tombstone, and the swap at 5 fails; or it sees the doom, which never ends while the
 *    object is there: R is withdrawn. So no acknowledged branch reaches a doomed object. A
 *    branch that moves from one ref to another unseen by 2 does so by an R as well.
 * 4. Doom is forgotten once its objects are gone. A maker notes the list's version before it first reads the store (P).
 *    If C finds another, doom may have come and gone in between, and it checks that its objects are there: after C, as
 *    what is doomed and there then is still listed at C. No clock takes part: hosts may differ by any time, and
 *    processes stand still for any: docs/model/gc.pml.
 * 5. A process may die between R and C. The next to use its ref (epoch 1) does C in its place, before it takes the
 *    lease. A ref that needs something doomed was so never acknowledged nor used, and is removed by the pass
 *    (`withdrawn`). Only if it was also paused before R until the list had forgotten does the pass fail instead, naming
 *    the branch, which a person can then destroy.
 * 6. A tombstone of a whole lineage covers what appears in it later, so a lineage that is still
 *    being made without a ref is treated as one: its maker's C finds the tombstone. This holds with a grace
 *    of 0 too; the grace only makes such conflicts rare.
 */

import { isBackendError } from "../backend/backend.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { Marker, PARALLEL_READS, pinsOf, takeInventory } from "./_gc_mark.ts";
import type { FoundRef, Inventory, StoredKey } from "./_gc_mark.ts";
import { type GcPlan, makePlan } from "./_gc_plan.ts";
import { inParallel } from "../in_parallel.ts";
import { type Base, Chains, placeOf } from "./chain.ts";
import { keptPoints, pointsOf } from "./history.ts";
import type { StoreContext } from "./context.ts";
import type { HistoryCost } from "./results.ts";
import type { KeepLevel } from "./retention.ts";
import type { Ages } from "./timeline.ts";
import { keysOf, readTombstones, shortName, TombstoneIndex, without, writeTombstones } from "./tombstones.ts";
import type { Tombstone, VersionedTombstones } from "./tombstones.ts";

/** How long an object keeps its tombstone before it is deleted; the contract's number. */
export const DEFAULT_GC_GRACE_MS = 15 * 60_000;
/** Deletions under way at once. */
const PARALLEL_DELETES = 16;
/** How often a pass starts over because another one wrote the tombstones. */
const MAX_ATTEMPTS = 3;

/** Options of a pass. */
export interface GcOptions {
  /** Milliseconds that an object keeps its tombstone; 0 lets the next pass delete it. */
  grace_ms: number;
  /** How long the points of branches are kept that do not say so themselves; absent: they are not. */
  keep?: readonly KeepLevel[];
  /** Change nothing, and return what a pass would do. */
  dry_run?: boolean;
  /** Ends the pass early. What is doomed by then is deleted by the next. */
  signal?: AbortSignal | undefined;
  /** Receives how many objects have been listed. */
  onProgress?: (objects: number) => void;
}

/** Result of a pass; counts are of objects. */
export interface GcResult {
  /** Reached by a branch. */
  marked: number;
  /** Newly tombstoned. */
  tombstoned: number;
  /** Deleted. */
  deleted: number;
  /** Tombstoned, in their grace period. */
  backlog: number;
  /** Bytes of these. */
  backlog_bytes: number;
  /** Not reached and left alone: unknown names, what a branch may be writing, what the list of tombstones has no room for. */
  kept: number;
  /** Bytes of the deleted. */
  bytes_deleted: number;
  /** Doomed, and could not be deleted this time; the reasons are in the log. */
  undeleted: number;
  /** Branches removed because their maker died before it could withdraw them. */
  withdrawn: { db: string; branch: string }[];
  /** What the points of the past cost, of each branch that has some; what several need is counted for the first. */
  history: HistoryCost[];
}

/**
 * Runs one pass.
 *
 * @throws {TaskdError} `gc_failed` when reachability could not be established (nothing was deleted), `conflict` when
 * other passes keep changing the tombstones, `interrupted`; why the tombstones cannot be written (nothing was deleted).
 */
export async function collectGarbage(context: StoreContext, options: GcOptions): Promise<GcResult> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const result = await runPass(context, options);
    if (result) return result;
  }
  throw new TaskdError("conflict", "Cannot collect garbage: other passes keep changing the tombstones", {
    hint: "One at a time is enough",
  });
}

interface Survey {
  list: VersionedTombstones | undefined;
  index: TombstoneIndex;
  refs: FoundRef[];
  inventory: Inventory;
  marker: Marker;
  unfinished: FoundRef[];
  history: HistoryCost[];
  ages: Ages;
}

/** One pass; undefined when another one changed the tombstones meanwhile. */
async function runPass(context: StoreContext, options: GcOptions): Promise<GcResult | undefined> {
  const list = await failingClosed(options, () => readTombstones(context.backend));
  const seen = await failingClosed(options, () => survey(context, options, list)).catch(async (error) => {
    // What another pass has deleted since is missing in refs that were read before, and may be needed by none now.
    if (hasCode(error, "interrupted") || !await isChanged(context, list)) throw error;
  });
  if (seen === undefined) return undefined;
  if (!options.dry_run) await failingClosed(options, () => withdrawAll(context, seen.unfinished));
  const plan = makePlan(seen, { now_ms: context.clock.now(), grace_ms: options.grace_ms });
  const result: GcResult = {
    marked: seen.marker.marked.size,
    tombstoned: plan.tombstoned,
    deleted: plan.victims.length,
    backlog: plan.backlog,
    backlog_bytes: plan.backlog_bytes,
    kept: plan.kept,
    bytes_deleted: plan.victims.reduce((sum, { size }) => sum + size, 0),
    undeleted: 0,
    withdrawn: seen.unfinished.map(({ db, branch }) => ({ db, branch })),
    history: seen.history,
  };
  if (options.dry_run) return result;
  const landed = await publish(context, seen, plan);
  if (!landed) return undefined;
  const revived = plan.tombstoned === 0
    ? 0
    : await failingClosed(options, () => reviveLate(context, seen, { ...options, ...plan, ...landed }));
  return {
    ...result,
    tombstoned: result.tombstoned - revived,
    backlog: result.backlog - revived,
    ...await deleteAll(context, plan.victims, options.signal),
  };
}

/** Steps 1 to 4. */
async function survey(
  context: StoreContext,
  options: GcOptions,
  list: VersionedTombstones | undefined,
): Promise<Survey> {
  const { backend, refs } = context;
  const ages = await context.timeline.look({ dry_run: options.dry_run });
  const index = new TombstoneIndex(list?.tombstones ?? []);
  const found = await refs.all({ signal: options.signal });
  const inventory = await takeInventory(backend, options);
  const marker = new Marker(backend, inventory, index);
  const unfinished: FoundRef[] = [];
  await inParallel(found, PARALLEL_READS, async (ref) => {
    options.signal?.throwIfAborted();
    if (!await marker.add(ref)) unfinished.push(ref);
  });
  // After all heads: what is marked from here on is what history costs.
  const history: HistoryCost[] = [];
  const past = found.filter((each) => !unfinished.includes(each)).map((each) =>
    [each, keptPoints(each.ref, options.keep ?? [], ages)] as const
  );
  await marker.look(past.flatMap(([, points]) => points.map(({ lineage }) => lineage)), options.signal);
  for (const [ref, points] of past) {
    options.signal?.throwIfAborted();
    history.push(await marker.addPast(ref, points));
  }
  return {
    list,
    index,
    refs: found,
    inventory,
    marker,
    unfinished,
    history: history.filter(({ points }) => points > 0),
    ages,
  };
}

/** Whether another pass has written the list of tombstones since. */
async function isChanged({ backend }: StoreContext, list: VersionedTombstones | undefined): Promise<boolean> {
  const now = await readTombstones(backend).catch(() => list);
  return now?.etag !== list?.etag;
}

async function withdrawAll({ refs, log }: StoreContext, unfinished: FoundRef[]): Promise<void> {
  for (const { db, branch, etag } of unfinished) {
    if (!await refs.remove(db, branch, etag)) {
      throw new TaskdError("conflict", `${db}@${branch} builds upon what is being deleted, and it is in use`);
    }
    log(`gc: removed ${db}@${branch}, which was never finished`);
  }
}

/** Step 5; undefined when another pass has written the list since. */
async function publish(
  context: StoreContext,
  { list }: Survey,
  { tombstones }: GcPlan,
): Promise<{ etag: string | undefined } | undefined> {
  if (JSON.stringify(list?.tombstones ?? []) === JSON.stringify(tombstones)) return { etag: list?.etag };
  const etag = await writeTombstones(context, tombstones, list?.etag);
  return etag === undefined ? undefined : { etag };
}

/**
 * Step 6. Without it a branch that was made during the pass could not be forked until the next one. Returns how many
 * objects lost a tombstone; what another pass has written since is left to that pass.
 */
async function reviveLate(
  context: StoreContext,
  survey: Survey,
  { tombstones, etag, keep = [] }: Pick<GcOptions, "keep"> & { tombstones: Tombstone[]; etag: string | undefined },
): Promise<number> {
  const known = new Set(survey.refs.map(({ db, branch, etag }) => `${db}@${branch} ${etag}`));
  const rootsOf = (found: FoundRef): Base[] => [...pointsOf(found), ...keptPoints(found.ref, keep, survey.ages)];
  const roots = new Set(survey.refs.flatMap((found) => rootsOf(found).map(placeOf)));
  const chains = new Chains(context.backend);
  const reached = new Map<string, Set<string>>();
  const reach = (lineage: string, key: string) => reached.getOrInsert(lineage, new Set()).add(shortName(key));
  for (const found of await context.refs.all()) {
    const { db, branch, etag, ref } = found;
    if (known.has(`${db}@${branch} ${etag}`)) continue;
    const pins = pinsOf(ref);
    for (const { lineage } of pins) reach(lineage, "");
    for (const root of [...rootsOf(found), ...pins.map(({ base }) => base)]) {
      if (roots.has(placeOf(root))) continue;
      roots.add(placeOf(root));
      for (const { lineage, key } of await keysIfWhole(chains, root)) reach(lineage, key);
    }
    // Objects of the lineage beyond the chain: an unchanged fork's own base pointer.
    reach(ref.lineage, "");
  }
  return await revoke(context, survey, { tombstones, etag, reached });
}

/** What a root needs; nothing when it does not resolve, which is left to the next pass. */
async function keysIfWhole(chains: Chains, root: Base): Promise<{ lineage: string; key: string }[]> {
  try {
    return keysOf(await chains.resolve(root.lineage, root.txid));
  } catch (error) {
    if (hasCode(error, "chain_gap")) return [];
    throw error;
  }
}

async function revoke(
  context: StoreContext,
  { inventory }: Survey,
  change: { tombstones: Tombstone[]; etag: string | undefined; reached: Map<string, Set<string>> },
): Promise<number> {
  let revived = 0;
  const count = ({ names, lineage }: Tombstone) => names?.length ?? inventory.lineages.get(lineage)?.length ?? 0;
  const next = change.tombstones.flatMap((tombstone): Tombstone[] => {
    const names = change.reached.get(tombstone.lineage);
    if (!names || tombstone.doomed !== undefined) return [tombstone];
    const left = without(tombstone, names);
    revived += count(tombstone) - left.reduce((sum, each) => sum + count(each), 0);
    return left;
  });
  if (revived === 0) return 0;
  return await writeTombstones(context, next, change.etag) === undefined ? 0 : revived;
}

/** Step 7. What cannot be deleted stays doomed. */
async function deleteAll(
  { backend, log }: StoreContext,
  victims: StoredKey[],
  signal: AbortSignal | undefined,
): Promise<Pick<GcResult, "deleted" | "bytes_deleted" | "undeleted">> {
  const done = { deleted: 0, bytes_deleted: 0, undeleted: 0 };
  await inParallel(victims, PARALLEL_DELETES, async ({ key, size }) => {
    if (signal?.aborted) {
      done.undeleted++;
      return;
    }
    try {
      await backend.delete(key);
      done.deleted++;
      done.bytes_deleted += size;
    } catch (error) {
      if (isBackendError(error, "not_found")) return;
      done.undeleted++;
      log(`gc: cannot delete ${key}: ${(error as Error).message}`);
    }
  });
  return done;
}

/** Runs a part of a pass before which nothing is deleted. */
async function failingClosed<T>(options: GcOptions, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (options.signal?.aborted) throw new TaskdError("interrupted", "Garbage collection was interrupted", { cause });
    const { message, hint } = cause as Error & { hint?: string };
    throw new TaskdError("gc_failed", `Cannot collect garbage: ${message}`, { cause, hint });
  }
}

/**
 * What an operation takes away from a branch is kept as a branch of its own: the head, or the edits in the checkout
 * that were never stored. Such a branch names the operation, so that undo finds it.
 */

import { hasCode, TaskdError } from "../../errors.ts";
import type { DatabaseImage } from "../../sqlite/wal_tail.ts";
import { isoNow, newLineage, type Point, type StoreContext } from "../context.ts";
import { unreadable } from "../errors.ts";
import { refuseClaimed } from "../lease.ts";
import { pastOf } from "../merge_base.ts";
import { MAX_NAME_CHARS } from "../names.ts";
import { writeSnapshot } from "../objects.ts";
import { withPoint } from "../point_log.ts";
import type { Kept, Ref } from "../ref.ts";
import type { SafetyOptions } from "../results.ts";
import { PageChecksums } from "../page_checksums.ts";
import { SAFETY_TTL_MS, touched, type TtlField, ttlField } from "../time_to_live.ts";
import type { ListVersion } from "../tombstones.ts";
import { abandonLineage, baseOf, beginLineage, createForkedBranch, type NewLineage } from "./lineage.ts";

const CLAIMED = ["branch_deleting", "branch_reaping"] as const;
/** How the names of branches that keep what a destroy took away end. */
const KEPT_BY_DESTROY = /-pre-destroy(?:-\d+)?$/;
const MAX_KEPT = 1000;

export interface KeepOptions extends SafetyOptions {
  /** The operation that takes the content away. */
  op: string;
  since: ListVersion;
  /** Content of the checkout, when that is not what the head holds. */
  edits?: DatabaseImage | undefined;
  /** How the branch's name ends; `pre-<op>` when absent. */
  suffix?: string;
  /** A branch that keeps just that for this operation already is the answer, and kept for longer: a retry adds none. */
  once?: boolean;
}

export interface KeptBranch {
  branch: string;
  id: string;
  etag: string;
}

/**
 * Keeps what a branch holds, with its checkpoints when it is about to be destroyed.
 *
 * @throws {TaskdError} `already_exists` when there are too many such branches.
 */
export async function keepContent(context: StoreContext, before: Point, options: KeepOptions): Promise<KeptBranch> {
  const { db, branch } = before.address;
  const known = options.once === true ? await keptAlready(context, before, options) : undefined;
  if (known) return known;
  const begun = options.edits === undefined
    ? await beginLineage(context, before, { epoch: 1 })
    : await storeImage(context, before, options.edits);
  const { op, since, suffix = `pre-${op}` } = options;
  const [last] = op === "destroy" ? await keptByDestroy(context, before.address) : [];
  const order = op === "destroy" ? { order: (last?.kept.order ?? 0) + 1 } : {};
  const { txid, digest } = begun.head;
  const kept: Kept = {
    id: begun.lineage,
    op,
    branch,
    at: isoNow(context),
    txid,
    digest,
    ...order,
    ...lifeOf(before.ref),
  };
  const more = {
    ttl_ms: options.safety_ttl_ms ?? SAFETY_TTL_MS,
    ...await historyOf(context, before, begun),
    ...(op === "destroy"
      ? { ...mergesOf(before.ref), ...pointsFor(before.ref, begun), checkpoints: checkpointsOf(before.ref) }
      : {}),
    kept,
  };
  for (let count = 1; count <= MAX_KEPT; count++) {
    const tail = count === 1 ? `-${suffix}` : `-${suffix}-${count}`;
    const name = keeperName(branch, tail);
    try {
      const etag = await createForkedBranch(context, { db, branch: name }, { point: before, begun, since, more });
      return { branch: name, id: kept.id, etag };
    } catch (error) {
      if (!hasCode(error, "already_exists")) throw error;
    }
  }
  await abandonLineage(context.backend, begun.lineage);
  throw new TaskdError(
    "already_exists",
    `Cannot keep what ${db}@${branch} holds: ${MAX_KEPT} branches keep it already`,
    {
      hint: `Destroy some of the branches ${branch}-${suffix}-*`,
    },
  );
}

/** The branch that keeps the same for the same operation on the same branch; used now, if there is one. */
async function keptAlready(
  context: StoreContext,
  before: Point,
  { op, edits }: KeepOptions,
): Promise<KeptBranch | undefined> {
  const { backend, chains, refs } = context;
  const { db, branch } = before.address;
  for (const name of await refs.list(db)) {
    try {
      const found = (await refs.find(db, name.branch))?.ref;
      if (found?.kept?.op !== op || found.kept.branch !== branch) continue;
      const { objects } = await chains.resolve(found.lineage, found.txid);
      const checksums = edits && await PageChecksums.read(backend, objects, found.digest);
      const same = edits === undefined
        ? found.digest === before.head.digest
        : checksums && await checksums.firstDifference(edits) === undefined;
      if (!same) continue;
      const { etag } = await refs.update(db, name.branch, (ref) => {
        refuseClaimed(ref);
        return touched(ref, {}, isoNow(context));
      });
      return { branch: name.branch, id: found.kept.id, etag };
    } catch (error) {
      // One that is damaged or going keeps nothing.
      if (!hasCode(unreadable(error), "corrupt", "chain_gap", "unsupported_format", "not_found", ...CLAIMED)) {
        throw error;
      }
    }
  }
  return undefined;
}

/** The name of a branch that keeps what `branch` held; a long one is cut off before `tail`. */
function keeperName(branch: string, tail: string): string {
  return branch.slice(0, MAX_NAME_CHARS - tail.length) + tail;
}

/** Whether a branch's name is one of those that a destroy of `branch` gives, of any branch when absent. */
function isNamedByDestroy(name: string, branch: string | undefined): boolean {
  const tail = KEPT_BY_DESTROY.exec(name)?.[0];
  return tail !== undefined && (branch === undefined || name === keeperName(branch, tail));
}

export interface Keeper {
  branch: string;
  ref: Ref;
  kept: Kept;
}

/**
 * Branches that keep what a destroy took away, newest first: of one branch, or of all of the database. Of one, no other
 * branch's are read: a destroy costs the same however many were destroyed before.
 */
export async function keptByDestroy(
  { refs }: StoreContext,
  { db, branch }: { db: string; branch?: string },
): Promise<Keeper[]> {
  const keepers: Keeper[] = [];
  for (const name of await refs.list(db)) {
    try {
      const named = isNamedByDestroy(name.branch, branch);
      const ref = named ? (await refs.find(db, name.branch))?.ref : undefined;
      const kept = ref?.kept;
      if (ref === undefined || kept?.op !== "destroy") continue;
      if (branch === undefined || kept.branch === branch) keepers.push({ branch: name.branch, ref, kept });
    } catch (error) {
      // A branch that cannot be read keeps no other from being brought back.
      if (!hasCode(unreadable(error), "corrupt", "unsupported_format")) throw error;
    }
  }
  return keepers.sort((a, b) =>
    a.kept.branch === b.kept.branch && a.kept.order !== b.kept.order
      ? (b.kept.order ?? 0) - (a.kept.order ?? 0)
      : a.kept.at < b.kept.at
      ? 1
      : -1
  );
}

/** A branch is about to go for good: what was kept of earlier ones of that name is not what undo is to bring back. */
export async function endKeepers(context: StoreContext, address: { db: string; branch: string }): Promise<void> {
  for (const { branch, kept } of await keptByDestroy(context, address)) {
    if (kept.ended) continue;
    await context.refs.update(address.db, branch, (ref) => {
      if (ref.kept?.id !== kept.id) return undefined;
      return { ...ref, kept: { ...ref.kept, ended: true } };
    }).catch((error) => {
      if (!hasCode(error, "not_found")) throw error;
    });
  }
}

/** A ref's checkpoints for another lineage: each names the one it resolves in. */
export function checkpointsOf(ref: Ref): Ref["checkpoints"] {
  return ref.checkpoints.map((known) => ({ lineage: ref.lineage, ...known }));
}

/** What the ref of a lineage that continues `point` says of where the branch comes from: undo gives that back. */
export function historyOf(
  context: StoreContext,
  point: Point,
  begun: NewLineage,
): Promise<Pick<Ref, "past" | "origin">> {
  const from = begun.base ?? baseOf(point);
  return pastOf(context, [point.ref], { from, shared: begun.base !== undefined });
}

/** The merges that a branch remembers. */
export function mergesOf({ merges }: Ref): Pick<Ref, "merges"> {
  return merges === undefined ? {} : { merges };
}

/** A branch's points, and how long they are kept, for a ref that goes on in another lineage. */
export function pointsFor(ref: Ref, { lineage, head: { txid } }: NewLineage): Pick<Ref, "points" | "keep"> {
  const next = { lineage, txid, touched_at: ref.touched_at };
  const { points } = withPoint(ref, { ...next, points: ref.points ?? [] }, "undo");
  return { ...(points === undefined ? {} : { points }), ...(ref.keep === undefined ? {} : { keep: ref.keep }) };
}

/** What undo gives back to a branch beside its content. */
function lifeOf(ref: Ref): Pick<Kept, keyof TtlField | "protected" | "before"> {
  return {
    ...ttlField(ref),
    ...(ref.protected ? { protected: true } : {}),
    ...(ref.undo === undefined ? {} : { before: ref.undo }),
  };
}

/** A lineage that begins with the checkout's content. */
async function storeImage(context: StoreContext, before: Point, image: DatabaseImage): Promise<NewLineage> {
  const lineage = newLineage(context);
  const written = await writeSnapshot(context.backend, { lineage, epoch: 1 }, { txid: before.head.txid + 1, image });
  const { head, stored_bytes } = written;
  return { lineage, head, mode: "materialized", path: "slow", stored_bytes };
}

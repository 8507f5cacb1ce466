/**
 * New lineages: the common half of fork, rollback, promote and compact. A lineage is complete before any ref names it,
 * and garbage if none ever does. Garbage collection may run meanwhile: a branch counts only once
 * {@linkcode createBranch} has returned.
 */

import { join } from "node:path/posix";
import type { Backend } from "../../backend/backend.ts";
import { discard } from "../../fs.ts";
import { ImageFile } from "../../sqlite/checkout_file.ts";
import { TaskdError } from "../../errors.ts";
import { type Base, encodeBase, isShareable } from "../chain.ts";
import { isoNow, newLineage, type Point, pointIn, type StoreContext } from "../context.ts";
import { translated } from "../errors.ts";
import { baseKey, imageIndexKey, lineagePrefix, snapshotKey } from "../keys.ts";
import { LAYOUT_SHARED, raiseLayout } from "../manifest.ts";
import { materialize } from "../materialize.ts";
import { type Address, formatAddress } from "../names.ts";
import { type Head, writeSnapshot } from "../objects.ts";
import type { Ref } from "../ref.ts";
import type { CopyPath, LongOptions, StorageMode } from "../results.ts";
import { type ListVersion, listVersion, type Reliance, spare } from "../tombstones.ts";

/** How often taking back a ref that others keep changing is tried. */
const MAX_WITHDRAWALS = 16;

/** A lineage that a ref may now name. */
export interface NewLineage {
  lineage: string;
  head: Head;
  /** Present when it is shared. */
  base?: Base;
  mode: StorageMode;
  path: CopyPath;
  stored_bytes: number;
}

/** Whether a lineage begins with a full copy: when asked for, at the depth floor, or where no base pointer can be. */
export function copies({ depth_floor }: StoreContext, { chain }: Point, options: { materialize?: boolean }): boolean {
  return options.materialize === true || chain.depth >= depth_floor || !isShareable(chain);
}

/** Begins a lineage at `point`: a base pointer, or a full copy. */
export async function beginLineage(
  context: StoreContext,
  point: Point,
  options: { materialize?: boolean; epoch: number; lineage?: string } & LongOptions,
): Promise<NewLineage> {
  if (copies(context, point, options)) return await materializeLineage(context, point, options);
  if (context.layout_version < LAYOUT_SHARED) {
    context.layout_version = (await raiseLayout(context.backend, LAYOUT_SHARED)).layout_version;
  }
  const { lineage = newLineage(context) } = options;
  // The lineage that holds the last object: a fork of an unchanged fork points past it, so hops never pile up.
  const base = baseOf(point);
  const bytes = encodeBase(base);
  await translated("Cannot write a base pointer", () => context.backend.create(baseKey(lineage), bytes));
  return { lineage, head: point.head, base, mode: "shared", path: "fast", stored_bytes: bytes.length };
}

export function baseOf({ chain, head }: Point): Base {
  return { lineage: chain.objects.at(-1)!.lineage, txid: head.txid };
}

/**
 * Writes the first ref of a branch, and takes it back with `conflict` when garbage collection is removing what it
 * stands on. After any other error than `already_exists` and `conflict` the ref may exist.
 *
 * @returns The ref's etag.
 */
export async function createBranch(
  context: StoreContext,
  { db, branch }: { db: string; branch: string },
  ref: Parameters<StoreContext["refs"]["create"]>[2],
  foundation: Pick<Reliance, "chain" | "since">,
): Promise<string> {
  const attempted = `Cannot create the branch ${db}@${branch}`;
  const { etag } = await context.refs.create(db, branch, ref);
  try {
    await spare(context, attempted, {
      at: { lineage: ref.lineage, txid: ref.txid },
      lineage: ref.lineage,
      ...foundation,
    });
  } catch (error) {
    await withdraw(context, { db, branch }, { lineage: ref.lineage, etag });
    throw error;
  }
  return etag;
}

/** Creates the branch whose lineage `begun` was begun at `point`, with `more` in its ref; see {@linkcode createBranch}. */
export async function createForkedBranch(
  context: StoreContext,
  address: { db: string; branch: string },
  { point, begun, since, more }: { point: Point; begun: NewLineage; since: ListVersion; more: Partial<Ref> },
): Promise<string> {
  const { lineage, head, base } = begun;
  const ref = { lineage, epoch: 1, txid: head.txid, digest: head.digest, checkpoints: [], touched_at: isoNow(context) };
  const { journal } = point.ref;
  const shared = { ...(base === undefined ? {} : { base }), ...(journal === undefined ? {} : { journal }) };
  const foundation = base === undefined ? { since } : { since, chain: point.chain };
  return await createBranch(context, address, { ...ref, ...shared, ...more }, foundation);
}

/** Reads the tombstones for a branch that no one has used: its maker may have died before it did. See gc.ts, 5. */
export async function confirm(context: StoreContext, address: Address, ref: Ref): Promise<void> {
  const since = await listVersion(context.backend);
  if (since === undefined) return;
  const { lineage, head: { txid }, chain } = await pointIn(context, { db: address.db, branch: address.branch }, ref);
  await spare(context, `Cannot use ${formatAddress(address)}`, { at: { lineage, txid }, lineage, chain, since });
}

/** Removes a ref that was just written, also when another process has changed it since, unless it is in use. */
async function withdraw(
  { refs }: StoreContext,
  { db, branch }: { db: string; branch: string },
  written: { lineage: string; etag: string },
): Promise<void> {
  let { etag } = written;
  for (let attempt = 0; attempt < MAX_WITHDRAWALS; attempt++) {
    if (await refs.remove(db, branch, etag)) return;
    const found = await refs.find(db, branch);
    // Another process that uses it already has found that nothing of it is being removed.
    if (found?.ref.lineage !== written.lineage || found.ref.epoch > 1) return;
    etag = found.etag;
  }
  throw new TaskdError("ambiguous", `Cannot take the branch ${db}@${branch} back: it keeps changing`, {
    hint: "Destroy it: what it builds upon is being removed as garbage",
  });
}

/** Begins a lineage with a full copy: of the one snapshot where the chain is no more than that, else of the image. */
export async function materializeLineage(
  context: StoreContext,
  point: Point,
  options: { epoch: number; lineage?: string } & LongOptions,
): Promise<NewLineage> {
  const { backend } = context;
  const { lineage = newLineage(context) } = options;
  const place = { lineage, epoch: options.epoch };
  const { txid } = point.head;
  const [snapshot, ...segments] = point.chain.objects;
  if (segments.length === 0) {
    const key = snapshotKey(lineage, options.epoch, txid, snapshot!.codec);
    await translated("Cannot copy a snapshot", async () => {
      if (snapshot!.codec === "raw") await backend.copy(imageIndexKey(snapshot!.key), imageIndexKey(key));
      await backend.copy(snapshot!.key, key);
    });
    const head: Head = { ...point.head, kind: "snapshot" };
    return { lineage, head, mode: "materialized", path: "fast", stored_bytes: snapshot!.size };
  }
  // From the objects, which are checked on the way: an entry of the cache is not verified, and this is permanent.
  const path = context.workspace.beside(join(context.workspace.root, "tmp", "image"));
  try {
    await materialize(backend, point.chain, point.head.digest, path, options);
    using image = ImageFile.open(path);
    const { head, stored_bytes } = await writeSnapshot(backend, place, { txid, image, clone_path: path, ...options });
    return { lineage, head, mode: "materialized", path: "slow", stored_bytes };
  } finally {
    discard(path);
  }
}

/** Removes a lineage that no ref names, or leaves it to garbage collection. */
export async function abandonLineage(backend: Backend, lineage: string): Promise<void> {
  try {
    const keys: string[] = [];
    for await (const { key } of backend.list(lineagePrefix(lineage))) {
      keys.push(key);
    }
    for (const key of keys) await backend.delete(key);
  } catch {
    // The caller is about to report what went wrong first.
  }
}

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
import { isoNow, newLineage, type Point, type StoreContext } from "../context.ts";
import { translated } from "../errors.ts";
import { baseKey, imageIndexKey, lineagePrefix, snapshotKey } from "../keys.ts";
import { LAYOUT_SHARED, raiseLayout } from "../manifest.ts";
import { materialize } from "../materialize.ts";
import { type Head, writeSnapshot } from "../objects.ts";
import type { CopyPath, LongOptions, StorageMode } from "../results.ts";
import type { TtlField } from "../time_to_live.ts";
import { assertSpared, type Moment, type Reliance } from "../tombstones.ts";

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

/**
 * Begins a lineage at `point`: a base pointer, or a full copy when asked for, when the chain has reached the depth floor,
 * or when it cannot have another base pointer.
 */
export async function beginLineage(
  context: StoreContext,
  point: Point,
  options: { materialize?: boolean; epoch: number; lineage?: string } & LongOptions,
): Promise<NewLineage> {
  if (options.materialize || point.chain.depth >= context.depth_floor || !isShareable(point.chain)) {
    return await materializeLineage(context, point, options);
  }
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
 */
export async function createBranch(
  context: StoreContext,
  { db, branch }: { db: string; branch: string },
  ref: Parameters<StoreContext["refs"]["create"]>[2],
  foundation: Pick<Reliance, "chain" | "since">,
): Promise<void> {
  const attempted = `Cannot create the branch ${db}@${branch}`;
  const { etag } = await context.refs.create(db, branch, ref);
  try {
    await assertSpared(context, attempted, {
      at: { lineage: ref.lineage, txid: ref.txid },
      lineage: ref.lineage,
      ...foundation,
    });
  } catch (error) {
    await withdraw(context, { db, branch }, { lineage: ref.lineage, etag });
    throw error;
  }
}

/** Creates the branch whose lineage `begun` was begun at `point`; see {@linkcode createBranch}. */
export async function createForkedBranch(
  context: StoreContext,
  address: { db: string; branch: string },
  { point, begun, since, ttl }: { point: Point; begun: NewLineage; since: Moment; ttl: TtlField },
): Promise<void> {
  const { lineage, head, base } = begun;
  const ref = { lineage, epoch: 1, txid: head.txid, digest: head.digest, checkpoints: [], touched_at: isoNow(context) };
  const shared = base === undefined ? {} : { base };
  const foundation = base === undefined ? { since } : { since, chain: point.chain };
  await createBranch(context, address, { ...ref, ...ttl, ...shared }, foundation);
}

/** Removes a ref that was just written, also when another process has changed it since. */
async function withdraw(
  { refs }: StoreContext,
  { db, branch }: { db: string; branch: string },
  written: { lineage: string; etag: string },
): Promise<void> {
  let { etag } = written;
  for (let attempt = 0; attempt < MAX_WITHDRAWALS; attempt++) {
    if (await refs.remove(db, branch, etag)) return;
    const found = await refs.find(db, branch);
    if (found?.ref.lineage !== written.lineage) return;
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
      if (snapshot!.codec === "raw") {
        await backend.copy(imageIndexKey(snapshot!.key), imageIndexKey(key));
      }
      await backend.copy(snapshot!.key, key);
    });
    return {
      lineage,
      head: { ...point.head, kind: "snapshot" },
      mode: "materialized",
      path: "fast",
      stored_bytes: snapshot!.size,
    };
  }
  // From the objects, which are checked on the way: an entry of the cache is not verified, and this is permanent.
  const path = context.workspace.beside(join(context.workspace.root, "tmp", "image"));
  try {
    await materialize(backend, point.chain, point.head.digest, path, options);
    const image = ImageFile.open(path);
    try {
      const written = await writeSnapshot(backend, place, { txid, image, clone_path: path, ...options });
      return { lineage, head: written.head, mode: "materialized", path: "slow", stored_bytes: written.stored_bytes };
    } finally {
      image.close();
    }
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

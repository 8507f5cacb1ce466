/**
 * New lineages: the common half of fork, rollback, promote and compact. A lineage is
 * complete before any ref names it; if the ref is never written it is garbage.
 *
 * @module
 */

import type { Backend } from "../../backend/backend.ts";
import { ImageFile } from "../../sqlite/checkout_file.ts";
import { type Base, encodeBase } from "../chain.ts";
import { newLineage, type Point, type StoreContext } from "../context.ts";
import { storeError, translated } from "../errors.ts";
import { baseKey, imageIndexKey, snapshotKey } from "../keys.ts";
import { LAYOUT_SHARED, raiseLayout } from "../manifest.ts";
import { type Head, writeSnapshot } from "../objects.ts";
import type { CopyPath, LongOptions, StorageMode } from "../results.ts";

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

/** Begins a lineage at `point`: a base pointer, or a full copy when asked for or when the chain has reached the depth floor. */
export async function beginLineage(
  context: StoreContext,
  point: Point,
  options: { materialize?: boolean; epoch: number } & LongOptions,
): Promise<NewLineage> {
  if (options.materialize || point.chain.depth >= context.depth_floor) {
    return await materializeLineage(context, point, options);
  }
  if (context.layout_version < LAYOUT_SHARED) {
    context.layout_version = (await raiseLayout(context.backend, LAYOUT_SHARED)).layout_version;
  }
  const lineage = newLineage(context);
  // The lineage that holds the last object: a fork of an unchanged fork points past it, so hops never pile up.
  const base = {
    lineage: point.chain.objects.at(-1)!.lineage,
    txid: point.head.txid,
  };
  const bytes = encodeBase(base);
  await translated(
    "Cannot write a base pointer",
    () => context.backend.create(baseKey(lineage), bytes),
  );
  return {
    lineage,
    head: point.head,
    base,
    mode: "shared",
    path: "fast",
    stored_bytes: bytes.length,
  };
}

/** Begins a lineage with a full copy: of the one snapshot where the chain is no more than that, else of the image. */
export async function materializeLineage(
  context: StoreContext,
  point: Point,
  options: { epoch: number } & LongOptions,
): Promise<NewLineage> {
  const { backend } = context;
  const lineage = newLineage(context);
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
  using built = await context.cache.image(
    point.address.db,
    point.chain,
    point.head.digest,
    options,
  );
  const image = ImageFile.open(built.path);
  try {
    const written = await writeSnapshot(backend, place, {
      txid,
      image,
      clone_path: built.path,
      ...options,
    });
    return {
      lineage,
      head: written.head,
      mode: "materialized",
      path: "slow",
      stored_bytes: written.stored_bytes,
    };
  } finally {
    image.close();
  }
}

/** Removes a lineage that no ref came to name. What cannot be removed is left to garbage collection. */
export async function abandonLineage(
  backend: Backend,
  lineage: string,
): Promise<void> {
  try {
    const keys: string[] = [];
    for await (const { key } of backend.list(`data/${lineage}/`)) {
      keys.push(key);
    }
    for (const key of keys) await backend.delete(key);
  } catch (error) {
    // The caller is about to report what went wrong first.
    void storeError(error, "");
  }
}

/**
 * Writes segments and snapshots of a database image, whole objects under keys of the
 * writer's own epoch: repeating a write repeats its bytes, and nothing refers to
 * an object before a ref does.
 */

import { crc32 } from "node:zlib";
import { type Backend, type CloneSupport, isBackendError } from "../backend/backend.ts";
import { nextTurn } from "../clock.ts";
import { stampFile } from "../sqlite/checkout_file.ts";
import { throwIfInterrupted } from "../errors.ts";
import { lockPage } from "../sqlite/header.ts";
import type { Changes, DatabaseImage } from "../sqlite/wal_tail.ts";
import { type Run, runsOf } from "./_page_table.ts";
import { storeError, translated } from "./errors.ts";
import { imageIndexKey, segmentKey, snapshotKey } from "./keys.ts";
import type { Txid } from "./names.ts";
import { NO_PREV, type ObjectHeader, ObjectWriter, type PageBefore } from "./object_file.ts";
import type { ChecksumOf, PageChecksums } from "./page_checksums.ts";
import type { LongOptions, ObjectKind } from "./results.ts";

/**
 * A snapshot is written once and kept: larger blocks and a higher level make it a tenth smaller, at two thirds of the
 * speed. A single page still costs no more than one block.
 */
const SNAPSHOT_WRITING = { level: 3, block_bytes: 1 << 20 };

/** Pages are read from an image in runs of about this many bytes. */
const RUN_BYTES = 256 << 10;
/** After about this many bytes everything else has its turn. */
const TURN_BYTES = 4 << 20;

/** Where a history ends, in a ref, a checkpoint or a session. */
export interface Head {
  txid: Txid;
  /** Digest of the object that ends there. */
  digest: string;
  kind: ObjectKind;
}

export interface StoredObject {
  head: Head;
  pages: number;
  checksumOf: ChecksumOf;
  stored_bytes: number;
}

export interface ObjectPlace {
  lineage: string;
  epoch: number;
}

/**
 * Stores the pages of `changes` as one segment after `prev`. `checksums` are those of the pages at `prev`: a page that
 * the changes know from before, and whose checksum proves that it is what the store has, is written as a difference.
 */
export async function writeSegment(
  backend: Backend,
  place: ObjectPlace,
  segment: { prev: Head; txid: Txid; changes: Changes; image: DatabaseImage; checksums?: PageChecksums | undefined },
): Promise<StoredObject> {
  const { prev, txid, changes, image, checksums } = segment;
  const key = segmentKey(place.lineage, place.epoch, prev.txid, txid);
  const header: ObjectHeader = {
    kind: "segment",
    page_size: image.page_size,
    page_count: changes.page_count,
    first_txid: prev.txid,
    last_txid: txid,
    prev: prev.digest,
  };
  const before = checksums && changes.before && ((pgno: number) => {
    const page = changes.before!.get(pgno);
    return page !== undefined && checksums.of(pgno) === crc32(page) ? page : undefined;
  });
  return await store(backend, key, header, image, runsOf(changes.pages, mostPages(image)), "segment", { before });
}

/**
 * Stores a whole image as a snapshot. `clone_path` names a file that holds exactly the image and stays so until this
 * resolves: where the store can share its blocks, the snapshot is that plain image and costs no space.
 */
export async function writeSnapshot(
  backend: Backend,
  place: ObjectPlace,
  snapshot: { txid: Txid; image: DatabaseImage; clone_path?: string } & LongOptions,
): Promise<StoredObject> {
  const { txid, image, clone_path } = snapshot;
  // A file may have more behind its last page: SQLite does not mind, and a clone would have it, too.
  const clonable = clone_path !== undefined && stampFile(clone_path)?.size === image.page_count * image.page_size;
  const cloned = backend.clone && clonable && await cloneSnapshot(backend, backend.clone, place, snapshot, clone_path);
  if (cloned) return cloned;
  const key = snapshotKey(place.lineage, place.epoch, txid, "zst");
  const header = snapshotHeader("snapshot", image, txid);
  return await store(backend, key, header, image, allRuns(image), "snapshot", snapshot);
}

/** Stores a snapshot as a clone; undefined where the store's directory clones and this very file cannot be. */
async function cloneSnapshot(
  backend: Backend,
  clone: CloneSupport,
  place: ObjectPlace,
  snapshot: { txid: Txid; image: DatabaseImage } & LongOptions,
  clone_path: string,
): Promise<StoredObject | undefined> {
  const { txid, image } = snapshot;
  const key = snapshotKey(place.lineage, place.epoch, txid, "raw");
  const header = snapshotHeader("image-index", image, txid);
  // The checksums first: a plain image without them would be of no use.
  const index = await store(backend, imageIndexKey(key), header, image, allRuns(image), "snapshot", snapshot);
  try {
    await clone.cloneIn(clone_path, key);
  } catch (error) {
    // The file is on another file system, or its attributes forbid sharing. The index alone is garbage.
    if (isBackendError(error, "unavailable")) return undefined;
    throw storeError(error, "Cannot store a snapshot");
  }
  return { ...index, stored_bytes: index.stored_bytes + image.page_count * image.page_size };
}

function snapshotHeader(
  kind: "snapshot" | "image-index",
  { page_size, page_count }: DatabaseImage,
  txid: Txid,
): ObjectHeader {
  return { kind, page_size, page_count, first_txid: 0, last_txid: txid, prev: NO_PREV };
}

async function store(
  backend: Backend,
  key: string,
  header: ObjectHeader,
  image: DatabaseImage,
  runs: Iterable<Run>,
  kind: ObjectKind,
  options: LongOptions & { before?: PageBefore | undefined } = {},
): Promise<StoredObject> {
  const writer = new ObjectWriter(header, header.kind === "segment" ? {} : SNAPSHOT_WRITING);
  const buffer = new Uint8Array(Math.max(RUN_BYTES, image.page_size));
  const total = header.kind === "segment" ? undefined : image.page_count * image.page_size;
  let stored_bytes = 0;
  let done = 0;
  const chunks = async function* () {
    for (const { first, count } of runs) {
      throwIfInterrupted(options.signal);
      image.readPages(first, count, buffer);
      for (const chunk of writer.add(first, buffer.subarray(0, count * image.page_size), options.before)) {
        stored_bytes += chunk.length;
        yield chunk;
      }
      const turns = Math.floor(done / TURN_BYTES);
      done += count * image.page_size;
      options.onProgress?.(done, total);
      // Leases, sessions and signals wait on the same event loop, and an index alone gives the backend nothing to wait for.
      if (Math.floor(done / TURN_BYTES) > turns) await nextTurn();
    }
    for (const chunk of writer.finish()) {
      stored_bytes += chunk.length;
      yield chunk;
    }
  };
  await translated(`Cannot store ${key}`, () => backend.put(key, chunks()));
  return {
    head: { txid: header.last_txid, digest: writer.digest, kind },
    pages: writer.pages,
    checksumOf: writer.checksumOf,
    stored_bytes,
  };
}

function mostPages({ page_size }: DatabaseImage): number {
  return Math.max(1, Math.floor(RUN_BYTES / page_size));
}

function* allRuns(image: DatabaseImage): Generator<Run> {
  const { page_size, page_count } = image;
  const lock = lockPage(page_size);
  for (let first = 1; first <= page_count;) {
    const end = first < lock ? Math.min(page_count, lock - 1) : page_count;
    const count = Math.min(mostPages(image), end - first + 1);
    yield { first, count };
    first += count;
    if (first === lock) first++;
  }
}

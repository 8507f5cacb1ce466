/**
 * The store's layout: how every key is written and read back. Keys sort by
 * lineage, epoch and head, because txids and epochs are 16 hex digits.
 */

import type { ObjectKind } from "./results.ts";
import { formatTxid, parseTxid, type Txid } from "./names.ts";

export const MANIFEST_KEY = "bstore.json";
/** Key of the marker of an unfinished copy of a store to this location; removed once it is complete. */
export const COPYING_KEY = "copying.json";
export const REFS_PREFIX = "refs/";
export const DATA_PREFIX = "data/";

/** How an object's bytes are kept: a plain SQLite image, or the container of docs/reference/format.md. */
export type Codec = "raw" | "zst";

export interface ObjectKey {
  key: string;
  lineage: string;
  epoch: number;
  kind: ObjectKind;
  /** The txid that the object starts after; 0 for a snapshot. */
  first: Txid;
  /** The txid that the object ends at. */
  last: Txid;
  codec: Codec;
}

export function refKey(db: string, branch: string): string {
  return `${REFS_PREFIX}${db}/${branch}.json`;
}

/** The inverse of {@linkcode refKey}; undefined for any other key. */
export function parseRefKey(key: string): { db: string; branch: string } | undefined {
  const match = /^refs\/([^/]+)\/([^/]+)\.json$/.exec(key);
  return match ? { db: match[1]!, branch: match[2]! } : undefined;
}

export function lineagePrefix(lineage: string): string {
  return `${DATA_PREFIX}${lineage}/`;
}

export function baseKey(lineage: string): string {
  return `${DATA_PREFIX}${lineage}/base.json`;
}

export function snapshotKey(lineage: string, epoch: number, txid: Txid, codec: Codec): string {
  return `${DATA_PREFIX}${lineage}/${formatTxid(epoch)}/snapshot-${formatTxid(txid)}.${codec}`;
}

/** Key of the checksums of a plain-image snapshot. */
export function imageIndexKey(raw_snapshot_key: string): string {
  return raw_snapshot_key.replace(/\.raw$/, ".idx");
}

/** Key of the pages changed in (first..last]. */
export function segmentKey(lineage: string, epoch: number, first: Txid, last: Txid): string {
  return `${DATA_PREFIX}${lineage}/${formatTxid(epoch)}/segment-${formatTxid(last)}-${formatTxid(first)}.zst`;
}

const OBJECT =
  /^data\/([0-9a-f]{32})\/([0-9a-f]{16})\/(?:snapshot-([0-9a-f]{16})\.(raw|zst)|segment-([0-9a-f]{16})-([0-9a-f]{16})\.zst)$/;

/** Reads a snapshot's or segment's key; undefined for any other key. */
export function parseObjectKey(key: string): ObjectKey | undefined {
  const match = OBJECT.exec(key);
  if (!match) return undefined;
  const epoch = parseTxid(match[2]!);
  const snapshot = match[3] !== undefined;
  const last = parseTxid(match[snapshot ? 3 : 5]!);
  const first = snapshot ? 0 : parseTxid(match[6]!);
  if (epoch === undefined || last === undefined || first === undefined) return undefined;
  if (!snapshot && first >= last) return undefined;
  return {
    key,
    lineage: match[1]!,
    epoch,
    kind: snapshot ? "snapshot" : "segment",
    first,
    last,
    codec: (match[4] ?? "zst") as Codec,
  };
}

/**
 * What proves that a page of changed rows belongs to the change that a gate binds: the pages are leaves of a tree of
 * hashes as RFC 6962, section 2.1, has it. SHA-256, a leaf after a byte 0, two nodes after a byte 1; the last node of an
 * odd level moves up as it is. Runs in a browser.
 */

import { canonicalJson, type JsonLike } from "../../lib/text/canonical_json.ts";
import type { ChangesetRoot } from "./database_schema.ts";
import type { DatabaseDiffQuery, PageProof } from "./row_pages.ts";

/** SHA-256 in lower-case hex: a browser has it asynchronously. */
export type Digest = (bytes: Uint8Array<ArrayBuffer>) => string | Promise<string>;

/** What the hash of a leaf is made of. */
export function leafBytes(content: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(`\0${content}`);
}

/** What the hash of a node is made of. */
export function nodeBytes(left: Uint8Array, right: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(1 + left.length + right.length);
  bytes[0] = 1;
  bytes.set(left, 1);
  bytes.set(right, 1 + left.length);
  return bytes;
}

/** Whether the leaf belongs to the tree, at the place that the proof names. */
export async function isLeafOf(
  { root, leaves }: ChangesetRoot,
  content: string,
  { index, path }: PageProof,
  digest: Digest,
): Promise<boolean> {
  if (index >= leaves) return false;
  const beside = [...path];
  let hash = await digest(leafBytes(content));
  for (let [at, size] = [index, leaves]; size > 1; at = Math.floor(at / 2), size = Math.ceil(size / 2)) {
    if (at === size - 1 && at % 2 === 0) continue;
    const other = beside.shift() ?? "";
    const [left, right] = at % 2 === 0 ? [hash, other] : [other, hash];
    hash = await digest(nodeBytes(bytesOf(left), bytesOf(right)));
  }
  return beside.length === 0 && hash === root;
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** A page and where it is, which the first of a table does not say; other fields do not count. */
type LeafPage = { table: string; cursor?: string; rows: readonly object[]; next?: string };

export function pageLeaf({ table, cursor, rows, next }: LeafPage): string {
  return canonicalJson({ table, cursor, rows: rows as JsonLike, next });
}

/** Rows of a page that is proven: as many as may be asked for. */
export const PAGE_ROWS = 1_000;

/** Whether the answer to a query is such a page. */
export function isProvable({ kind, search, value_bytes, limit }: Partial<DatabaseDiffQuery>): boolean {
  return [kind, search, value_bytes].every((part) => part === undefined) && limit === PAGE_ROWS;
}

/**
 * Histories of tiny databases, written as a session would write them but without SQLite at
 * work: for tests of the store that need many objects fast.
 */

import { DatabaseSync } from "node:sqlite";
import type { DatabaseImage } from "../../lib/sqlite/wal_tail.ts";
import type { Backend } from "../../lib/backend/backend.ts";
import { hasCode } from "../../lib/errors.ts";
import { type Base, Chains } from "../../lib/store/chain.ts";
import { isoNow, pointIn } from "../../lib/store/context.ts";
import { keptPoints } from "../../lib/store/history.ts";
import { DATA_PREFIX } from "../../lib/store/keys.ts";
import { Lease } from "../../lib/store/lease.ts";
import type { Address } from "../../lib/store/names.ts";
import { mergePointsOf } from "../../lib/store/merge_base.ts";
import { writeSegment, writeSnapshot } from "../../lib/store/objects.ts";
import { withCheckpoint } from "../../lib/store/ops/checkpoint.ts";
import type { KeepLevel } from "../../lib/store/retention.ts";
import type { Store } from "../../lib/store/store.ts";
import { keysOf } from "../../lib/store/tombstones.ts";

const PAGE_SIZE = 512;
const PAGE_COUNT = 2;

/** A database of two pages at `path`, to create databases from. */
export function makeTinyDatabase(path: string): void {
  const database = new DatabaseSync(path);
  database.exec(`PRAGMA page_size=${PAGE_SIZE}; CREATE TABLE t(v)`);
  database.close();
}

let template: Uint8Array | undefined;

/** A database's pages, with `serial` in an unused place of the second. */
function imageOf(serial: number): DatabaseImage {
  if (!template) {
    const path = Deno.makeTempFileSync();
    makeTinyDatabase(path);
    template = Deno.readFileSync(path);
    Deno.removeSync(path);
  }
  const bytes = template.slice();
  new DataView(bytes.buffer).setFloat64(PAGE_SIZE + 64, serial);
  return {
    page_size: PAGE_SIZE,
    page_count: PAGE_COUNT,
    readPages: (first, count, into) =>
      into.set(bytes.subarray((first - 1) * PAGE_SIZE, (first - 1 + count) * PAGE_SIZE)),
  };
}

/** What a flush stores. */
export interface FlushOptions {
  /** A snapshot instead of a segment. */
  snapshot?: boolean;
  /** Name the new head. */
  checkpoint?: string;
  /** Store the object, but do not move the head there: what a session that dies between the two leaves. */
  lose?: boolean;
}

/** Moves a branch's head on by one object whose content is `serial`. Returns the new txid. */
export async function flush(
  store: Store,
  address: Address,
  serial: number,
  options: FlushOptions = {},
): Promise<number> {
  const { context } = store;
  const lease = await Lease.acquire(context, address);
  try {
    const point = await pointIn(context, address, lease.ref);
    const place = { lineage: lease.ref.lineage, epoch: lease.epoch };
    const txid = point.head.txid + 1;
    const image = imageOf(serial);
    const changes = { pages: [2], page_count: PAGE_COUNT, low_page_count: PAGE_COUNT, commits: 1 };
    const { head } = options.snapshot
      ? await writeSnapshot(context.backend, place, { txid, image })
      : await writeSegment(context.backend, place, { prev: point.head, txid, changes, image });
    if (!options.lose) {
      await lease.write((ref) =>
        options.checkpoint === undefined
          ? { ...ref, txid: head.txid, digest: head.digest, touched_at: isoNow(context) }
          : withCheckpoint(context, ref, head, options.checkpoint)
      );
    }
    return txid;
  } finally {
    await lease.release();
  }
}

/** Keys of all stored objects, sorted. */
export async function dataKeys(backend: Backend): Promise<string[]> {
  return (await keysUnder(backend, DATA_PREFIX)).sort();
}

/** Keys that begin with `prefix`. */
export async function keysUnder(backend: Backend, prefix: string): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of backend.list(prefix)) keys.push(key);
  return keys;
}

/**
 * What every branch of a store needs, found the slow and simple way: by resolving each point on its own. Of the points
 * that only a later merge begins at, and of those of the past that `keep` keeps, those that are whole.
 */
export async function neededKeys(store: Store, keep: readonly KeepLevel[] = []): Promise<Set<string>> {
  const { backend, refs, timeline } = store.context;
  const ages = await timeline.look({ dry_run: true });
  const needed = new Set<string>();
  const add = async ({ lineage, txid }: Base) => {
    const chain = await new Chains(backend).resolve(lineage, txid);
    for (const { key } of keysOf(chain)) needed.add(key);
    if (chain.objects.at(-1)!.lineage !== lineage) needed.add(`${DATA_PREFIX}${lineage}/base.json`);
  };
  for (const { db, branch } of await refs.list()) {
    const { ref } = await refs.read(db, branch);
    for (const { lineage = ref.lineage, txid } of [ref, ...ref.checkpoints]) await add({ lineage, txid });
    for (const point of [...mergePointsOf(ref), ...keptPoints(ref, keep, ages)]) {
      await add(point).catch((error) => {
        if (!hasCode(error, "chain_gap")) throw error;
      });
    }
  }
  return needed;
}

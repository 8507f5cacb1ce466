/**
 * Folding of what sessions have flushed, on whatever a store lies on.
 */

import { assert, assertEquals } from "@std/assert";
import { CaptureSession } from "../../lib/capture/session.ts";
import { pointAt } from "../../lib/store/context.ts";
import { MAX_FOLDED_CHAIN } from "../../lib/store/fold_plan.ts";
import { loggedPoints } from "../../lib/store/point_log.ts";
import { DEFAULT_LEVELS } from "../../lib/store/retention.ts";
import type { Store } from "../../lib/store/store.ts";
import { at, makeDatabase, rows, sql } from "./stores.ts";

const FLUSHES = 24;

/** Flushes, folds, collects garbage, and reads every point again; `scratch` is a directory for files. */
export async function foldFlushes(store: Store, scratch: string): Promise<void> {
  makeDatabase(`${scratch}/source.db`, "0");
  await store.create("fold", { from: `${scratch}/source.db` });
  const main = at("fold");
  const session = await CaptureSession.open(store, main, { flush_every_ms: 0, snapshot_every: 4 });
  /** What the branch holds at each transaction. */
  const contents = new Map<number, string>();
  let content = "0";
  for (let value = 1; value <= FLUSHES; value++) {
    sql(session.checkout, `INSERT INTO t VALUES('${value}')`);
    content += `,${value}`;
    contents.set((await session.flush()).txid, content);
  }
  await session.close();
  const keep = DEFAULT_LEVELS;
  const { folded, failed } = await store.foldHistory({ keep });
  assert(folded > FLUSHES / 2, `${folded} points`);
  assertEquals(failed, []);
  for (let pass = 0; pass < 3; pass++) await store.collectGarbage({ grace_ms: 0, keep });
  const { points } = await store.log(main, { limit: 1000 });
  const { ref } = await store.context.refs.read("fold", "main");
  const in_folded = new Set(loggedPoints(ref).flatMap(({ txid, folded }) => folded === undefined ? [] : txid));
  for (const [txid, expected] of contents) {
    assert(points.some((point) => point.txid === txid), `txid ${txid} is gone`);
    const address = at(`fold@main@txid:${txid}`);
    await store.export(address, `${scratch}/out.db`, { force: true });
    assertEquals(rows(`${scratch}/out.db`), expected, `txid ${txid}`);
    const { chain } = await pointAt(store.context, address);
    if (in_folded.has(txid)) assert(chain.objects.length <= MAX_FOLDED_CHAIN, `${chain.objects.length} objects`);
  }
  assertEquals((await store.verifyAll()).findings, []);
}

/**
 * Finds where a branch can go back to whose head is damaged: the newest point before it that is as it was written, and
 * that nothing denies to have been the branch's.
 */

import { Audit } from "./audit.ts";
import { type Base, chainOf, viewOf } from "./chain.ts";
import type { Point, StoreContext } from "./context.ts";
import { chainTo, type PromisedPoint } from "./history.ts";
import { readObjectIndex } from "./object_index.ts";
import { Promises } from "./promises.ts";
import type { NamedRef } from "./ref.ts";
import type { LongOptions } from "./results.ts";

/** Undefined when nothing of the branch is sound. `known` is a pass over its points. */
export async function newestSound(
  context: StoreContext,
  { db, branch, ref }: NamedRef,
  known: Audit,
  { signal }: LongOptions,
): Promise<Point | undefined> {
  const { backend, chains } = context;
  const address = { db, branch };
  const promises = new Promises(backend);
  // Damaged base pointers may lead in a circle.
  const seen = new Set<string>();
  for (let at: Base | undefined = { lineage: ref.lineage, txid: ref.txid - 1 }; at && !seen.has(at.lineage);) {
    seen.add(at.lineage);
    const { lineage, txid }: Base = at;
    const base = await chains.base(lineage).catch(() => undefined);
    const points: PromisedPoint[] = [];
    for (const [end, object] of viewOf(await chains.objects(lineage), base).newest) {
      if (end > txid || base && end <= base.txid) continue;
      const node = known.history.nodes.get(object.key);
      if (node && !await promises.allows(node)) continue;
      const index = await readObjectIndex(backend, object).catch(() => undefined);
      if (index) points.push({ address, lineage, txid: end, digest: index.digest });
    }
    const audit = new Audit(context, { signal });
    await audit.run(points);
    const [newest] = points.filter((point) => audit.isSound(point)).sort((a, b) => b.txid - a.txid);
    if (newest) {
      const chain = chainOf(chainTo(audit.endOf(newest)!), newest.txid);
      const head = { txid: newest.txid, digest: newest.digest, kind: chain.objects.at(-1)!.kind };
      return { address, ref, lineage, head, chain };
    }
    at = base && { lineage: base.lineage, txid: Math.min(base.txid, txid) };
  }
  return undefined;
}

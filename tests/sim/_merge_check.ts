/**
 * What each merge and each revert that a branch remembers has to have done, held against the points that its record names:
 * they are read anew, after whatever came since.
 */

import { assert, assertEquals } from "@std/assert";
import { hasCode } from "../../lib/errors.ts";
import { Chains } from "../../lib/store/chain.ts";
import type { StoreContext } from "../../lib/store/context.ts";
import { materialize } from "../../lib/store/materialize.ts";
import { readObjectIndex } from "../../lib/store/object_index.ts";
import type { ContentPoint, MergeRecord, Ref } from "../../lib/store/ref.ts";
import { contentOf } from "./scenarios.ts";

/** Holds the records of `ref` against their points, and returns how many of them could be held against what they made. */
export async function checkMerges(context: StoreContext, ref: Ref, directory: string): Promise<number> {
  const merges = ref.merges ?? [];
  let checked = 0;
  for (const record of merges) {
    const before = await pinned(record.before!, `before ${record.id}`);
    const [base, source] = [
      await pinned(record.base, `base of ${record.id}`),
      await pinned(record.source, `source of ${record.id}`),
    ];
    const reverted = merges.find(({ id }) => id === record.reverts);
    if (record.reverts !== undefined && reverted === undefined) continue;
    const had = reverted && await pinned(reverted.before!, `before ${reverted.id}`);
    const found = await rows(record.onto).catch((error) => {
      if (!hasCode(error, "chain_gap", "not_found")) throw error;
    });
    if (found === undefined) continue;
    assertEquals([...found].sort(), [...merged({ base, source, before, had })].sort(), describe(record));
    checked++;
  }
  return checked;

  /** What a record names beside its result is kept as long as the record is. */
  async function pinned(point: ContentPoint, what: string): Promise<Set<string>> {
    const found = await rows(point).catch((error) => assert(false, `${what} cannot be read: ${error}`));
    return found!;
  }

  async function rows({ lineage, txid }: Pick<ContentPoint, "lineage" | "txid">): Promise<Set<string>> {
    // Anew: what is known from before may have been collected since.
    const chain = await new Chains(context.backend).resolve(lineage, txid);
    const { digest } = await readObjectIndex(context.backend, chain.objects.at(-1)!);
    const file = `${directory}/point-${crypto.randomUUID()}.db`;
    await materialize(context.backend, chain, digest, file);
    try {
      return new Set(contentOf(file, `${lineage}/${txid}`).split(","));
    } finally {
      await Deno.remove(file);
    }
  }
}

/** The rows that a merge has to leave; one that takes back leaves what was there before the other (`had`). */
function merged({ base, source, before, had }: {
  base: ReadonlySet<string>;
  source: ReadonlySet<string>;
  before: ReadonlySet<string>;
  had: ReadonlySet<string> | undefined;
}): Set<string> {
  const gone = base.difference(source);
  const come = source.difference(base);
  if (had === undefined) return before.difference(gone).union(come);
  return before.difference(gone.difference(had)).union(come.intersection(had));
}

function describe({ id, from, reverts, base, source, before, onto }: MergeRecord): string {
  return JSON.stringify({ id, from, reverts, base, source, before, onto });
}

/**
 * Verifies, after a checkpoint has committed, that the branch's head in the store is what the checkpoint wrote. Lease
 * and epoch fence other writers of this program, not another program that writes to the bucket, nor a server that
 * breaks its promises.
 */

import type { Backend } from "../backend/backend.ts";
import { Chains } from "./chain.ts";
import { readObjectIndex } from "./object_index.ts";
import type { Head } from "./objects.ts";
import { messageOf } from "../errors.ts";

/**
 * What is wrong with the head of `lineage`, which is to be `written`; undefined when nothing is. A head that cannot be
 * read is wrong, too. Never throws.
 */
export async function headTrouble(backend: Backend, lineage: string, written: Head): Promise<string | undefined> {
  try {
    // Without what this process remembers: the store itself is asked.
    const { objects } = await new Chains(backend).resolve(lineage, written.txid);
    const last = objects.at(-1)!;
    const { key, kind } = last;
    if (kind !== written.kind) return `a ${kind} of the same transaction sorts before the ${written.kind}: ${key}`;
    const { digest } = await readObjectIndex(backend, last);
    return digest === written.digest ? undefined : `other content is there: ${key}`;
  } catch (error) {
    return `it could not be verified: ${messageOf(error)}`;
  }
}

/**
 * A last look after a checkpoint has committed: whether what the store has as the
 * branch's head is what the checkpoint wrote. The lease and its epoch keep other writers
 * of this program away; a bucket that another program writes to, a second program, or a
 * server that breaks its promises they do not.
 */

import type { Backend } from "../backend/backend.ts";
import { Chains } from "./chain.ts";
import { readObjectIndex } from "./object_index.ts";
import type { Head } from "./objects.ts";
import { messageOf } from "../errors.ts";

/**
 * What is wrong with the head of `lineage`, which is to be `written`; undefined when nothing is. What cannot be seen is
 * wrong, too; the result is then the reason. Never throws.
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

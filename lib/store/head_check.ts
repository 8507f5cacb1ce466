/**
 * Verifies, after a checkpoint has committed, that the branch's head in the store is what the checkpoint wrote. Lease
 * and epoch fence other writers of this program, not another program that writes to the bucket, nor a server that
 * breaks its promises.
 */

import type { Backend } from "../backend/backend.ts";
import { type Base, Chains } from "./chain.ts";
import { readObjectIndex } from "./object_index.ts";
import type { Head } from "./objects.ts";
import { messageOf } from "../errors.ts";

/** The object that ends a chain, by what the store itself says and not what this process remembers; with its digest. */
export async function lastObject(backend: Backend, { lineage, txid }: Base) {
  const last = (await new Chains(backend).resolve(lineage, txid)).objects.at(-1)!;
  return { ...last, digest: (await readObjectIndex(backend, last)).digest };
}

/**
 * What is wrong with the head of `lineage`, which is to be `written`; undefined when nothing is. A head that cannot be
 * read is wrong, too. Never throws.
 */
export async function headTrouble(backend: Backend, lineage: string, written: Head): Promise<string | undefined> {
  try {
    const { key, kind, digest } = await lastObject(backend, { lineage, txid: written.txid });
    if (kind !== written.kind) return `a ${kind} of the same transaction sorts before the ${written.kind}: ${key}`;
    return digest === written.digest ? undefined : `other content is there: ${key}`;
  } catch (error) {
    return `it could not be verified: ${messageOf(error)}`;
  }
}

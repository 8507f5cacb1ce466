/**
 * Whether what a person is shown is what is at the gate: asked by the terminal and by the pages, where it is shown, of
 * whatever a broker has answered.
 */

import { canonicalJson, type JsonLike } from "../../lib/text/canonical_json.ts";
import type { Binding } from "./binding.ts";
import { type Digest, isLeafOf, pageLeaf } from "./page_proof.ts";
import type { DatabaseRows } from "./row_pages.ts";

/**
 * Whether a page of rows is one of those that the gate is bound to: not a byte of it, nor a row, is another one. A gate of
 * an earlier version has nothing to hold it to.
 */
export async function isPageShown(
  { gate }: Pick<AnsweredTask, "gate">,
  { database, table, cursor }: { database: string; table: string; cursor?: string | undefined },
  { rows, next, proof }: DatabaseRows,
  digest: Digest,
): Promise<boolean> {
  const changeset = gate?.binding?.databases.find(({ db }) => db === database)?.result?.changeset;
  if (changeset === undefined) return true;
  const leaf = pageLeaf({ table, ...cursor && { cursor }, rows, ...next !== undefined && { next } });
  return proof !== undefined && await isLeafOf(changeset, leaf, proof, digest);
}

/** A task as it was answered; a gate of an earlier version has no binding. */
export interface AnsweredTask {
  gate?: { diff_sha256: string; second_look: readonly string[]; binding?: Binding };
  evidence: Readonly<Record<string, unknown>>;
}

/**
 * The gate's digest has to be that of its binding, which names the diff, the brief and the categories; without one, the digests
 * recorded with the change have to be those of the bytes and of the gate.
 *
 * @param shown The bytes of the diff and the brief, as they were received.
 */
export async function isShown(
  { gate, evidence: { change } }: AnsweredTask,
  shown: { diff: Uint8Array<ArrayBuffer>; brief: JsonLike | undefined },
  digest: Digest,
): Promise<boolean> {
  const shown_sha256 = await digest(shown.diff);
  const digestOf = (value: JsonLike) => digest(new TextEncoder().encode(canonicalJson(value)));
  if (gate?.binding !== undefined) {
    const { binding, diff_sha256, second_look } = gate;
    return binding.shown_sha256 === shown_sha256 &&
      binding.brief_sha256 === await digestOf(shown.brief ?? null) &&
      canonicalJson(binding.second_look) === canonicalJson(second_look) &&
      await digestOf(binding) === diff_sha256;
  }
  if (typeof change !== "object" || change === null) return false;
  const recorded = change as { shown_sha256?: unknown; diff_sha256?: unknown };
  return recorded.shown_sha256 === shown_sha256 && (gate === undefined || recorded.diff_sha256 === gate.diff_sha256);
}

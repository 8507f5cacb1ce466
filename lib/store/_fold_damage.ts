/**
 * What is damaged of the past of a branch that is folded: such points stay where they are, and hold up no others.
 */

import { hasCode, messageOf } from "../errors.ts";
import type { Base, Chain, ChainObject } from "./chain.ts";
import type { StoreContext } from "./context.ts";
import { unreadable } from "./errors.ts";
import { readError, withKey } from "./materialize.ts";
import { type BranchName, formatAddress } from "./names.ts";
import { readObjectThrough } from "./object_index.ts";
import type { FoldResult } from "./results.ts";
import { noteDamage } from "./scrub.ts";

/** What is damaged of a branch's past: what scrubbing knows, and what is met. */
export class KnownDamage {
  readonly #context: StoreContext;
  readonly #name: BranchName;
  readonly #result: FoldResult;
  readonly #known: Set<string>;

  constructor(context: StoreContext, name: BranchName, result: FoldResult) {
    this.#context = context;
    this.#name = name;
    this.#result = result;
    this.#known = new Set(context.workspace.scrubRecord()?.damaged.map(({ where }) => where));
  }

  has({ objects }: Chain): boolean {
    return objects.some(({ key }) => this.#known.has(key));
  }

  /** What `work` answers; undefined where that cannot be understood. */
  async passing<T>(of: Base | ChainObject, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (raw) {
      const error = unreadable(raw);
      if (!isDamage(error)) throw error;
      if ("key" in of) await this.#met(of.key, messageOf(readError(withKey(of, error))));
      else await this.#met(`${formatAddress(this.#name)}@txid:${of.txid}`, messageOf(error));
      return undefined;
    }
  }

  /** Reads all of some chains, twice what does not read right; whether something was found that was not known. */
  async look(chains: readonly Chain[]): Promise<boolean> {
    const objects = new Map(chains.flatMap(({ objects }) => objects.map((object) => [object.key, object] as const)));
    const before = this.#known.size;
    for (const object of objects.values()) {
      const read = () => readObjectThrough(this.#context.backend, object, () => {});
      await this.passing(object, () => read().catch(read));
    }
    return this.#known.size > before;
  }

  async #met(where: string, why: string): Promise<void> {
    if (this.#known.has(where)) return;
    this.#known.add(where);
    this.#result.failed.push({ ...this.#name, error: `points stay unfolded: ${why}` });
    const { db, branch } = this.#name;
    const name = formatAddress({ db, branch });
    const hint = `Run: taskd repair ${name}`;
    await noteDamage(this.#context, [{ what: "object", where, why, hint, needed_by: [name] }]);
  }
}

export function isDamage(error: unknown): boolean {
  return hasCode(error, "corrupt", "unsupported_format");
}

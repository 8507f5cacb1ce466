/**
 * What refs and later objects say that an object's digest is: refs name that of their points, and each object names that
 * of the one before it. What an object says counts only when it is itself as it was promised: so an object that lies in
 * another's place neither passes for it nor speaks about others.
 */

import type { Backend } from "../backend/backend.ts";
import type { HistoryNode } from "./history.ts";
import type { ObjectIndex } from "./object_file.ts";
import { readObjectIndex } from "./object_index.ts";

export class Promises {
  readonly #backend: Backend;
  readonly #indexes = new Map<HistoryNode, Promise<ObjectIndex | undefined>>();
  readonly #digests = new Map<HistoryNode, ReadonlySet<string>>();

  /** For one state of a store: what is read is remembered. */
  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** The index of an object; undefined when it cannot be read. */
  index(node: HistoryNode): Promise<ObjectIndex | undefined> {
    const read = () => readObjectIndex(this.#backend, node.object).catch(() => undefined);
    return this.#indexes.getOrInsertComputed(node, read);
  }

  /** The digests that an object is promised to have: one, but where a ref is wrong; none where nothing knows of it. */
  async of(node: HistoryNode): Promise<ReadonlySet<string>> {
    // From the leaves on, without recursion: histories are long.
    const rest = [node];
    for (let at = rest.at(-1); at; at = rest.at(-1)) {
      const unknown = this.#digests.has(at) ? [] : at.children.filter((child) => !this.#digests.has(child));
      if (unknown.length > 0) {
        rest.push(...unknown);
        continue;
      }
      rest.pop();
      if (!this.#digests.has(at)) this.#digests.set(at, await this.#gather(at));
    }
    return this.#digests.get(node)!;
  }

  async #gather({ points, children }: HistoryNode): Promise<ReadonlySet<string>> {
    const digests = new Set(points.flatMap(({ digest }) => digest ?? []));
    for (const child of children) {
      const index = await this.index(child);
      if (index && this.#digests.get(child)!.has(index.digest)) digests.add(index.header.prev);
    }
    return digests;
  }

  /** Whether an object may be what its branch had: it is what was promised, or nothing that may be right denies it. */
  async allows(node: HistoryNode): Promise<boolean> {
    const [promised, own] = [await this.of(node), await this.index(node)];
    if (!own) return false;
    if (promised.size > 0) return promised.has(own.digest);
    for (const child of node.children) {
      const [digests, index] = [await this.of(child), await this.index(child)];
      if (index && index.header.prev !== own.digest && (digests.size === 0 || digests.has(index.digest))) return false;
    }
    return true;
  }
}

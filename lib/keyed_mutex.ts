/**
 * One lock for each of any number of things, so that no two works that change the same thing run at the same time: the
 * branches of a store, the databases that tasks land in.
 */

/**
 * A mutex for each of any number of keys, first come first served. A caller queues for all of its keys at once, so that
 * it waits for earlier callers alone: none can deadlock, and none that has a key in common overtakes. An unused key
 * costs nothing.
 */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();

  /** Runs `work` while holding every one of `keys`. Not reentrant. */
  async run<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const unique = [...new Set(keys)];
    const before = unique.map((key) => this.#tails.get(key));
    const { promise: tail, resolve: release } = Promise.withResolvers<void>();
    for (const key of unique) this.#tails.set(key, tail);
    try {
      await Promise.all(before);
      return await work();
    } finally {
      for (const key of unique) {
        if (this.#tails.get(key) === tail) this.#tails.delete(key);
      }
      release();
    }
  }

  /** Keys that are held or waited for. */
  get size(): number {
    return this.#tails.size;
  }
}

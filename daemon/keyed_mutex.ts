/**
 * One lock for each branch, so that no two operations of the daemon touch a branch's ref or checkout at the same time.
 */

/**
 * A mutex for each of any number of keys, first come first served. Several keys are
 * always taken in sorted order, so callers cannot deadlock; an unused key costs nothing.
 */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<void>>();

  /** Runs `work` while holding every one of `keys`. Not reentrant. */
  async run<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const releases: (() => void)[] = [];
    try {
      for (const key of [...new Set(keys)].sort()) releases.push(await this.#acquire(key));
      return await work();
    } finally {
      for (const release of releases) release();
    }
  }

  /** Keys that are held or waited for. */
  get size(): number {
    return this.#tails.size;
  }

  async #acquire(key: string): Promise<() => void> {
    const before = this.#tails.get(key);
    const { promise: tail, resolve } = Promise.withResolvers<void>();
    this.#tails.set(key, tail);
    await before;
    return () => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
      resolve();
    };
  }
}

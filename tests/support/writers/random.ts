/**
 * A seeded source of decisions: the same seed makes the same choices, so that a
 * failing run is replayed by its number.
 */

/** Seeded pseudo-random numbers (mulberry32); not for secrets. */
export class SeededRandom {
  #state: number;

  /** Starts the sequence that belongs to `seed`. */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number in [0, 1). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  /** True with the given probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** One of `values`, which must not be empty. */
  pick<T>(values: readonly T[]): T {
    return values[this.between(0, values.length - 1)]!;
  }

  /** `count` bytes; fits the engine's `RandomBytes`. */
  bytes = (count: number): Uint8Array => {
    const bytes = new Uint8Array(count);
    for (let index = 0; index < count; index++) bytes[index] = this.between(0, 255);
    return bytes;
  };

  /** A generator of its own, so that one consumer's appetite does not shift another's choices. */
  fork(): SeededRandom {
    return new SeededRandom(Math.floor(this.next() * 2 ** 32));
  }
}

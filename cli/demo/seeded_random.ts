/**
 * A seeded random source for made-up data: the same seed gives the same sequence
 * on every machine. Not for secrets.
 *
 * @module
 */

/** A seeded sequence (sfc32) with the draws that made-up data needs. */
export class SeededRandom {
  #a = 0x9e3779b9;
  #b = 0x243f6a88;
  #c = 0xb7e15162;
  #counter = 1;

  /** Starts the sequence of `seed`, any 32-bit integer. */
  constructor(seed: number) {
    this.#a ^= seed;
    // Twelve rounds mix a small seed into all 128 bits of state.
    for (let round = 0; round < 12; round++) this.next();
  }

  /** The next 32 bits, as an unsigned integer. */
  next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + sum) | 0;
    return sum >>> 0;
  }

  /** An integer in `0 .. count - 1`. */
  below(count: number): number {
    return Math.floor((this.next() / 0x1_0000_0000) * count);
  }

  /** An integer in `low .. high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** Whether an event of `probability` (0 to 1) happens. */
  chance(probability: number): boolean {
    return this.next() < probability * 0x1_0000_0000;
  }

  /** One of `items`, each as likely. */
  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)]!;
  }
}

/**
 * Draws ranks `0 .. count - 1` by Zipf's law (rank r is 1/(r+1)^exponent as likely
 * as rank 0) from a table, so a draw costs one random number and one read.
 */
export class ZipfTable {
  readonly #ranks: Uint32Array;

  /** Prepares the table; `exponent` is about 1 for words and for what people buy. */
  constructor(count: number, exponent: number) {
    const slots = Math.max(1 << 16, count * 4);
    this.#ranks = new Uint32Array(slots);
    let total = 0;
    for (let rank = 0; rank < count; rank++) total += 1 / (rank + 1) ** exponent;
    let reached = 0;
    let slot = 0;
    for (let rank = 0; rank < count; rank++) {
      reached += 1 / (rank + 1) ** exponent;
      const end = Math.round((reached / total) * slots);
      while (slot < end) this.#ranks[slot++] = rank;
    }
  }

  /** The next rank. */
  draw(random: SeededRandom): number {
    return this.#ranks[random.below(this.#ranks.length)]!;
  }
}

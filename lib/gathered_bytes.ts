/**
 * Bytes that come in parts of any size, from a peer that chooses it: copied into blocks, since a part of one byte that is
 * kept costs hundreds.
 */

import { concat } from "./concat.ts";

const FIRST_BLOCK_BYTES = 1 << 10;
const MAX_BLOCK_BYTES = 64 << 10;

/** Holds at most twice what came, and no more than 64 KiB beyond it. */
export class GatheredBytes {
  readonly #full: Uint8Array[] = [];
  #block: Uint8Array = new Uint8Array(0);
  /** Bytes of the last block that are taken. */
  #used = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Bytes that are allocated. */
  get held_bytes(): number {
    return this.#length - this.#used + this.#block.length;
  }

  /** Copies `part`, whose memory may be used again. */
  push(part: Uint8Array): void {
    const fitting = part.subarray(0, this.#block.length - this.#used);
    this.#block.set(fitting, this.#used);
    this.#used += fitting.length;
    const rest = part.subarray(fitting.length);
    if (rest.length > 0) {
      if (this.#used > 0) this.#full.push(this.#block);
      const size = Math.min(MAX_BLOCK_BYTES, Math.max(FIRST_BLOCK_BYTES, this.#length + fitting.length));
      this.#block = new Uint8Array(Math.max(rest.length, size));
      this.#block.set(rest);
      this.#used = rest.length;
    }
    this.#length += part.length;
  }

  /** A copy of all that came. */
  whole(): Uint8Array<ArrayBuffer> {
    return concat([...this.#full, this.#block.subarray(0, this.#used)]);
  }
}

/**
 * Takes exact numbers of bytes from a stream of chunks. The buffer grows only with what has arrived, whatever number
 * is asked for; a stream that ends too early is `corrupt`.
 */

import { corrupt } from "./_bytes.ts";
import { concat } from "../concat.ts";

export class ChunkReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #chunk: Uint8Array = new Uint8Array(0);
  offset = 0;

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async #more(): Promise<Uint8Array | undefined> {
    for (;;) {
      const next = await this.#chunks.next();
      if (next.done) return undefined;
      if (next.value.length > 0) return next.value;
    }
  }

  /** The next `length` bytes, valid until the next call. */
  async take(length: number): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    let missing = length;
    for (;;) {
      const part = this.#chunk.subarray(0, missing);
      this.#chunk = this.#chunk.subarray(part.length);
      missing -= part.length;
      if (part.length > 0) parts.push(part);
      if (missing === 0) break;
      const more = await this.#more();
      if (more === undefined) throw corrupt(`it ends after ${this.offset + length - missing} bytes`);
      this.#chunk = more;
    }
    this.offset += length;
    return parts.length === 1 ? parts[0]! : concat(parts);
  }

  async ended(): Promise<boolean> {
    return this.#chunk.length === 0 && await this.#more() === undefined;
  }

  async close(): Promise<void> {
    await this.#chunks.return?.();
  }
}

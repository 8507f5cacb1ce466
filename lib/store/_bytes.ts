/**
 * Writing and reading small numbers in a row of bytes: LEB128 varints below 2^32
 * and big-endian words. A number has exactly one encoding, so that equal values are equal bytes.
 */

import { TaskdError } from "../errors.ts";

/** The error for bytes that cannot be what was written. */
export function corrupt(problem: string, cause?: unknown): TaskdError {
  return new TaskdError("corrupt", `Cannot read a stored object: ${problem}`, {
    hint: "Bring the object back from a copy of the store, or roll the branch back to a checkpoint before it",
    ...(cause === undefined ? {} : { cause }),
  });
}

export class ByteWriter {
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #at = 0;

  constructor(capacity = 64) {
    this.#bytes = new Uint8Array(capacity);
    this.#view = new DataView(this.#bytes.buffer);
  }

  #reserve(count: number): void {
    if (this.#at + count <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#at + count));
    grown.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#bytes[this.#at++] = value;
  }

  /** Seven bits a byte, low ones first; a set high bit means that more follow. */
  varint(value: number): void {
    this.#reserve(5);
    let rest = value;
    while (rest >= 128) {
      this.#bytes[this.#at++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#at++] = rest;
  }

  uint32(value: number): void {
    this.#reserve(4);
    this.#view.setUint32(this.#at, value);
    this.#at += 4;
  }

  append(bytes: Uint8Array): void {
    this.#reserve(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(0, this.#at);
  }
}

/** Takes numbers from bytes; running past the end or a second encoding of a number is `corrupt`. */
export class ByteReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #what: string;
  #at = 0;

  /** `what` names the bytes in error messages. */
  constructor(bytes: Uint8Array, what: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#what = what;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  #need(count: number): void {
    if (this.left < count) throw corrupt(`${this.#what} ends too early`);
  }

  byte(): number {
    this.#need(1);
    return this.#bytes[this.#at++]!;
  }

  varint(): number {
    let value = 0;
    for (let scale = 1;; scale *= 128) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) {
        if (value > 0xffffffff || (byte === 0 && scale > 1)) throw corrupt(`${this.#what} has a malformed number`);
        return value;
      }
      if (scale === 128 ** 4) throw corrupt(`${this.#what} has a malformed number`);
    }
  }

  uint32(): number {
    this.#need(4);
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4);
  }

  /** The next `count` bytes, as a view. */
  take(count: number): Uint8Array {
    this.#need(count);
    this.#at += count;
    return this.#bytes.subarray(this.#at - count, this.#at);
  }
}

/**
 * A connection with a read buffer: heads and lines are taken off its front, and what was read too much stays for
 * the next read. Every byte moved counts as progress for the connection's deadline.
 */

import type { SharedBuffers } from "./_shared_buffers.ts";

export interface Stream {
  /** Fills `into` from its front; null at the end. */
  read(into: Uint8Array): Promise<number | null>;
  /** Writes a part of `bytes`, and waits while the peer does not take it. */
  write(bytes: Uint8Array): Promise<number>;
  closeWrite(): Promise<void>;
  close(): void;
}

/** Read sizes: small for what is idle, large once a peer fills it; then what {@linkcode SharedBuffers} lends. */
const SMALL_BYTES = 4 << 10;
const LARGE_BYTES = 128 << 10;

export class EndedEarly extends Error {
  override name = "EndedEarly";
}

export class TooLong extends Error {
  override name = "TooLong";
}

export class BufferedConnection {
  readonly #stream: Stream;
  readonly #onProgress: () => void;
  readonly #buffers: SharedBuffers;
  #buffer = new Uint8Array(SMALL_BYTES);
  #start = 0;
  #end = 0;
  #closed = false;
  #sent = 0;

  constructor(stream: Stream, onProgress: () => void, buffers: SharedBuffers) {
    this.#stream = stream;
    this.#onProgress = onProgress;
    this.#buffers = buffers;
  }

  get sent_bytes(): number {
    return this.#sent;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Bytes that were read and not taken; valid until the next read. */
  get buffered(): Uint8Array {
    return this.#buffer.subarray(this.#start, this.#end);
  }

  /** Reads more into the buffer; false at the end. */
  async fill(): Promise<boolean> {
    if (this.#start === this.#end) this.#start = this.#end = 0;
    if (this.#end === this.#buffer.length) {
      const kept = this.buffered;
      const size = kept.length > this.#buffer.length / 2 ? this.#buffer.length * 2 : this.#buffer.length;
      const next = new Uint8Array(Math.max(size, SMALL_BYTES));
      next.set(kept);
      [this.#buffer, this.#start, this.#end] = [next, 0, kept.length];
    }
    const count = await this.#stream.read(this.#buffer.subarray(this.#end));
    if (count === null) return false;
    this.#end += count;
    this.#onProgress();
    return true;
  }

  /** Takes `count` buffered bytes off the front; valid until the next read. */
  take(count: number): Uint8Array {
    const taken = this.#buffer.subarray(this.#start, this.#start + count);
    this.#start += taken.length;
    return taken;
  }

  /**
   * Takes everything before the next `mark`, and the mark itself.
   *
   * @returns The bytes before it; undefined when the connection ended before a first byte.
   * @throws {TooLong} Beyond `max_bytes`.
   * @throws {EndedEarly} When it ended before the mark.
   */
  async takeUntil(mark: Uint8Array, max_bytes: number): Promise<Uint8Array | undefined> {
    let searched = 0;
    for (;;) {
      const found = indexOf(this.buffered, mark, searched);
      if (found > max_bytes) throw new TooLong();
      if (found >= 0) return this.take(found + mark.length).slice(0, found);
      const length = this.#end - this.#start;
      if (length >= max_bytes + mark.length) throw new TooLong();
      searched = Math.max(0, length - mark.length + 1);
      if (await this.fill()) continue;
      if (length === 0) return undefined;
      throw new EndedEarly();
    }
  }

  /** Passes `count` bytes on to `to`, waiting while that does not take them. Throws {@linkcode EndedEarly}. */
  async pass(to: BufferedConnection, count: number): Promise<void> {
    for (let left = count; left > 0;) {
      if (this.#start === this.#end) {
        if (left >= LARGE_BYTES) return await this.#passOn(to, left);
        if (!await this.fill()) throw new EndedEarly();
      }
      const bytes = this.take(Math.min(left, this.#end - this.#start));
      left -= bytes.length;
      await to.write(bytes);
    }
  }

  async passAll(to: BufferedConnection): Promise<void> {
    const early = this.take(this.#end - this.#start);
    if (early.length > 0) await to.write(early);
    // A tunnel may idle for long: the memory of a large head is released.
    this.#buffer = new Uint8Array(0);
    this.#start = this.#end = 0;
    await this.#passOn(to, Infinity);
  }

  /**
   * Passes on what has not been read yet: `left` bytes, or everything until the end when that is Infinity. The reads
   * grow with what comes, and other connections get their turn.
   */
  async #passOn(to: BufferedConnection, left: number): Promise<void> {
    let own = new Uint8Array(SMALL_BYTES);
    let lent: Uint8Array | undefined;
    try {
      while (left > 0) {
        const buffer = lent ?? own;
        const count = await this.#stream.read(left < buffer.length ? buffer.subarray(0, left) : buffer);
        if (count === null) {
          if (left === Infinity) return;
          throw new EndedEarly();
        }
        left -= count;
        this.#onProgress();
        await to.write(buffer.subarray(0, count));
        if (lent === undefined && count === own.length) {
          if (count < LARGE_BYTES) own = new Uint8Array(LARGE_BYTES);
          else lent = this.#buffers.lend();
        } else if (lent !== undefined && count < LARGE_BYTES) {
          // Others have more use for it.
          this.#buffers.giveBack(lent);
          lent = undefined;
        }
        const turn = this.#buffers.moved(count);
        if (turn !== undefined) await turn;
      }
    } finally {
      if (lent !== undefined) this.#buffers.giveBack(lent);
    }
  }

  async write(bytes: Uint8Array): Promise<void> {
    for (let done = 0; done < bytes.length;) {
      const count = await this.#stream.write(done === 0 ? bytes : bytes.subarray(done));
      done += count;
      this.#sent += count;
      this.#onProgress();
    }
  }

  /** Ends the sending half; a peer that is gone already is ignored. */
  async endWrite(): Promise<void> {
    await this.#stream.closeWrite().catch(() => {});
  }

  /**
   * Ends the connection so that the peer can still read what was written: closing with unread bytes would send a reset,
   * which takes the answer out of the peer's hands. At most `max_bytes` are read for it; a deadline bounds the time.
   */
  async linger(max_bytes: number): Promise<void> {
    await this.endWrite();
    const buffer = new Uint8Array(SMALL_BYTES);
    for (let read = 0; read < max_bytes;) {
      const count = await this.#stream.read(buffer).catch(() => null);
      if (count === null) break;
      read += count;
    }
    this.close();
  }

  /** Ends both halves at once; again is nothing. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      this.#stream.close();
    } catch {
      // It had ended already.
    }
  }
}

function indexOf(bytes: Uint8Array, mark: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(mark[0]!, from); at >= 0; at = bytes.indexOf(mark[0]!, at + 1)) {
    if (at + mark.length > bytes.length) return -1;
    let same = 1;
    while (same < mark.length && bytes[at + same] === mark[same]) same++;
    if (same === mark.length) return at;
  }
  return -1;
}

/**
 * Framing of the socket protocol: one JSON object per line.
 *
 * {@linkcode LineSplitter} turns chunks of bytes into lines without ever holding
 * more than its limit: a longer line is reported once and then discarded up to its
 * newline, so that the connection stays usable.
 */

import { GatheredBytes } from "../gathered_bytes.ts";

/** The longest request line in bytes, newline excluded: the bound of a POST /rpc body too. */
export const MAX_LINE_BYTES = 1 << 20;

/** A complete line, a line over the limit, or what stood after the last newline at the end of the stream. */
export type Line =
  | { kind: "line"; bytes: Uint8Array }
  | { kind: "too_long" }
  | { kind: "unterminated" };

const NEWLINE = 0x0a;

export class LineSplitter {
  readonly #max_bytes: number;
  /** The beginning of a line. */
  #held = new GatheredBytes();
  #discarding = false;

  /** Lines may have up to `max_bytes` bytes, newline excluded. */
  constructor(max_bytes: number = MAX_LINE_BYTES) {
    this.#max_bytes = max_bytes;
  }

  /** The lines that `chunk` completes. The chunk's memory may be reused once the iteration is over. */
  *push(chunk: Uint8Array): Generator<Line> {
    let start = 0;
    while (start < chunk.length) {
      const newline = chunk.indexOf(NEWLINE, start);
      const end = newline < 0 ? chunk.length : newline;
      if (!this.#discarding && this.#held.length + end - start > this.#max_bytes) {
        this.#drop();
        this.#discarding = true;
        yield { kind: "too_long" };
      }
      if (newline < 0) {
        if (!this.#discarding) this.#held.push(chunk.subarray(start));
        return;
      }
      if (this.#discarding) this.#discarding = false;
      else yield { kind: "line", bytes: this.#take(chunk.subarray(start, end)) };
      start = end + 1;
    }
  }

  /** What is left at the end of the stream: a line that was cut off, or nothing. */
  *end(): Generator<Line> {
    const cut = this.#held.length > 0;
    this.#drop();
    if (cut) yield { kind: "unterminated" };
  }

  #take(last: Uint8Array): Uint8Array {
    if (this.#held.length === 0) return last;
    this.#held.push(last);
    const line = this.#held.whole();
    this.#drop();
    return line;
  }

  #drop(): void {
    this.#held = new GatheredBytes();
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** The text of a line; undefined when it is not UTF-8. */
export function decodeLine(bytes: Uint8Array): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

export function encodeLine(value: unknown): Uint8Array {
  return encoder.encode(`${JSON.stringify(value)}\n`);
}

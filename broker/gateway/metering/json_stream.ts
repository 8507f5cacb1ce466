/**
 * A response body of JSON: one object, or one array that arrives element by element.
 * Gives each top-level object once it is complete, whatever the chunks and the
 * indentation, so that an answer that was cut off is still metered by what came.
 */

import { LongText } from "../../../lib/long_text.ts";
import { parseAnswer } from "./answer_json.ts";

const MAX_VALUE_CHARS = 32 << 20;

const QUOTE = 34;
const BACKSLASH = 92;

export class JsonStreamParser {
  readonly #decoder = new TextDecoder();
  readonly #on_value: (value: unknown, text: string) => void;
  readonly #max_chars: number;
  /** The part of the present object before this chunk. */
  readonly #part = new LongText();
  #chars = 0;
  #depth = 0;
  #in_string = false;
  #escaped = false;
  /** Objects that were too large to keep, or were no JSON. */
  dropped = 0;

  constructor(on_value: (value: unknown, text: string) => void, max_chars = MAX_VALUE_CHARS) {
    this.#on_value = on_value;
    this.#max_chars = max_chars;
  }

  /** Characters of an object that has not come whole. */
  get held_chars(): number {
    return this.#part.length;
  }

  push(bytes: Uint8Array): void {
    this.#text(this.#decoder.decode(bytes, { stream: true }));
  }

  /** The stream has ended; an object that is not complete is dropped. */
  end(): void {
    this.#text(this.#decoder.decode());
    if (this.#depth > 0) this.dropped++;
    this.#depth = 0;
    this.#part.take();
  }

  #text(text: string): void {
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      if (this.#in_string) {
        at = this.#skipString(text, at);
        continue;
      }
      const code = text.charCodeAt(at);
      if (code === QUOTE) this.#in_string = true;
      // Only objects count: the array around them, and the commas between them, are skipped.
      else if (code === 123) {
        if (this.#depth++ === 0) from = at;
      } else if (code === 125 && this.#depth > 0 && --this.#depth === 0) {
        this.#keep(text.slice(from, at + 1));
        this.#emit();
      }
    }
    if (this.#depth > 0) this.#keep(text.slice(from));
  }

  /** Index of the last character of `text` that belongs to the present string. */
  #skipString(text: string, at: number): number {
    for (; at < text.length; at++) {
      if (this.#escaped) this.#escaped = false;
      else {
        const code = text.charCodeAt(at);
        if (code === BACKSLASH) this.#escaped = true;
        else if (code === QUOTE) {
          this.#in_string = false;
          return at;
        }
      }
    }
    return at;
  }

  #keep(part: string): void {
    this.#chars += part.length;
    if (this.#chars <= this.#max_chars) this.#part.push(part);
    else this.#part.take();
  }

  #emit(): void {
    const text = this.#part.take();
    const kept = this.#chars <= this.#max_chars;
    this.#chars = 0;
    const value = kept ? parseAnswer(text) : undefined;
    if (value === undefined) this.dropped++;
    else this.#on_value(value, text);
  }
}

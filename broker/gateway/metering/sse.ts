/**
 * Server-sent events, as the vendors stream them: gives the data of each event,
 * whatever the chunks, line ends and sizes. An event without its final empty line
 * counts when the stream ends.
 *
 * @module
 */

/** The characters of one event that are kept; the last event of a stream can repeat the whole answer. */
const MAX_EVENT_CHARS = 32 << 20;

/** Splits a stream of server-sent events. */
export class SseParser {
  readonly #decoder = new TextDecoder();
  readonly #on_data: (data: string) => void;
  readonly #max_chars: number;
  /** The part of the present line before this chunk. */
  #rest: string[] = [];
  #data: string[] = [];
  #chars = 0;
  #after_cr = false;
  /** Events that were too large to keep. */
  dropped = 0;

  /** Calls `on_data` with the data of each event. */
  constructor(on_data: (data: string) => void, max_chars = MAX_EVENT_CHARS) {
    this.#on_data = on_data;
    this.#max_chars = max_chars;
  }

  /** Takes the next bytes. */
  push(bytes: Uint8Array): void {
    this.#text(this.#decoder.decode(bytes, { stream: true }));
  }

  /** The stream has ended. */
  end(): void {
    this.#text(this.#decoder.decode());
    if (this.#rest.length > 0) this.#line("");
    this.#dispatch();
  }

  #text(text: string): void {
    let from = 0;
    const has_cr = text.includes("\r");
    while (from < text.length) {
      // CR LF is one line end, also when a chunk ends between the two.
      if (this.#after_cr) {
        this.#after_cr = false;
        if (text.charCodeAt(from) === 10) {
          from++;
          continue;
        }
      }
      const lf = text.indexOf("\n", from);
      const cr = has_cr ? text.indexOf("\r", from) : -1;
      const at = lf < 0 ? cr : cr < 0 ? lf : Math.min(lf, cr);
      if (at < 0) {
        this.#keep(text.slice(from));
        return;
      }
      this.#line(text.slice(from, at));
      this.#after_cr = text.charCodeAt(at) === 13;
      from = at + 1;
    }
  }

  #keep(part: string): void {
    this.#chars += part.length;
    if (this.#chars <= this.#max_chars) this.#rest.push(part);
    else this.#rest = [""];
  }

  #line(end: string): void {
    this.#chars += end.length;
    const line = this.#rest.length === 0 ? end : this.#rest.join("") + end;
    this.#rest = [];
    if (line === "") this.#dispatch();
    else if (this.#chars > this.#max_chars) this.#data = [];
    else if (line.startsWith("data:")) this.#data.push(line.slice(line.charCodeAt(5) === 32 ? 6 : 5));
  }

  #dispatch(): void {
    const data = this.#data;
    const too_large = this.#chars > this.#max_chars;
    this.#data = [];
    this.#chars = 0;
    if (too_large) this.dropped++;
    else if (data.length > 0) this.#on_data(data.length === 1 ? data[0]! : data.join("\n"));
  }
}

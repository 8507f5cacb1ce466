/**
 * Server-sent events: the form in which both daemons send theirs, and a parser of any server's, in any chunks,
 * line ends and sizes.
 *
 * The parser holds at most one event, and of that at most a bound; the bytes of a chunk are looked at once. An event
 * without its final empty line counts only where {@linkcode EventParser.end} is called.
 *
 * @see {@link https://html.spec.whatwg.org/multipage/server-sent-events.html}
 */

import { concat } from "../concat.ts";
import { LongText } from "../long_text.ts";

/** Between two pings of a stream on which nothing happens. */
export const PING_MS = 15_000;

const encoder = new TextEncoder();
const END = encoder.encode("\n\n");

/** A comment, which readers pass over: it shows that the stream is alive. */
export const PING: Uint8Array<ArrayBuffer> = encoder.encode(": ping\n\n");

export interface EventHead {
  /** Where a subscriber that comes back goes on. */
  id?: string | number | undefined;
  event?: string;
}

/** An event of one line of data, UTF-8. */
export function encodeEvent({ id, event }: EventHead, data: string | Uint8Array): Uint8Array<ArrayBuffer> {
  const head = `${id === undefined ? "" : `id: ${id}\n`}${event === undefined ? "" : `event: ${event}\n`}data: `;
  return concat([encoder.encode(head), typeof data === "string" ? encoder.encode(data) : data, END]);
}

export interface ServerSentEvent {
  event?: string;
  id?: string;
  /** Its data, lines joined by a newline. */
  data: string;
}

/** The characters of one event that are kept; the last event of a vendor's stream can repeat the whole answer. */
const MAX_EVENT_CHARS = 32 << 20;

export class EventParser {
  readonly #decoder = new TextDecoder();
  readonly #on_event: (event: ServerSentEvent) => void;
  readonly #max_chars: number;
  /** The beginning of the present line, from earlier chunks. */
  readonly #rest = new LongText();
  #head: { event?: string; id?: string } = {};
  readonly #data = new LongText();
  #has_data = false;
  #chars = 0;
  #after_cr = false;
  /** Events that were too large to keep, the present one included. */
  dropped = 0;
  /** Lines that are neither a field of an event nor a comment: bytes of something else. */
  foreign = 0;

  /** Calls `on_event` with each event that has data and at most `max_chars` characters. */
  constructor(on_event: (event: ServerSentEvent) => void, max_chars: number = MAX_EVENT_CHARS) {
    this.#on_event = on_event;
    this.#max_chars = max_chars;
  }

  /** Characters of an event that has not come whole. */
  get held_chars(): number {
    return this.#rest.length + this.#data.length;
  }

  push(bytes: Uint8Array): void {
    this.#text(this.#decoder.decode(bytes, { stream: true }));
  }

  /** The stream has ended; what it broke off counts as an event. */
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
    if (this.#fits(part)) this.#rest.push(part);
    else {
      // Not empty, which would end the event: a comment.
      this.#rest.take();
      this.#rest.push(":");
    }
  }

  /** Whether the event is still within its bound with `part`. */
  #fits(part: string): boolean {
    const before = this.#chars;
    this.#chars += part.length;
    if (before <= this.#max_chars && this.#chars > this.#max_chars) this.dropped++;
    return this.#chars <= this.#max_chars;
  }

  #line(end: string): void {
    const fits = this.#fits(end);
    const line = this.#rest.length === 0 ? end : this.#rest.take() + end;
    if (line === "") return this.#dispatch();
    if (!fits) this.#data.take();
    else if (line.startsWith("data:")) {
      if (this.#has_data) this.#data.push("\n");
      this.#data.push(valueOf(line, 5));
      this.#has_data = true;
    } else if (line.startsWith("event:")) this.#head.event = valueOf(line, 6);
    else if (line.startsWith("id:")) this.#head.id = valueOf(line, 3);
    else if (!/^(?::|retry:|(?:data|event|id|retry)$)/.test(line)) this.foreign++;
  }

  #dispatch(): void {
    const [data, has_data, head] = [this.#data.take(), this.#has_data, this.#head];
    const fits = this.#chars <= this.#max_chars;
    this.#has_data = false;
    this.#head = {};
    this.#chars = 0;
    if (fits && has_data) this.#on_event({ ...head, data });
  }
}

function valueOf(line: string, from: number): string {
  return line.slice(line.charCodeAt(from) === 32 ? from + 1 : from);
}

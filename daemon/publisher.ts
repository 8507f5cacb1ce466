/**
 * The one ordered source of events, for every transport.
 *
 * An event is encoded once and every subscriber sees the same bytes in the same order; events of the further types go
 * only to those that ask for them. Publishing never waits: a subscriber whose buffer is full is removed, gets what was
 * buffered and then exactly one `dropped_slow_consumer`, and its stream is closed. A write that makes no progress within
 * the deadline ends the stream too.
 */

import type { Clock } from "../lib/clock.ts";
import { withDeadline } from "../lib/deadline.ts";
import { encodeEvent, MORE_EVENT_TYPES } from "../lib/protocol/events.ts";
import type { AnyEventType, EventDetails, MoreEventDetails } from "../lib/protocol/messages.ts";

/** Deadline of each write to a client, re-armed for every write; the contract's number. */
export const WRITE_DEADLINE_MS = 45_000;

/** Events buffered for each subscriber; the contract's number. */
export const SUBSCRIBER_BUFFER_EVENTS = 64;

const MORE: ReadonlySet<AnyEventType> = new Set(MORE_EVENT_TYPES);

/** Where a subscriber's events go: a socket connection, or the body of an HTTP response. */
export interface EventSink {
  /** Writes one event, a line of JSON with its newline. Rejects when the stream is gone. */
  write(line: Uint8Array): Promise<void>;
  /** Ends the stream at once, also in the middle of a write, which then rejects. Never throws. */
  close(): void;
}

class Subscriber {
  readonly more: boolean;
  readonly #sink: EventSink;
  readonly #limits: { clock: Clock; deadline_ms: number };
  readonly #queue: Uint8Array[] = [];
  readonly #done = Promise.withResolvers<void>();
  #wake = Promise.withResolvers<void>();
  #started = false;
  #last = false;
  #closed = false;

  constructor(sink: EventSink, more: boolean, limits: { clock: Clock; deadline_ms: number }) {
    this.more = more;
    this.#sink = sink;
    this.#limits = limits;
  }

  /** Resolves when the stream has been closed. */
  get done(): Promise<void> {
    return this.#done.promise;
  }

  /** Buffers an event; false when the buffer is full. */
  offer(line: Uint8Array): boolean {
    if (this.#queue.length >= SUBSCRIBER_BUFFER_EVENTS) return false;
    this.#queue.push(line);
    this.#wake.resolve();
    return true;
  }

  /** Ends the stream once the buffer, and then `line` if there is one, have been written. */
  finish(line?: Uint8Array): void {
    if (line !== undefined) this.#queue.push(line);
    this.#last = true;
    this.#wake.resolve();
    this.start();
  }

  /** Begins to write events; those published since the registration come first. */
  start(): void {
    if (this.#started) return;
    this.#started = true;
    this.#pump().catch(() => {}).finally(() => this.cancel());
  }

  cancel(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#queue.length = 0;
    this.#wake.resolve();
    this.#sink.close();
    this.#done.resolve();
  }

  async #pump(): Promise<void> {
    while (!this.#closed) {
      const line = this.#queue.shift();
      const { clock, deadline_ms } = this.#limits;
      if (line !== undefined) await withDeadline(this.#sink.write(line), clock, deadline_ms);
      else if (this.#last) return;
      else {
        this.#wake = Promise.withResolvers();
        await this.#wake.promise;
      }
    }
  }
}

export interface PublisherOptions {
  clock: Clock;
  /** Deadline of each write; {@linkcode WRITE_DEADLINE_MS} unless a test shortens it. */
  write_deadline_ms?: number | undefined;
}

export class Publisher {
  readonly #clock: Clock;
  readonly #deadline_ms: number;
  readonly #subscribers = new Set<Subscriber>();

  constructor(options: PublisherOptions) {
    this.#clock = options.clock;
    this.#deadline_ms = options.write_deadline_ms ?? WRITE_DEADLINE_MS;
  }

  get subscribers(): number {
    return this.#subscribers.size;
  }

  /**
   * Registers a subscriber: it gets every event published from now on, once it is started; with `more` those of the
   * further types, too.
   */
  subscribe(sink: EventSink, { more = false }: { more?: boolean } = {}): Pick<Subscriber, "start" | "cancel" | "done"> {
    const subscriber = new Subscriber(sink, more, { clock: this.#clock, deadline_ms: this.#deadline_ms });
    this.#subscribers.add(subscriber);
    subscriber.done.then(() => this.#subscribers.delete(subscriber));
    return subscriber;
  }

  /** Publishes one event. Never waits and never throws for a subscriber's sake. */
  publish<T extends AnyEventType>(
    type: T,
    about: { db: string; branch: string },
    detail: (EventDetails & MoreEventDetails)[T],
  ): void {
    const line = encodeEvent(type, about, detail, this.#clock.now());
    const further = MORE.has(type);
    for (const subscriber of this.#subscribers) {
      if (further && !subscriber.more) continue;
      if (!subscriber.offer(line)) this.#drop(subscriber);
    }
  }

  /** Ends every stream once its buffer has been written, or after `within_ms`. */
  async close(within_ms: number): Promise<void> {
    const subscribers = [...this.#subscribers];
    this.#subscribers.clear();
    for (const subscriber of subscribers) subscriber.finish();
    const all = Promise.all(subscribers.map((subscriber) => subscriber.done));
    await withDeadline(all, this.#clock, within_ms).catch(() => {});
    for (const subscriber of subscribers) subscriber.cancel();
  }

  #drop(subscriber: Subscriber): void {
    this.#subscribers.delete(subscriber);
    subscriber.finish(encodeEvent("dropped_slow_consumer", { db: "", branch: "" }, {}, this.#clock.now()));
  }
}

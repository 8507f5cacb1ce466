/**
 * A subscriber as a stream of Server-Sent Events: `data:` lines with the very bytes that the socket's
 * subscribers get, an `id:` for each, and a comment as a ping while nothing happens.
 *
 * @module
 */

import type { Clock } from "../../lib/clock.ts";
import { encodeEvent, PING, PING_MS } from "../../lib/http/server_sent_events.ts";
import type { EventSink, Publisher } from "../publisher.ts";

/**
 * Subscribes to `publisher`; the subscription ends when the stream is cancelled, and the stream when the publisher
 * drops the subscriber.
 *
 * @param prefix First part of every id: ids of different streams are different.
 */
export function eventStream(publisher: Publisher, clock: Clock, prefix: string): ReadableStream<Uint8Array> {
  const stop = new AbortController();
  let has_room = Promise.withResolvers<void>();
  let controller: ReadableStreamDefaultController<Uint8Array>;
  let sequence = 0;
  let closed = false;

  /** Resolves once the reader has room: a reader that stalls leaves it pending, and the publisher's deadline ends it. */
  const enqueue = async (bytes: Uint8Array): Promise<void> => {
    while (!closed && (controller.desiredSize ?? 0) <= 0) await has_room.promise;
    if (closed) throw new DOMException("the stream is closed", "AbortError");
    controller.enqueue(bytes);
  };
  const sink: EventSink = {
    write: (line) => {
      // The line without its newline.
      return enqueue(encodeEvent({ id: `${prefix}-${++sequence}` }, line.subarray(0, -1)));
    },
    close: () => {
      if (closed) return;
      closed = true;
      stop.abort();
      has_room.resolve();
      try {
        controller.close();
      } catch {
        // The reader cancelled it.
      }
    },
  };
  const subscription = publisher.subscribe(sink);

  const ping = async () => {
    while (!closed) {
      try {
        await clock.sleep(PING_MS, stop.signal);
      } catch {
        return;
      }
      // For a reader without room a ping would only delay the events that it has yet to read.
      if (!closed && (controller.desiredSize ?? 0) > 0) controller.enqueue(PING);
    }
  };

  return new ReadableStream<Uint8Array>({
    start: (given) => {
      controller = given;
      // The response's head is sent with its first bytes: a subscriber sees at once that it is registered.
      controller.enqueue(PING);
      subscription.start();
      void ping();
    },
    pull: () => {
      has_room.resolve();
      has_room = Promise.withResolvers();
    },
    cancel: () => subscription.cancel(),
  }, { highWaterMark: 2 });
}

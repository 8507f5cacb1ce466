/**
 * A subscriber as a stream of Server-Sent Events: `data:` lines with the very bytes that the socket's
 * subscribers get, an `id:` for each, and a comment as a ping while nothing happens.
 */

import type { Clock } from "../../lib/clock.ts";
import { encodeEvent, PING, PING_MS } from "../../lib/http/server_sent_events.ts";
import type { Publisher } from "../publisher.ts";

/**
 * Subscribes to `publisher`; the subscription ends when the stream is cancelled, and the stream when the publisher
 * drops the subscriber.
 *
 * @param asked.prefix First part of every id: ids of different streams are different.
 * @param asked.more Whether events of the further types are sent, too.
 */
export function eventStream(
  publisher: Publisher,
  clock: Clock,
  { prefix, more }: { prefix: string; more?: boolean },
): ReadableStream<Uint8Array> {
  const stop = new AbortController();
  let controller!: TransformStreamDefaultController<Uint8Array>;
  let sequence = 0;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>(
    { start: (given) => void (controller = given), cancel: () => subscription.cancel() },
    undefined,
    { highWaterMark: 2 },
  );
  const writer = writable.getWriter();
  const subscription = publisher.subscribe({
    // Resolves once the reader has room: one that stalls leaves it pending, and the publisher's deadline ends it.
    // The data is the line without its newline.
    write: (line) => writer.write(encodeEvent({ id: `${prefix}-${++sequence}` }, line.subarray(0, -1))),
    close: () => {
      stop.abort();
      controller.terminate();
    },
  }, { more: more ?? false });

  const ping = async () => {
    for (;;) {
      // For a reader without room a ping would only delay the events that it has yet to read.
      if ((controller.desiredSize ?? 0) > 0) controller.enqueue(PING);
      await clock.sleep(PING_MS, stop.signal);
    }
  };
  // The first goes out at once: the response's head is sent with it, and a subscriber sees that it is registered.
  ping().catch(() => {});
  subscription.start();
  return readable;
}

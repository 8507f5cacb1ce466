/**
 * A response's body that is made as its reader takes it: one piece at a time, so that a
 * reader who stalls costs one piece of memory, and one that goes away ends the work.
 */

export interface PieceSource {
  /** The next piece; undefined at the end. Is not called again before it has resolved. */
  next(): Promise<Uint8Array | undefined>;
  /** Ends what the source does; a pending `next` then resolves. Called once, at any time. */
  end(): void;
}

/** `source` as a stream; an abort of `signal` ends it as if its last piece had been sent. */
export function pullStream(source: PieceSource, signal: AbortSignal): ReadableStream<Uint8Array> {
  let controller: ReadableStreamDefaultController<Uint8Array>;
  let over = false;
  const finish = (close: boolean) => {
    if (over) return;
    over = true;
    signal.removeEventListener("abort", onAbort);
    source.end();
    if (close) controller.close();
  };
  const onAbort = () => finish(true);
  return new ReadableStream<Uint8Array>({
    start: (given) => {
      controller = given;
      signal.addEventListener("abort", onAbort);
      if (signal.aborted) finish(true);
    },
    pull: async () => {
      try {
        const piece = await source.next();
        if (over) return;
        if (piece === undefined) finish(true);
        else controller.enqueue(piece);
      } catch (error) {
        // The stream fails with it, unless it has ended already.
        finish(false);
        throw error;
      }
    },
    cancel: () => finish(false),
  }, { highWaterMark: 1 });
}

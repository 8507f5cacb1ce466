/**
 * A response's body that is made as its reader takes it: one piece at a time, so that a
 * reader who stalls costs one piece of memory, and one that goes away ends the work.
 */

/** Makes the pieces, until the signal is aborted: it is also when the reader goes away. */
export type Pieces = (signal: AbortSignal) => AsyncGenerator<Uint8Array, void>;

/** The pieces as a stream; an abort of `over` ends it as if its last piece had been sent. */
export function pullStream(make: Pieces, over: AbortSignal): ReadableStream<Uint8Array> {
  const ending = new AbortController();
  const pieces = make(ending.signal);
  const end = () => {
    if (ending.signal.aborted) return;
    over.removeEventListener("abort", end);
    ending.abort();
    // Where a piece is waited for, its failure is that wait's to report.
    pieces.return().catch(() => {});
  };
  over.addEventListener("abort", end);
  if (over.aborted) end();
  return new ReadableStream<Uint8Array>({
    pull: async (controller) => {
      try {
        const { done, value } = await pieces.next();
        if (!done) return controller.enqueue(value);
        end();
        controller.close();
      } catch (error) {
        end();
        throw error;
      }
    },
    cancel: end,
  }, { highWaterMark: 1 });
}

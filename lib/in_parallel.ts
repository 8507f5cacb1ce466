/**
 * Bounded parallel work.
 */

/**
 * Runs `work` on every item, at most `limit` at a time; the next item is asked for when there is room. The first failure
 * ends it and is thrown once none is under way.
 */
export async function inParallel<T>(
  items: Iterable<T> | AsyncIterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const rest = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  let failed = false;
  const run = async () => {
    try {
      while (!failed) {
        const next = await rest.next();
        if (next.done || failed) return;
        await work(next.value);
      }
    } catch (error) {
      failed = true;
      throw error;
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: limit }, run));
  const failure = outcomes.find((outcome) => outcome.status === "rejected");
  if (failure) throw failure.reason;
}

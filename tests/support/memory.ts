/**
 * What a test's own thread holds in memory.
 */

/** Bytes of this thread's objects and buffers. What the process has in all is that of other tests, too. */
export function ownBytes(): number {
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}

/**
 * Temporary directories without a disk behind them, where the system has such: tests that
 * make thousands of small files wait for nothing there.
 */

const MEMORY = "/dev/shm";

/** A new temporary directory, in memory where that can be had. */
export async function makeMemoryDirectory(prefix: string): Promise<string> {
  try {
    return await Deno.makeTempDir({ dir: MEMORY, prefix });
  } catch {
    return await Deno.makeTempDir({ prefix });
  }
}

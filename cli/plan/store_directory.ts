/**
 * Makes a store's directory on first use. A command's permissions end at that
 * directory, so what is above it is touched here, before they are narrowed.
 */

import { fileError, makeDirectories } from "../../lib/fs.ts";

/**
 * Makes `directory`, for its owner alone, unless something is there. It is durable when this returns.
 *
 * @throws {TaskdError} `denied`, `no_space` or `unavailable`.
 */
export async function makeStoreDirectory(directory: string): Promise<void> {
  // Opening the store reports anything else that is wrong with the path.
  const isMissing = await Deno.stat(directory).then(() => false, (error) => error instanceof Deno.errors.NotFound);
  if (!isMissing) return;
  try {
    makeDirectories(directory);
  } catch (error) {
    throw fileError(error, `Cannot make the store ${directory}`);
  }
}

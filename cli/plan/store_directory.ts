/**
 * Makes a store's directory on first use. A command's permissions end at that
 * directory, so what is above it is touched here, before they are narrowed.
 */

import { parentOf } from "../../lib/real_path.ts";

/**
 * Makes `directory`, for its owner alone, unless something is there. It is durable when this returns.
 *
 * @throws {TaskdError} `denied`, `no_space` or `unavailable`.
 */
export async function makeStoreDirectory(directory: string): Promise<void> {
  const missing: string[] = [];
  for (let path = directory; !exists(path); path = parentOf(path)) missing.push(path);
  if (missing.length === 0) return;
  // Loaded on this one occasion.
  const { fileError, fsyncDirectory } = await import("../../lib/fs.ts");
  try {
    Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
    for (const path of missing) await fsyncDirectory(parentOf(path));
  } catch (error) {
    throw fileError(error, `Cannot make the store ${directory}`);
  }
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    // Opening the store reports anything else that is wrong with the path.
    return !(error instanceof Deno.errors.NotFound);
  }
}

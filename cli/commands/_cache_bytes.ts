/**
 * How much the read-only cache takes.
 */

/** Bytes of the files under `directory`; 0 when it is not there. Files that are removed meanwhile do not count. */
export async function cacheBytes(directory: string): Promise<number> {
  let bytes = 0;
  try {
    for await (const entry of Deno.readDir(directory)) {
      const path = `${directory}/${entry.name}`;
      if (entry.isDirectory) bytes += await cacheBytes(path);
      else if (entry.isFile) bytes += await sizeOf(path);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return bytes;
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await Deno.lstat(path)).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}

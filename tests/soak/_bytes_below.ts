/** What a folder takes on disk. */

/** Bytes of the files below `path`; those that go away meanwhile do not count. */
export function bytesBelow(path: string): number {
  let sum = 0;
  try {
    for (const { name, isDirectory } of Deno.readDirSync(path)) {
      sum += isDirectory ? bytesBelow(`${path}/${name}`) : Deno.lstatSync(`${path}/${name}`).size;
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return sum;
}

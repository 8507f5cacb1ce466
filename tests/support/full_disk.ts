/**
 * Fills a small disk, and makes room on it again.
 */

/** Fills the disk that `path` is on with that file, except for `spare_bytes`: not a byte more can be written. */
export function fillDisk(path: string, spare_bytes = 0): void {
  using file = Deno.openSync(path, { write: true, create: true, append: true });
  for (let size = 65_536; size >= 1; size = size > 1 ? size >> 4 : 0) {
    try {
      for (;;) file.writeSync(new Uint8Array(size));
    } catch {
      // Full for writes of this size.
    }
  }
  if (spare_bytes > 0) file.truncateSync(Math.max(0, file.statSync().size - spare_bytes));
}

/**
 * Removes the file. Cut off before: a program that is being started has all files of this process open for a moment, and
 * the blocks of a file that is open anywhere stay taken.
 */
export function makeRoom(path: string): void {
  Deno.truncateSync(path);
  Deno.removeSync(path);
}

/**
 * Rollback journals of unknown origin. SQLite replays one that it finds beside a database, and at its end removes
 * the file that the journal names as its super-journal, wherever that is: so it must not get to see one.
 */

import { lstatIfPresent } from "../fs.ts";

/**
 * Whether SQLite would replay what stands at `path`, by its own rule: the first byte is not zero, whatever follows.
 * Anything but a plain file counts as a journal to replay.
 */
export async function isHotJournal(path: string): Promise<boolean> {
  const info = lstatIfPresent(path);
  if (info === undefined) return false;
  if (!info.isFile) return true;
  using file = await Deno.open(path);
  const first = new Uint8Array(1);
  return await file.read(first) === 1 && first[0] !== 0;
}

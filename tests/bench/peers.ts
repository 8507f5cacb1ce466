/**
 * What people do without a branch store: copy the file, share its blocks, or ask
 * SQLite for a copy. Each runs as the program a person would run.
 */

import { join } from "@std/path/join";
import type { Place } from "./file_systems.ts";
import { output, run } from "./process.ts";
import { elapsed, type Measure } from "./stats.ts";

/** The ways to a second copy of the database file `path`, each leaving a file that is then removed. */
export async function peers(path: string, place: Place): Promise<Record<string, Measure>> {
  const copy = join(place.dir, "peer-copy.db");
  const by = (program: string, ...args: string[]): Measure => async () => {
    const ms = await elapsed(() => run(program, args));
    await Deno.remove(copy);
    return ms;
  };
  const ways: Record<string, Measure> = { cp: by("cp", "--reflink=never", path, copy) };
  if (place.clones) ways["cp --reflink"] = by("cp", "--reflink=always", path, copy);
  if (await output("sqlite3", ["--version"]) !== undefined) {
    ways["sqlite3 .backup"] = by("sqlite3", path, `.backup '${copy}'`);
    ways["VACUUM INTO"] = by("sqlite3", path, `VACUUM INTO '${copy}'`);
  }
  return ways;
}

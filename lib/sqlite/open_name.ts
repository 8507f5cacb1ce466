/**
 * The name under which node:sqlite opens a database. SQLite's URIs express what plain
 * paths cannot (never create, immutable), but Deno 2.9 hands a URI to SQLite only in a process that has
 * every permission; under any narrower grant it takes the URI for a relative path.
 */

import { DatabaseSync } from "node:sqlite";
import { TaskdError } from "../errors.ts";
import { type UriOptions, uriPath } from "./header.ts";

let uris_work: boolean | undefined;

/** Whether SQLite gets to see URIs in this process; asked once, before permissions can change. */
export function urisWork(): boolean {
  if (uris_work === undefined) {
    try {
      // Where it is taken for a path there is no such file, and read-only makes none.
      new DatabaseSync("file:none?mode=memory", { readOnly: true }).close();
      uris_work = true;
    } catch {
      uris_work = false;
    }
  }
  return uris_work;
}

/**
 * A URI with these options where URIs work, else the path.
 *
 * With a path `immutable` has no effect, and `mode` is kept as well as can be: a missing file is an error
 * here, before SQLite can make it. One that disappears after that comes back empty: a caller that opens a
 * database for writing checks its page count, which is 0 then.
 *
 * @throws {TaskdError} `not_found`.
 */
export function openName(path: string, options: UriOptions): string {
  if (urisWork()) return uriPath(path, options);
  try {
    Deno.statSync(path);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
    throw new TaskdError("not_found", `Cannot open ${path}: there is no such file`, { cause });
  }
  return path;
}

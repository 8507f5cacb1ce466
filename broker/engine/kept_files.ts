/**
 * Reading what was written beside a trace: the diff and the brief of a task. Small, private files of the broker's own,
 * none of them a database.
 */

import { TaskdError } from "../../lib/errors.ts";
import { withFileError } from "../../lib/fs.ts";

/** More than the broker writes: a diff is cut at 4 MiB, a brief lists a bounded number of paths. */
const MAX_BYTES = 32 << 20;

/** @throws {TaskdError} `not_found`, `denied`, `too_large` or `unavailable`. */
export async function readBytes(path: string): Promise<Uint8Array<ArrayBuffer>> {
  return await withFileError(`Cannot read ${path}`, async () => {
    const { isFile, size } = await Deno.lstat(path);
    if (!isFile) throw new TaskdError("denied", `Cannot read ${path}: it is not a regular file`);
    if (size > MAX_BYTES) throw new TaskdError("too_large", `Cannot read ${path}: it has ${size} bytes`);
    return await Deno.readFile(path);
  });
}

/** The log of a broker in the background: a file of bounded size, and the one before it. */

import { TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";
import { RotatedFile } from "../../lib/rotated_file.ts";

/** Bytes after which a new file is begun; the one before is kept as `<path>.1`. */
const MAX_BYTES = 8 << 20;

/** Opens the file at its end; throws `not_found`, `denied`, `no_space` or `unavailable`. */
export function openLogFile(path: string): RotatedFile {
  try {
    return new RotatedFile({ path, suffix: ".1", max_bytes: MAX_BYTES });
  } catch (error) {
    const failure = fileError(error, `Cannot open the log ${path}`);
    if (failure.code !== "not_found") throw failure;
    throw new TaskdError("not_found", failure.message, { cause: error, hint: "Run taskd setup first" });
  }
}

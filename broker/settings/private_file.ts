/**
 * The files below `~/.taskd`: small, regular, and closed to other users. The checks are of
 * the open file, not of its name, so that it cannot be exchanged in between.
 */

import { TaskdError } from "../../lib/errors.ts";
import { randomHex, systemRandom } from "../../lib/clock.ts";
import { parentOf } from "../../lib/real_path.ts";
import { fileError, fileErrorCode, fsyncDirectory, removeIfPresent, writeFileAtomic } from "../../lib/fs.ts";
import { shellWord } from "../../lib/text/shell_word.ts";

const MAX_BYTES = 4_194_304;

/** What others may not do: not even read credentials, not change the configuration. */
const FORBIDDEN = {
  secret: { bits: 0o077, what: "other users can reach it" },
  own: { bits: 0o022, what: "other users can change it" },
};
export type Privacy = keyof typeof FORBIDDEN;

/** Reads a file below the user's directory; undefined when it does not exist. */
export type ReadFile = (path: string, privacy: Privacy) => Promise<string | undefined>;

/**
 * @returns undefined when there is none.
 * @throws {TaskdError} `denied` when others may do what `privacy` rules out, with the chmod to run; `invalid_config`
 * when it is not a regular file, too large or not UTF-8; an error of the system otherwise.
 */
export async function readPrivateFile(path: string, privacy: Privacy): Promise<string | undefined> {
  const attempted = `Cannot read ${path}`;
  try {
    // Opening a pipe would wait. The checks that count are those of the open file.
    if (!Deno.statSync(path).isFile) throw new TaskdError("invalid_config", `${attempted}: it is not a regular file`);
    using file = Deno.openSync(path);
    const { mode, size, isFile } = file.statSync();
    const { bits, what } = FORBIDDEN[privacy];
    if (mode !== null && (mode & bits) !== 0) {
      throw new TaskdError("denied", `${attempted}: ${what} (mode ${(mode & 0o777).toString(8).padStart(4, "0")})`, {
        hint: `Run: chmod 600 ${shellWord(path)}`,
      });
    }
    if (!isFile || size > MAX_BYTES) {
      throw new TaskdError("invalid_config", `${attempted}: it must be a file of at most ${MAX_BYTES} bytes`);
    }
    let buffer = new Uint8Array(size + 1);
    let length = 0;
    for (let count: number | null; (count = await file.read(buffer.subarray(length)));) {
      length += count;
      // It grows while it is read.
      if (length === buffer.length && length <= MAX_BYTES) buffer = resized(buffer, MAX_BYTES + 1);
    }
    if (length > MAX_BYTES) throw new TaskdError("invalid_config", `${attempted}: it does not end`);
    return decode(attempted, buffer.subarray(0, length));
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return undefined;
    throw fileError(error, attempted);
  }
}

function resized(bytes: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  const copy = new Uint8Array(length);
  copy.set(bytes);
  return copy;
}

function decode(attempted: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new TaskdError("invalid_config", `${attempted}: it is not UTF-8 text`, { cause });
  }
}

/**
 * Makes a new file (0600) with all of its content, or leaves what is there.
 *
 * @returns Whether the file is new.
 * @throws {TaskdError} `denied`, `no_space`, `not_found` (the directory) or `unavailable`.
 */
export async function createPrivateFile(path: string, text: string): Promise<boolean> {
  const whole = `${path}.${randomHex(systemRandom, 8)}.new`;
  await writeFileAtomic(whole, new TextEncoder().encode(text), 0o600);
  try {
    // A link, unlike a rename, never replaces a file.
    Deno.linkSync(whole, path);
    await fsyncDirectory(parentOf(path));
    return true;
  } catch (error) {
    if (fileErrorCode(error) === "already_exists") return false;
    throw fileError(error, `Cannot write ${path}`);
  } finally {
    removeIfPresent(whole);
  }
}

/**
 * The files below `~/.taskd`: small, regular, and closed to other users. The checks are of
 * the open file, not of its name, so that it cannot be exchanged in between.
 */

import { TaskdError } from "../../lib/errors.ts";
import { randomHex, systemRandom } from "../../lib/clock.ts";
import { parentOf } from "../../lib/real_path.ts";
import { fileError, fileErrorCode, fsyncDirectory, removeIfPresent, writeFileAtomic } from "../../lib/fs.ts";
import { requireRule, requireTrusted } from "../../lib/trusted_path.ts";

const MAX_BYTES = 4_194_304;

/** What is made sure of, beside the owner: that others cannot even read credentials, or not change the configuration. */
const RULES = { secret: "secret", own: "settings" } as const;
export type Privacy = keyof typeof RULES;

/** Reads a file below the user's directory; undefined when it does not exist. */
export type ReadFile = (path: string, privacy: Privacy) => Promise<string | undefined>;

/**
 * @returns undefined when there is none.
 * @throws {TaskdError} `denied` when it, or what leads to it, is another user's, is no file, or others may do what
 * `privacy` rules out, with what to do; `invalid_config` when it is too large or not UTF-8; an error of the system
 * otherwise.
 */
export async function readPrivateFile(path: string, privacy: Privacy): Promise<string | undefined> {
  const attempted = `Cannot read ${path}`;
  try {
    // Opening a pipe would wait. The checks that count are those of the open file.
    if (requireTrusted(path, RULES[privacy]) === undefined) return undefined;
    using file = Deno.openSync(path);
    const { size, isFile } = requireRule(file.statSync(), path, RULES[privacy]);
    if (!isFile || size > MAX_BYTES) {
      throw new TaskdError("invalid_config", `${attempted}: it must be a file of at most ${MAX_BYTES} bytes`);
    }
    let buffer = new Uint8Array(size + 1);
    let length = 0;
    for (let count: number | null; (count = await file.read(buffer.subarray(length)));) {
      length += count;
      // It grows while it is read.
      if (length === buffer.length && length <= MAX_BYTES) {
        buffer = new Uint8Array(buffer.buffer.transfer(MAX_BYTES + 1));
      }
    }
    if (length > MAX_BYTES) throw new TaskdError("invalid_config", `${attempted}: it does not end`);
    return decode(attempted, buffer.subarray(0, length));
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return undefined;
    throw fileError(error, attempted);
  }
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

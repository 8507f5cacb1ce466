/**
 * The name of a cache entry: SHA-256 over everything that may decide what is in it. The repository is part of it, so no
 * repository can name another one's entry.
 */

import type { Lockfile } from "./lockfiles.ts";
import { sha256Hex } from "../../lib/sha256.ts";

export interface CacheInputs {
  repo: string;
  lockfiles: readonly Lockfile[];
  /** Versions of what runs the setup: the sandbox runtime and what else is known. */
  toolchain: string;
  /** Of the machine: `x86_64`, `aarch64`. */
  arch: string;
  setup_commands: readonly (readonly string[])[];
  /** Digest of the image, or its name where that is all there is. */
  image: string;
}

/** Changes when the meaning of an entry does. */
const FORMAT = "taskd dependency cache 1";

export const KEY_PREFIX_LENGTH = 12;

export function cacheKey({ repo, lockfiles, toolchain, arch, setup_commands, image }: CacheInputs): string {
  const files = lockfiles.map(({ path, digest }) => [path, digest]).sort(([a], [b]) => a! < b! ? -1 : a! > b! ? 1 : 0);
  // JSON of lists of strings: no two inputs have one text.
  return sha256Hex(JSON.stringify([FORMAT, repo, files, toolchain, arch, setup_commands, image]));
}

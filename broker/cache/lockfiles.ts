/**
 * The lockfiles of a staged repository, read from git's objects: the work tree, which sandboxes write, is not asked.
 */

import { Buffer } from "node:buffer";
import type { Git } from "../git/git.ts";
import { isLockfileName, isRequirementsName } from "./package_managers.ts";

export interface Lockfile {
  /** In the repository, one character per byte. */
  path: string;
  /** Git's id of its content, which covers every byte. */
  digest: string;
}

/** Lists of requirements that are read; each costs a process. Further ones count as lockfiles unread. */
const MAX_BLOBS = 200;
/** A longer list of requirements is not read, and no lockfile. */
const MAX_REQUIREMENTS_BYTES = 4 << 20;
const HASHED = /(?:^|\s)--hash[= ]sha(?:256|384|512):[0-9a-f]{64,128}(?:\s|$)/;

/**
 * Finds the lockfiles of a commit, sorted by path. Only regular files count: what a link leads to is not covered by its
 * digest.
 *
 * @throws {TaskdError} As {@linkcode Git.run}.
 */
export async function findLockfiles(
  git: Git,
  { git_dir, commit, signal }: { git_dir: string; commit: string; signal?: AbortSignal },
): Promise<Lockfile[]> {
  const run = {
    repository: { git_dir },
    attempted: "Cannot look for lockfiles",
    signal,
  };
  const { stdout } = await git.run(["ls-tree", "-r", "-z", "-l", "--full-tree", commit], run);
  const found: Lockfile[] = [];
  let blobs = 0;
  for (const record of latin1(stdout).split("\0")) {
    const [, mode, digest, size, path] = /^(\d+) blob ([0-9a-f]+) +(\d+)\t(.+)$/s.exec(record) ?? [];
    if (path === undefined || !mode!.startsWith("100")) continue;
    const name = path.slice(path.lastIndexOf("/") + 1);
    const isLockfile = isLockfileName(name) || isRequirementsName(name) && Number(size) <= MAX_REQUIREMENTS_BYTES &&
        (blobs++ >= MAX_BLOBS || HASHED.test(latin1((await git.run(["cat-file", "blob", digest!], run)).stdout)));
    if (isLockfile) found.push({ path, digest: digest! });
  }
  return found.sort((a, b) => a.path < b.path ? -1 : 1);
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}

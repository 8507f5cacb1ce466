/**
 * Where things are measured: the file system of the working directory, and an XFS
 * in an image file, which can share blocks.
 */

import { join } from "@std/path/join";
import { mount } from "../support/mounts.ts";
import { output, run } from "./process.ts";

/** A directory on a file system of a known kind. */
export interface Place {
  /** Kind of file system: `ext4`, `xfs`. */
  kind: string;
  /** An empty directory. */
  dir: string;
  /** Whether files can share blocks there. */
  clones: boolean;
}

/** Kind of the file system that holds `path`. */
async function fileSystemOf(path: string): Promise<string> {
  const lines = await run("df", ["--output=fstype", path]);
  return lines.trim().split("\n").at(-1)!.trim();
}

/** Free bytes at `path`. */
export async function freeBytes(path: string): Promise<number> {
  const lines = await run("df", ["--output=avail", "-B1", path]);
  return Number(lines.trim().split("\n").at(-1));
}

/** Whether files in `dir` can share blocks. */
async function canClone(dir: string): Promise<boolean> {
  const [from, to] = [join(dir, "clone-a"), join(dir, "clone-b")];
  Deno.writeFileSync(from, new Uint8Array(8_192));
  const cloned = await output("cp", ["--reflink=always", from, to]);
  for (const path of [from, to]) await Deno.remove(path).catch(() => {});
  return cloned !== undefined;
}

/** Makes a place in the plain directory `dir`. */
export async function plainPlace(dir: string): Promise<Place> {
  await Deno.mkdir(dir);
  return { kind: await fileSystemOf(dir), dir, clones: await canClone(dir) };
}

/** A mounted image; unmounted when disposed. */
export interface MountedPlace extends Place, AsyncDisposable {}

/** Mounts an XFS made in a sparse image. Needs root; throws with the reason where it cannot be done. */
export async function xfsPlace(size_bytes: number): Promise<MountedPlace> {
  const mounted = await mount("xfs", Math.floor(size_bytes / 2 ** 20));
  return {
    kind: "xfs",
    dir: mounted.directory,
    clones: true,
    [Symbol.asyncDispose]: () => mounted[Symbol.asyncDispose](),
  };
}

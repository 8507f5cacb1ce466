/**
 * What flags need to know of a change beyond its entry: sizes, digests and first bytes of content, where links lead,
 * other names on disk, names that look alike, folders that git takes for repositories.
 */

import { nextTurn } from "../../lib/clock.ts";
import { look } from "../../lib/fs.ts";
import { skeleton } from "../../lib/text/characters.ts";
import { blobSizes, readBlobs } from "./_blobs.ts";
import { isAscii, isUtf8, pathText, type RawPath } from "./_records.ts";
import type { RawChange } from "./file_change.ts";
import { type BlobDetails, type ChangeDetails, LARGE_FILE_BYTES, LFS_POINTER_BYTES } from "./flags.ts";
import type { Git, GitRunOptions } from "./git.ts";
import { GITLINK, SYMLINK } from "./file_modes.ts";

/** The longest link that a system follows. */
const MAX_LINK_BYTES = 4_096;
/** Enough to name a kind of content, and to read a pointer of git-lfs. */
const KIND_BYTES = 512;

export async function readDetails(
  git: Git,
  changes: readonly RawChange[],
  { work_tree, paths, run }: { work_tree: string; paths: readonly RawPath[]; run: GitRunOptions },
): Promise<Map<RawPath, ChangeDetails>> {
  const blobs = await readContents(git, changes, run);
  const twins = findTwins(paths);
  const bare = bareRepositories(paths);
  const moves = new Map(changes.flatMap(({ change: { from, path } }) => from === undefined ? [] : [[from.path, path]]));
  const details = new Map<RawPath, ChangeDetails>();
  for (const [at, { path, change }] of changes.entries()) {
    if (at % 1_000 === 999) await nextTurn();
    const detail: ChangeDetails = {};
    const [before, after] = [blobs.get(change.oid_before), blobs.get(change.oid_after)];
    if (before !== undefined) detail.before = before;
    const moved_to = moves.get(change.path);
    if (moved_to !== undefined) detail.moved_to = `moved to ${moved_to}`;
    details.set(path, detail);
    if (after === undefined) continue;
    detail.after = after;
    if (change.mode_after !== SYMLINK && isUtf8(path)) {
      // One that was kept from the base is not looked at: the path itself was refused.
      detail.links = look(`${work_tree}/${pathText(path)}`)?.nlink ?? 1;
    }
    const twin = twinOf(path, twins);
    if (twin !== undefined) detail.twin = pathText(twin);
    const folder = foldersOf(path).find((folder) => bare.has(folder.toLowerCase()));
    if (folder !== undefined) detail.bare = pathText(folder);
  }
  return details;
}

/** By object id: sizes of all, the rest where it is needed. */
async function readContents(
  git: Git,
  changes: readonly RawChange[],
  run: GitRunOptions,
): Promise<Map<string, BlobDetails>> {
  const sides = changes.flatMap(({ change }) => [
    { oid: change.oid_before, mode: change.mode_before, binary: change.binary },
    { oid: change.oid_after, mode: change.mode_after, binary: change.binary },
  ]).filter(({ oid, mode }) => mode !== GITLINK && !/^0+$/.test(oid));
  const oids = [...new Set(sides.map(({ oid }) => oid))];
  const sizes = await blobSizes(git, oids, run);
  const blobs = new Map(Array.from(sizes, ([oid, size]): [string, BlobDetails] => [oid, { size, head: "" }]));
  const read = async (head_bytes: number, isNeeded: (side: typeof sides[number], size: number) => boolean) => {
    const needed = sides.filter((side) => isNeeded(side, blobs.get(side.oid)!.size)).map(({ oid }) => oid);
    for (const [oid, blob] of await readBlobs(git, [...new Set(needed)], { head_bytes, run })) blobs.set(oid, blob);
  };
  await read(
    KIND_BYTES,
    ({ binary }, size) => binary || size < LFS_POINTER_BYTES || size >= LARGE_FILE_BYTES,
  );
  await read(MAX_LINK_BYTES, ({ mode }) => mode === SYMLINK);
  return blobs;
}

/**
 * Folders in which git would find a repository without a `.git`: HEAD, and objects and refs, there or where a
 * `commondir` leads. In lower case, as some file systems have it.
 */
function bareRepositories(paths: readonly RawPath[]): Set<string> {
  const heads = new Set(
    paths.filter((path) => /(?:^|\/)head$/i.test(path)).map((path) => path.slice(0, -4).toLowerCase()),
  );
  if (heads.size === 0) return new Set();
  const parts = new Map<string, Set<string>>();
  for (const path of paths) {
    for (const [, above, part] of path.toLowerCase().matchAll(/(?<=(^|.*\/))(objects\/|refs\/|commondir$)/g)) {
      if (heads.has(above!)) parts.set(above!, (parts.get(above!) ?? new Set()).add(part!));
    }
  }
  const found = [...parts].filter(([, has]) => has.has("commondir") || has.size === 2);
  return new Set(found.map(([folder]) => folder.replace(/\/$/, "")));
}

/** The folders that a path lies in, the top of the tree as the empty one last. */
function foldersOf(path: RawPath): RawPath[] {
  const parts = path.split("/");
  return parts.map((_, at) => parts.slice(0, parts.length - 1 - at).join("/"));
}

/** Files and folders that a file system without case, or a reader, holds for one: by what they look like, two at most. */
function findTwins(paths: readonly RawPath[]): Map<string, [RawPath, RawPath?]> {
  const twins = new Map<string, [RawPath, RawPath?]>();
  const known = new Set<RawPath>();
  for (const path of paths) {
    for (const place of [path, ...foldersOf(path)]) {
      // What a known folder lies in is known.
      if (known.has(place)) break;
      known.add(place);
      const key = fold(place);
      const first = twins.get(key);
      if (first === undefined) twins.set(key, [place]);
      else first[1] ??= place;
    }
  }
  return twins;
}

/** What a path, or else the nearest folder that it lies in, is taken for. */
function twinOf(path: RawPath, twins: ReadonlyMap<string, [RawPath, RawPath?]>): RawPath | undefined {
  for (const place of [path, ...foldersOf(path)]) {
    const [first, second] = twins.get(fold(place)) ?? [];
    if (second !== undefined) return first === place ? second : first;
  }
  return undefined;
}

function fold(path: RawPath): string {
  return skeleton(isAscii(path) ? path : pathText(path));
}

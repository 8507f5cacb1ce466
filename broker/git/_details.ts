/**
 * What flags need to know of a change beyond its entry: sizes, where links lead, other names on disk, names that differ
 * in case alone.
 */

import { nextTurn } from "../../lib/clock.ts";
import { isAscii, isUtf8, pathText, type RawPath } from "./_records.ts";
import type { RawChange } from "./file_change.ts";
import type { ChangeDetails } from "./flags.ts";
import type { Git, GitRunOptions } from "./git.ts";
import { GITLINK, SYMLINK } from "./file_modes.ts";

/** The longest link that a system follows. */
const MAX_LINK_BYTES = 4_096;
/** Links whose targets are read; with more, the number alone is reported. */
const MAX_LINKS = 1_000;

export async function readDetails(
  git: Git,
  changes: readonly RawChange[],
  { work_tree, paths, run }: { work_tree: string; paths: readonly RawPath[]; run: GitRunOptions },
): Promise<Map<RawPath, ChangeDetails>> {
  const details = new Map<RawPath, ChangeDetails>(changes.map(({ path }) => [path, {}]));
  const present = changes.filter(({ change }) => change.status !== "deleted" && change.mode_after !== GITLINK);
  const sizes = await readSizes(git, present, run);
  for (const [at, { path, change }] of present.entries()) {
    if (at % 1_000 === 999) await nextTurn();
    const detail = details.get(path)!;
    detail.size = sizes[at]!;
    if (change.mode_after !== SYMLINK && isUtf8(path)) detail.links = linkCount(`${work_tree}/${pathText(path)}`);
  }
  await readLinks(git, present, details, run);
  const twins = findTwins(paths);
  for (const { path } of present) {
    const twin = twins.get(fold(path))?.find((other) => other !== path);
    if (twin !== undefined) details.get(path)!.twin = pathText(twin);
  }
  return details;
}

async function readSizes(git: Git, changes: readonly RawChange[], run: GitRunOptions): Promise<number[]> {
  if (changes.length === 0) return [];
  const stdin = new TextEncoder().encode(changes.map(({ change }) => `${change.oid_after}\n`).join(""));
  const text = await git.text(["cat-file", "--buffer", "--batch-check=%(objectsize)"], { ...run, stdin });
  return text.split("\n").map(Number);
}

async function readLinks(
  git: Git,
  changes: readonly RawChange[],
  details: Map<RawPath, ChangeDetails>,
  run: GitRunOptions,
): Promise<void> {
  const links = changes.filter(({ path, change }) =>
    change.mode_after === SYMLINK && details.get(path)!.size! <= MAX_LINK_BYTES
  ).slice(0, MAX_LINKS);
  if (links.length === 0) return;
  const stdin = new TextEncoder().encode(links.map(({ change }) => `${change.oid_after}\n`).join(""));
  const { stdout } = await git.run(["cat-file", "--buffer", "--batch=%(objectsize)"], { ...run, stdin });
  let at = 0;
  for (const { path } of links) {
    const size = details.get(path)!.size!;
    // A line with the size, the bytes, a newline.
    const begin = stdout.indexOf(10, at) + 1;
    details.get(path)!.link_target = new TextDecoder().decode(stdout.subarray(begin, begin + size));
    at = begin + size + 1;
  }
}

function linkCount(path: string): number {
  try {
    return Deno.lstatSync(path).nlink ?? 1;
  } catch {
    // Kept from the base: the path itself was refused.
    return 1;
  }
}

/** Names that a file system without case holds for one. */
function findTwins(paths: readonly RawPath[]): Map<string, RawPath[]> {
  const by_fold = new Map<string, RawPath[]>();
  for (const path of paths) {
    const key = fold(path);
    const known = by_fold.get(key);
    if (known === undefined) by_fold.set(key, [path]);
    else known.push(path);
  }
  return by_fold;
}

function fold(path: RawPath): string {
  return isAscii(path) ? path.toLowerCase() : pathText(path).normalize("NFC").toLowerCase();
}

// As jsr:@std/fs@1 has it, without the options followSymlinks, canonicalize and exts. deno-std has no fs.

import { basename } from "npm:deno-std@1.4.0/path/basename.js";
import { join } from "npm:deno-std@1.4.0/path/join.js";

/** What is yielded. */
export interface WalkOptions {
  /** How deep; 0 is the root alone. */
  maxDepth?: number;
  /** Whether files are yielded. */
  includeFiles?: boolean;
  /** Whether directories are yielded. */
  includeDirs?: boolean;
  /** Whether symbolic links are yielded; they are never followed. */
  includeSymlinks?: boolean;
  /** Only paths that match one of these. */
  match?: RegExp[];
  /** No path that matches one of these, and nothing below it. */
  skip?: RegExp[];
}

/** An entry with its path. */
export interface WalkEntry extends Deno.DirEntry {
  /** The root's path, joined with the names below it. */
  path: string;
}

/** The file tree at `root`, the root first. */
export async function* walk(root: string, options: WalkOptions = {}): AsyncIterableIterator<WalkEntry> {
  const { maxDepth = Infinity, includeDirs = true } = options;
  if (maxDepth < 0) return;
  if (includeDirs && isIncluded(root, options)) yield entryOf(root, await Deno.stat(root));
  if (maxDepth < 1 || !isIncluded(root, { skip: options.skip ?? [] })) return;
  for await (const entry of Deno.readDir(root)) {
    const path = join(root, entry.name);
    if (entry.isDirectory) yield* walk(path, { ...options, maxDepth: maxDepth - 1 });
    else if (isSelected(entry, options) && isIncluded(path, options)) yield { path, ...entry };
  }
}

/** The file tree at `root`, the root first. */
export function* walkSync(root: string, options: WalkOptions = {}): IterableIterator<WalkEntry> {
  const { maxDepth = Infinity, includeDirs = true } = options;
  if (maxDepth < 0) return;
  if (includeDirs && isIncluded(root, options)) yield entryOf(root, Deno.statSync(root));
  if (maxDepth < 1 || !isIncluded(root, { skip: options.skip ?? [] })) return;
  for (const entry of Deno.readDirSync(root)) {
    const path = join(root, entry.name);
    if (entry.isDirectory) yield* walkSync(path, { ...options, maxDepth: maxDepth - 1 });
    else if (isSelected(entry, options) && isIncluded(path, options)) yield { path, ...entry };
  }
}

function entryOf(path: string, { isFile, isDirectory, isSymlink }: Deno.FileInfo): WalkEntry {
  return { path, name: basename(path), isFile, isDirectory, isSymlink };
}

function isSelected(entry: Deno.DirEntry, { includeFiles = true, includeSymlinks = true }: WalkOptions): boolean {
  return entry.isSymlink ? includeSymlinks : includeFiles;
}

function isIncluded(path: string, { match, skip }: WalkOptions): boolean {
  if (match && !match.some((pattern) => pattern.test(path))) return false;
  return !skip?.some((pattern) => pattern.test(path));
}

/**
 * Inspecting single files of a local store: no path leads out of it, and etags identify what compare-and-swap compares.
 */

import { createHash, type Hash } from "node:crypto";
import { type BigIntStats, statSync } from "node:fs";
import { fileErrorCode, lstatIfPresent } from "../fs.ts";
import { BackendError, NoObject } from "./backend.ts";
import { machineError, messageOf } from "../errors.ts";

/** Objects up to this size are small: handled in one piece, and their etag is a hash of their content. */
export const SMALL_BYTES = 1024 * 1024;

export function backendError(error: unknown, key: string, verb: string): BackendError {
  if (error instanceof BackendError) return error;
  const found = fileErrorCode(error);
  const code = found === "already_exists" ? "precondition_failed" : found;
  return new BackendError(code, key, `Cannot ${verb} ${key}: ${messageOf(error)}`, error, machineError(error)?.hint);
}

/** The error for something at `path` that no store puts there; `what` names it. */
export function inTheWay(key: string, path: string, what: string): BackendError {
  return new BackendError(
    "denied",
    key,
    `Cannot use ${key}: ${path} is ${what}`,
    new NoObject(),
    "Move it out of the store",
  );
}

/**
 * Inspects `path` itself; undefined when nothing is there.
 *
 * @throws {BackendError} `denied` at a symbolic link, which may lead out of the store, and at anything that is not
 * `kind`.
 */
export function statOf(path: string, key: string, kind?: "directory" | "file"): Deno.FileInfo | undefined {
  const info = lstatIfPresent(path);
  if (info === undefined) return undefined;
  if (info.isSymlink) throw inTheWay(key, path, "a symbolic link");
  if (kind === "directory" && !info.isDirectory) throw inTheWay(key, path, "not a directory");
  if (kind === "file" && info.isDirectory) throw inTheWay(key, path, "a directory");
  // Opening a FIFO would never return.
  if (kind === "file" && !info.isFile) throw inTheWay(key, path, "not a regular file");
  return info;
}

/**
 * Checks directories that the backend keeps for itself, outermost first.
 *
 * @returns Whether all are there.
 * @throws {BackendError} `denied` at a symbolic link or anything else that is no directory.
 */
export function requireDirectories(paths: readonly string[], key: string): boolean {
  return paths.every((path) => statOf(path, key, "directory") !== undefined);
}

/**
 * The file of an object, after checking each directory on the way.
 *
 * @throws {BackendError} `not_found` when there is no such object, `denied` where something else is at its path.
 */
export function statObject(root: string, parts: readonly string[]): { path: string; size: number } {
  const key = parts.join("/");
  let path = root;
  let info: Deno.FileInfo | undefined;
  for (const [index, part] of parts.entries()) {
    path += `/${part}`;
    info = statOf(path, key, index === parts.length - 1 ? "file" : undefined);
    if (info === undefined) throw new BackendError("not_found", key, `There is no object ${key}`);
  }
  return { path, size: info!.size };
}

/** An etag from content. Refs carry a random nonce, so a content that returns is a write that returns. */
export function hashEtag(hash: Hash): string {
  return hash.digest("hex").slice(0, 32);
}

export function contentEtag(bytes: Uint8Array): string {
  return hashEtag(createHash("sha256").update(bytes));
}

/**
 * The etag of a larger object, from its file. Objects are never written in place; for two to share this, the second
 * would have to get the first one's inode, at the same size, within one tick of the file system's clock, with a durable
 * write of over 1 MiB in between.
 */
function fileEtag(info: BigIntStats): string {
  return [info.ino, info.size, info.mtimeNs, info.birthtimeNs].map((field) => field.toString(16)).join("-");
}

/** The etag of the object whose file is at `path`; a `size` known from just now saves a call. */
export function etagOfFile(path: string, size?: number): string {
  // Objects are replaced whole: if another has come meanwhile, this is the etag of its bytes, or of none.
  if (size !== undefined && size <= SMALL_BYTES) return contentEtag(Deno.readFileSync(path));
  const info = statSync(path, { bigint: true });
  return info.size > SMALL_BYTES ? fileEtag(info) : contentEtag(Deno.readFileSync(path));
}

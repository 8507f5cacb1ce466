/**
 * Temporary files of a local store: the bytes of an object, durable, before it has its name.
 */

import { createHash } from "node:crypto";
import { fileErrorCode, fsyncFile, writeAll, writeAllSync } from "../fs.ts";
import type { Body } from "./backend.ts";
import { backendError, contentEtag, etagOfFile, hashEtag, SMALL_BYTES } from "./_local_files.ts";

/** A living writer writes more often than this, except for bodies that stall. */
const SWEEP_AFTER_MS = 3_600_000;

/**
 * Writes `body` durably to the new file `path` and returns its etag.
 *
 * @throws {BackendError} Of the file system; and unchanged what the body's own source throws.
 */
export async function stageBody(path: string, key: string, body: Body): Promise<string> {
  const writing = async <T>(action: () => T | Promise<T>): Promise<T> => {
    try {
      return await action();
    } catch (error) {
      throw backendError(error, key, "write");
    }
  };
  const file = await writing(() => Deno.openSync(path, { write: true, createNew: true, mode: 0o600 }));
  try {
    if (body instanceof Uint8Array) {
      await writing(() => body.length > SMALL_BYTES ? writeAll(file, body) : writeAllSync(file, body));
      await writing(() => file.sync());
      return body.length > SMALL_BYTES ? etagOfFile(path) : contentEtag(body);
    }
    // Locked until the file is closed, so that a sweep can distinguish a slow body from a dead writer.
    await writing(() => file.tryLockSync(true));
    const hash = createHash("sha256");
    let size = 0;
    for await (const chunk of body) {
      size += chunk.length;
      if (size <= SMALL_BYTES) hash.update(chunk);
      await writing(() => writeAll(file, chunk));
    }
    await writing(() => file.sync());
    return size > SMALL_BYTES ? etagOfFile(path) : hashEtag(hash);
  } finally {
    file.close();
  }
}

/** Makes a staged file that something else wrote durable and private. */
export async function settleStaged(path: string): Promise<void> {
  Deno.chmodSync(path, 0o600);
  await fsyncFile(path);
}

/** Removes the temporary files in `directory` that are old and that no process is writing. */
export function sweepStaged(directory: string, now_ms: number): void {
  let names: string[];
  try {
    names = Array.from(Deno.readDirSync(directory), (entry) => entry.name);
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return;
    throw error;
  }
  for (const name of names) {
    const path = `${directory}/${name}`;
    try {
      const info = Deno.lstatSync(path);
      if (info.mtime === null || now_ms - info.mtime.getTime() < SWEEP_AFTER_MS || !info.isFile) continue;
      using file = Deno.openSync(path);
      if (file.tryLockSync(true)) Deno.removeSync(path);
    } catch (error) {
      // Gone already, or in a read-only store, where it does no harm.
      if (!["not_found", "denied"].includes(fileErrorCode(error))) throw error;
    }
  }
}

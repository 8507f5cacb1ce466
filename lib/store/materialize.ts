/**
 * Builds a database file from a chain, checking every byte on the way: each object's
 * checksums, that each segment follows the object before it, that the last one is the one
 * the ref means, and that no page of a grown database is missing.
 */

import { type Backend, type CloneSupport, isBackendError } from "../backend/backend.ts";
import { TaskdError } from "../errors.ts";
import { discard, fileError, writeAllSync } from "../fs.ts";
import { lockPage } from "../sqlite/header.ts";
import { pageRuns } from "../sqlite/page_runs.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import type { Chain, ChainObject } from "./chain.ts";
import { storeError } from "./errors.ts";
import { imageIndexKey } from "./keys.ts";
import { decodePages, type ObjectHeader, type ReadBefore, verifyImage } from "./object_file.ts";
import { counted, readObjectIndex } from "./object_index.ts";
import type { LongOptions } from "./results.ts";

const CHECK_BYTES = 1 << 20;

const RESTORE_HINT =
  "Run: taskd repair --all; with --from <copy of the store> if there is one. `taskd verify --all` checks everything";

/** An image as it was made: its pages, and the digest of the last object. */
export interface Built {
  page_size: number;
  page_count: number;
  digest: string;
}

/**
 * Writes the chain's image to the new file `target` (0600), durably; on failure nothing is left there.
 *
 * @param digest The ref's digest of the chain's last object.
 */
export async function materialize(
  backend: Backend,
  chain: Chain,
  digest: string,
  target: string,
  { signal, onProgress }: LongOptions = {},
): Promise<Built> {
  let done = 0;
  const onBytes = (count: number) => {
    signal?.throwIfAborted();
    done += count;
    onProgress?.(done, chain.bytes);
  };
  using image = new TreeImage(backend, target);
  try {
    const built = await image.rebuild(chain.objects, onBytes);
    if (built.digest !== digest) {
      throw corrupt(chain.objects.at(-1)!, "it is not the object that the branch was left with");
    }
    await image.keep();
    return built;
  } catch (error) {
    if (signal?.aborted) throw new TaskdError("interrupted", "The operation was interrupted", { cause: error });
    throw fileError(readError(error), `Cannot write ${target}`);
  }
}

/** A database file that is brought forward object by object: of one chain, or in a pass over a history, down a tree. */
export class TreeImage implements Disposable {
  readonly path: string;
  readonly #backend: Backend;
  /** Made by the first object: never one that was there before, which may be another's at work under the same name. */
  #file: Deno.FsFile | undefined;
  #is_made = false;
  #built: Built | undefined;

  /** An image of nothing, which is to be the new file `path`. */
  constructor(backend: Backend, path: string) {
    this.#backend = backend;
    this.path = path;
  }

  /** A copy of an image, which ends where the object of `digest` does, in the new file `path`. */
  static copyOf(backend: Backend, path: string, image: DatabaseImage, digest: string): TreeImage {
    const { page_size, page_count } = image;
    const copy = new TreeImage(backend, path);
    copy.#open(() => writePages(path, image, pageRuns(image)));
    copy.#built = { page_size, page_count, digest };
    return copy;
  }

  /** The same image in the new file `path`. */
  fork(path: string): TreeImage {
    const copy = new TreeImage(this.#backend, path);
    copy.#open(() => Deno.copyFileSync(this.path, path));
    copy.#built = this.#built;
    return copy;
  }

  /** Applies the next object; one after which the image is unusable throws. */
  async apply(object: ChainObject, onBytes: (count: number) => void): Promise<Built> {
    const { clone } = this.#backend;
    const cloned = object.codec === "raw" && clone !== undefined;
    try {
      if (cloned) await this.#clone(clone, object.key);
      const file = this.#file ?? this.#open();
      const built = await applyObject(this.#backend, object, file, this.#built, { cloned, onBytes });
      // Pages past the end would come back with a later object that lets the database grow.
      await file.truncate(built.page_size * built.page_count);
      return this.#built = built;
    } catch (error) {
      throw fileError(readError(error), `Cannot write ${this.path}`);
    }
  }

  async #clone(clone: CloneSupport, key: string): Promise<void> {
    this[Symbol.dispose]();
    try {
      await clone.cloneOut(key, this.path);
    } catch (error) {
      // A missing directory is the file's: the same error as where blocks cannot be shared.
      throw isBackendError(error, "unavailable") && error.cause instanceof Deno.errors.NotFound ? error.cause : error;
    }
    this.#is_made = true;
    Deno.chmodSync(this.path, 0o600);
    this.#open();
  }

  /** Begins again, with all of a chain. */
  async rebuild(objects: readonly ChainObject[], onBytes: (count: number) => void): Promise<Built> {
    this.#built = undefined;
    try {
      await this.#file?.truncate(0);
    } catch (error) {
      throw fileError(error, `Cannot write ${this.path}`);
    }
    for (const object of objects) await this.apply(object, onBytes);
    return this.#built!;
  }

  /** Makes the file durable, and leaves it where it is. */
  async keep(): Promise<void> {
    await this.#file!.syncData();
    this.#is_made = false;
  }

  /** Opens the file, which `make` makes if it is given. */
  #open(make?: () => void): Deno.FsFile {
    try {
      make?.();
      this.#is_made ||= make !== undefined;
      this.#file = Deno.openSync(this.path, { read: true, write: true, createNew: !this.#is_made, mode: 0o600 });
      this.#is_made = true;
      return this.#file;
    } catch (error) {
      throw fileError(error, `Cannot write ${this.path}`);
    }
  }

  /** Removes the file, unless it is to be kept. */
  [Symbol.dispose](): void {
    this.#file?.close();
    this.#file = undefined;
    if (this.#is_made) discard(this.path);
    this.#is_made = false;
  }
}

/** An error of reading a chain's objects as the product's: one that is gone is a gap. */
export function readError(error: unknown): unknown {
  if (!isBackendError(error, "not_found")) return storeError(error, "Cannot read the store");
  return new TaskdError("chain_gap", `Cannot use ${error.key}: it is missing`, { cause: error, hint: RESTORE_HINT });
}

/** Puts pages into the file `target`, which is made if need be, and ends it behind `page_count` pages; durably. */
export function writePages(
  target: string,
  { page_size, page_count }: Omit<Built, "digest">,
  pages: Iterable<[first: number, bytes: Uint8Array]>,
): void {
  using file = Deno.openSync(target, { write: true, create: true, mode: 0o600 });
  for (const [first, bytes] of pages) {
    file.seekSync((first - 1) * page_size, Deno.SeekMode.Start);
    writeAllSync(file, bytes);
  }
  file.truncateSync(page_size * page_count);
  file.syncDataSync();
}

/** Copies a plain image, unless it is a clone already, and checks all of it against its index. */
async function rawSnapshot(
  backend: Backend,
  object: ChainObject,
  file: Deno.FsFile,
  cloned: boolean,
  onBytes: (count: number) => void,
): Promise<Built> {
  const index = await readObjectIndex(backend, object).catch((error) => {
    throw withKey({ ...object, key: imageIndexKey(object.key) }, error);
  });
  checkHeader(object, index.header, "image-index");
  const { page_size, page_count } = index.header;
  if (object.size !== page_size * page_count) {
    throw corrupt(object, `it has ${object.size} bytes instead of ${page_size * page_count}`);
  }
  if (!cloned) {
    for await (const chunk of (await backend.getStream(object.key)).chunks) {
      writeAllSync(file, chunk);
    }
  }
  const buffer = new Uint8Array(Math.max(CHECK_BYTES, page_size));
  file.seekSync(0, Deno.SeekMode.Start);
  for (let pgno = 1; pgno <= page_count;) {
    const count = Math.min(Math.floor(buffer.length / page_size), page_count - pgno + 1);
    const bytes = buffer.subarray(0, count * page_size);
    for (let filled = 0; filled < bytes.length;) {
      const got = await file.read(bytes.subarray(filled));
      if (got === null) throw corrupt(object, "it is too short");
      filled += got;
    }
    try {
      verifyImage(index, pgno, bytes);
    } catch (error) {
      throw withKey(object, error);
    }
    onBytes(bytes.length);
    pgno += count;
  }
  return { page_size, page_count, digest: index.digest };
}

/**
 * Brings an image from `before`, undefined for a new file, to where `object` ends; checks every byte of the object, and
 * that it follows.
 */
async function applyObject(
  backend: Backend,
  object: ChainObject,
  file: Deno.FsFile,
  before: Built | undefined,
  { cloned = false, onBytes }: { cloned?: boolean; onBytes: (count: number) => void },
): Promise<Built> {
  if (object.codec === "raw") return await rawSnapshot(backend, object, file, cloned, onBytes);
  const { size, chunks } = await backend.getStream(object.key);
  const pages = decodePages(counted(chunks, onBytes), size, before && pagesOf(file, before));
  let grown = 0;
  let page_size = before?.page_size;
  for (;;) {
    let next: Awaited<ReturnType<typeof pages.next>>;
    try {
      next = await pages.next();
    } catch (error) {
      throw withKey(object, error);
    }
    if (next.done) {
      const { header, digest } = next.value;
      checkHeader(object, header, object.kind);
      if (before) {
        if (header.prev !== before.digest) throw corrupt(object, "it does not follow the object before it");
        if (header.page_size !== before.page_size) throw corrupt(object, "its page size is another");
        const missing = pagesIn(before.page_count, header) - grown;
        if (missing > 0) throw corrupt(object, `${missing} pages of the grown database are missing`);
      }
      return { page_size: header.page_size, page_count: header.page_count, digest };
    }
    const { pgno, bytes } = next.value;
    page_size ??= object.kind === "snapshot" && pgno === 1 ? pageSizeOf(bytes) : undefined;
    if (page_size === undefined) throw corrupt(object, "it does not begin with page 1");
    const end = pgno + bytes.length / page_size;
    if (before) grown += Math.max(0, end - Math.max(pgno, before.page_count + 1));
    file.seekSync((pgno - 1) * page_size, Deno.SeekMode.Start);
    writeAllSync(file, bytes);
  }
}

/** The pages that the file has so far, which are those before the next object. */
function pagesOf(file: Deno.FsFile, { page_size, page_count }: Built): ReadBefore {
  return (pgno, into) => {
    if (pgno > page_count || into.length !== page_size) throw new TaskdError("corrupt", `page ${pgno} was not there`);
    file.seekSync((pgno - 1) * page_size, Deno.SeekMode.Start);
    for (let filled = 0; filled < page_size;) {
      const got = file.readSync(into.subarray(filled));
      if (got === null) throw new TaskdError("corrupt", `page ${pgno} was not there`);
      filled += got;
    }
  };
}

/** Pages that a segment must hold because the database grew, the lock page not among them. */
function pagesIn(previous_count: number, { page_size, page_count }: ObjectHeader): number {
  if (page_count <= previous_count) return 0;
  const lock = lockPage(page_size);
  return page_count - previous_count -
    (lock > previous_count && lock <= page_count ? 1 : 0);
}

function pageSizeOf(page: Uint8Array): number {
  const stored = new DataView(page.buffer, page.byteOffset).getUint16(16);
  return stored === 1 ? 65536 : stored;
}

/** Throws `corrupt` unless a header is that of the object that its key names. */
export function checkHeader(object: ChainObject, header: ObjectHeader, kind: ObjectHeader["kind"]): void {
  if (header.kind !== kind || header.first_txid !== object.first || header.last_txid !== object.last) {
    throw corrupt(object, "its header contradicts its key");
  }
}

export function corrupt(object: ChainObject, problem: string): TaskdError {
  return new TaskdError("corrupt", `Cannot use ${object.key}: ${problem}`, { hint: RESTORE_HINT });
}

/** Adds the object's key to an error of its reader. */
export function withKey(object: ChainObject, error: unknown): unknown {
  if (!(error instanceof TaskdError)) return error;
  if (error.code === "corrupt") return corrupt(object, error.message);
  return new TaskdError(error.code, `Cannot use ${object.key}: ${error.message}`, { cause: error });
}

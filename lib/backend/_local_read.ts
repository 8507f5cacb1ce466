/**
 * Reading the objects of a local store. An object is never written in place, so a
 * descriptor opened on one shows that version to its end, whatever happens to the name.
 */

import { fileErrorCode } from "../fs.ts";
import { BackendError, type ObjectBody, type ObjectInfo, type ObjectStream, oversized } from "./backend.ts";
import { isKeyPart, RESERVED_PART } from "./object_key.ts";
import { backendError, contentEtag, etagOfFile, SMALL_BYTES } from "./_local_files.ts";

/** Up to here a read from the page cache is faster than a turn of the event loop. */
const SYNC_READ_BYTES = 256 * 1024;
const CHUNK_BYTES = 1024 * 1024;
/** How often a whole read starts over because the object was replaced under it. */
const MAX_ATTEMPTS = 16;

class OpenObject implements Disposable {
  readonly size: number;
  readonly ino: number | null;
  #file: Deno.FsFile;
  #key: string;

  constructor(path: string, key: string) {
    this.#key = key;
    this.#file = Deno.openSync(path);
    const info = this.#file.statSync();
    this.size = info.size;
    this.ino = info.ino;
  }

  /** Reads `length` bytes from `offset`, fewer where the object ends. */
  async read(offset: number, length: number): Promise<Uint8Array> {
    const count = Math.max(0, Math.min(length, this.size - offset));
    const bytes = new Uint8Array(count);
    this.#file.seekSync(offset, Deno.SeekMode.Start);
    for (let done = 0; done < count;) {
      const rest = bytes.subarray(done);
      const read = count <= SYNC_READ_BYTES ? this.#file.readSync(rest) : await this.#file.read(rest);
      if (read === null) {
        throw new BackendError("unavailable", this.#key, `Cannot read ${this.#key}: its file was cut while being read`);
      }
      done += read;
    }
    return bytes;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}

export async function readRange(path: string, key: string, offset: number, length: number): Promise<Uint8Array> {
  using object = new OpenObject(path, key);
  return await object.read(offset, length);
}

/**
 * Reads the whole object at `path`.
 *
 * @throws {BackendError} `unavailable` when it has more than `max_bytes`.
 */
export async function readWhole(path: string, key: string, max_bytes: number): Promise<ObjectBody> {
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    using object = new OpenObject(path, key);
    if (object.size > max_bytes) throw oversized(key, object.size, max_bytes);
    const bytes = await object.read(0, object.size);
    if (object.size <= SMALL_BYTES) return { bytes, etag: contentEtag(bytes) };
    // The etag of a large object comes from its name's file: it counts if that is still the one just read.
    const etag = etagOfFile(path);
    if (Deno.lstatSync(path).ino === object.ino) return { bytes, etag };
  }
  throw new BackendError("unavailable", key, `Cannot read ${key}: it is replaced faster than it can be read`);
}

/** Streams the object at `path`. Its file stays open until the chunks have been read or abandoned. */
export function streamObject(path: string, key: string): ObjectStream {
  const object = new OpenObject(path, key);
  let offset = 0;
  let open = true;
  const close = (): IteratorResult<Uint8Array> => {
    if (open) object[Symbol.dispose]();
    open = false;
    return { done: true, value: undefined };
  };
  // Not a generator: leaving one that was never started would run none of it, and leave the file open.
  const iterator: AsyncIterator<Uint8Array> = {
    next: async () => {
      if (!open || offset >= object.size) return close();
      try {
        const value = await object.read(offset, CHUNK_BYTES);
        offset += value.length;
        return { done: false, value };
      } catch (error) {
        close();
        throw backendError(error, key, "read");
      }
    },
    return: () => Promise.resolve(close()),
  };
  return { size: object.size, chunks: { [Symbol.asyncIterator]: () => iterator } };
}

/** Where a directory has the name of an object, below `refs/<database>/` and `data/<lineage>/`. */
const OBJECT_PLACE = /^[^/]+\/[^/]+\/.*\.(?:json|zst|raw|idx)\/$/;

/** Objects below the directory `path`, whose keys begin with `prefix`, then `start`; sorted by key. */
export async function* walk(path: string, prefix: string, start: string): AsyncIterable<ObjectInfo> {
  const entries: { name: string; entry: Deno.DirEntry }[] = [];
  try {
    for await (const entry of Deno.readDir(path)) {
      const skip = !entry.name.startsWith(start) || !isKeyPart(entry.name) ||
        (prefix === "" && entry.name === RESERVED_PART);
      if (!skip) entries.push({ name: entry.isDirectory ? `${entry.name}/` : entry.name, entry });
    }
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return;
    throw error;
  }
  entries.sort((a, b) => a.name < b.name ? -1 : 1);
  for (const { name, entry } of entries) {
    const key = prefix + name;
    let none = true;
    if (entry.isFile) yield* sized(`${path}/${entry.name}`, key);
    else if (entry.isDirectory) {
      for await (const each of walk(`${path}/${entry.name}`, key, "")) yield (none = false, each);
    }
    // What is no object has a place in the listing, and says what it is when it is read: it keeps no other from its
    // reader, and is not taken for one that was deleted.
    if (entry.isDirectory ? none && OBJECT_PLACE.test(key) : !entry.isFile) yield { key: prefix + entry.name, size: 0 };
  }
}

/** The listed object, unless it has been deleted since its directory was read. */
function* sized(path: string, key: string): Iterable<ObjectInfo> {
  try {
    yield { key, size: Deno.lstatSync(path).size };
  } catch (error) {
    if (fileErrorCode(error) !== "not_found") throw error;
  }
}

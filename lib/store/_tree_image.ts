/**
 * A database file that is brought forward object by object, for a pass over a history: each object is read once.
 */

import type { Backend } from "../backend/backend.ts";
import { discard, fileError } from "../fs.ts";
import { pageRuns } from "../sqlite/page_runs.ts";
import type { DatabaseImage } from "../sqlite/wal_tail.ts";
import type { ChainObject } from "./chain.ts";
import { applyObject, type Built, readError, writePages } from "./materialize.ts";

export class TreeImage implements Disposable {
  readonly path: string;
  readonly #backend: Backend;
  #file: Deno.FsFile;
  #built: Built | undefined;

  private constructor(backend: Backend, path: string, file: Deno.FsFile, built: Built | undefined) {
    this.#backend = backend;
    this.path = path;
    this.#file = file;
    this.#built = built;
  }

  /** An image of nothing, in the new file `path`. */
  static open(backend: Backend, path: string): TreeImage {
    return new TreeImage(backend, path, writable(path, () => {}, true), undefined);
  }

  /** A copy of an image, which ends where the object of `digest` does, in the new file `path`. */
  static copyOf(backend: Backend, path: string, image: DatabaseImage, digest: string): TreeImage {
    const { page_size, page_count } = image;
    const file = writable(path, () => writePages(path, image, pageRuns(image)));
    return new TreeImage(backend, path, file, { page_size, page_count, digest });
  }

  /** Applies the next object; one after which the image is unusable throws. */
  async apply(object: ChainObject, onBytes: (count: number) => void): Promise<Built> {
    const cloned = object.codec === "raw" && this.#backend.clone !== undefined;
    try {
      if (cloned) {
        this.#file.close();
        discard(this.path);
        await this.#backend.clone!.cloneOut(object.key, this.path);
        Deno.chmodSync(this.path, 0o600);
        this.#file = Deno.openSync(this.path, { read: true, write: true });
      }
      const built = await applyObject(this.#backend, object, this.#file, this.#built, { cloned, onBytes });
      // Pages past the end would come back with a later object that lets the database grow.
      await this.#file.truncate(built.page_size * built.page_count);
      return this.#built = built;
    } catch (error) {
      throw fileError(readError(error), `Cannot write ${this.path}`);
    }
  }

  /** Begins again, with all of a chain. */
  async rebuild(objects: readonly ChainObject[], onBytes: (count: number) => void): Promise<Built> {
    this.#built = undefined;
    try {
      await this.#file.truncate(0);
    } catch (error) {
      throw fileError(error, `Cannot write ${this.path}`);
    }
    for (const object of objects) await this.apply(object, onBytes);
    return this.#built!;
  }

  /** The same image in the new file `path`. */
  fork(path: string): TreeImage {
    return new TreeImage(this.#backend, path, writable(path, () => Deno.copyFileSync(this.path, path)), this.#built);
  }

  [Symbol.dispose](): void {
    try {
      this.#file.close();
    } catch {
      // A clone that failed has closed it.
    }
    discard(this.path);
  }
}

/** Makes a file, if `make` does not, and opens it. */
function writable(path: string, make: () => void, createNew = false): Deno.FsFile {
  try {
    make();
    return Deno.openSync(path, { read: true, write: true, createNew, ...(createNew ? { mode: 0o600 } : {}) });
  } catch (error) {
    throw fileError(error, `Cannot make ${path}`);
  }
}

/**
 * Copies a whole store to another location: from a directory to a bucket, and back. The copy is
 * the same store, with the same id; one of the two is meant to be left.
 *
 * Order of writes, and why a copy may be cut off at any point:
 *
 * 1. `copying.json` claims the target for one store's id. From then on no other store is created there.
 * 2. Every object under `data/`, each read back and compared before the next step begins. They are
 *    those listed after the refs were read, so all that a ref needs is among them.
 * 3. Every ref, without lease, claim and pending lineage, which belong to processes of the source. Refs that the source
 *    has no longer are removed.
 * 4. Every branch and checkpoint is resolved in the target.
 * 5. The manifest, last. Until it is there the target cannot be opened, so no process works on half a
 *    store and no garbage collection takes objects whose refs are yet to come.
 * 6. `copying.json` goes.
 *
 * Running it again goes on where it was: what is there already is compared, not copied. Where a
 * complete copy is, nothing is ever changed. Tombstones and caches are not copied.
 */

import { createHash } from "node:crypto";
import { type Backend, isBackendError, type ObjectInfo } from "../backend/backend.ts";
import { TaskdError } from "../errors.ts";
import { inParallel } from "../in_parallel.ts";
import { Chains } from "./chain.ts";
import { translated } from "./errors.ts";
import { COPYING_KEY, DATA_PREFIX, parseRefKey, refKey, REFS_PREFIX } from "./keys.ts";
import { createManifest, type Manifest, readManifest } from "./manifest.ts";
import { decodeRef, encodeRef, type Ref } from "./ref.ts";
import type { LongOptions } from "./results.ts";

/** Objects under way at once; a large one holds three parts of an upload in memory. */
const DEFAULT_CONCURRENCY = 4;

/** How {@linkcode copyStore} works. */
export interface CopyStoreOptions extends LongOptions {
  /** Objects under way at once; default 4. */
  concurrency?: number;
}

/** What {@linkcode copyStore} did. */
export interface CopyStoreResult {
  /** The id of both stores. */
  store_id: string;
  /** Branches in the copy. */
  branches: number;
  /** Objects in the copy, without refs and manifest. */
  objects: number;
  /** Of these, those that were there already. */
  skipped: number;
  /** Bytes of the others. */
  copied_bytes: number;
}

interface CopiedRef {
  db: string;
  branch: string;
  ref: Ref;
}

/**
 * Copies the store in `source` to `target`, which is empty or holds the beginning of the same copy. The source must be
 * at rest: branches written meanwhile are copied as they were at the beginning, or the copy fails.
 *
 * @example
 * ```ts
 * import { copyStore, openBackend, openStore } from "@taskd/taskd";
 *
 * const [from, to] = [await Deno.makeTempDir(), await Deno.makeTempDir()];
 * (await openStore(from)).close();
 * const { branches, copied_bytes } = await copyStore(await openBackend(from), await openBackend(to));
 * console.log(branches, copied_bytes); // 0 0
 * for (const directory of [from, to]) await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @throws {TaskdError} `not_a_store` (no store in the source, or another one or other data in the target),
 * `conflict` (a complete copy is there and differs), `corrupt` (what was read back is not what was written),
 * `chain_gap`, `interrupted`, and what the two backends report.
 */
export async function copyStore(
  source: Backend,
  target: Backend,
  options: CopyStoreOptions = {},
): Promise<CopyStoreResult> {
  try {
    return await new Copy(source, target, options).run();
  } catch (error) {
    if (!options.signal?.aborted) throw error;
    throw new TaskdError("interrupted", `Copying ${source.url} was interrupted`, {
      cause: error,
      hint: "Run it again: it goes on where it was",
    });
  }
}

class Copy {
  readonly #source: Backend;
  readonly #target: Backend;
  readonly #options: CopyStoreOptions;
  readonly #concurrency: number;
  /** A complete copy is only compared. */
  #complete = false;
  #done_bytes = 0;
  #total_bytes = 0;

  constructor(source: Backend, target: Backend, options: CopyStoreOptions) {
    this.#source = source;
    this.#target = target;
    this.#options = options;
    this.#concurrency = Math.max(1, options.concurrency ?? DEFAULT_CONCURRENCY);
  }

  async run(): Promise<CopyStoreResult> {
    await this.#claim(await this.#manifest());
    const refs = await this.#readRefs();
    // Again: a layout is raised before the first ref that needs it is written.
    const manifest = await this.#manifest();
    const objects = await this.#listObjects();
    const found = await this.#found(DATA_PREFIX);
    const result: CopyStoreResult = {
      store_id: manifest.store_id,
      branches: refs.length,
      objects: objects.length,
      skipped: 0,
      copied_bytes: 0,
    };
    await inParallel(objects, this.#concurrency, async (object) => {
      if (await this.#copyObject(object, found.get(object.key))) result.copied_bytes += object.size;
      else result.skipped++;
    });
    await this.#copyRefs(refs);
    await this.#resolveAll(refs);
    await this.#finish(manifest);
    return result;
  }

  async #manifest(): Promise<Manifest> {
    const manifest = await readManifest(this.#source);
    if (manifest) return manifest;
    throw new TaskdError("not_a_store", `Cannot copy ${this.#source.url}: there is no store`);
  }

  /** Ensures that the target is this store's or empty. */
  async #claim({ store_id }: Manifest): Promise<void> {
    const there = await readManifest(this.#target);
    if (there && there.store_id !== store_id) throw this.#refused("another store is there");
    this.#complete = there !== undefined;
    if (this.#complete) return;
    const claim = new TextEncoder().encode(JSON.stringify({ store_id }));
    await translated(`Cannot copy to ${this.#target.url}`, async () => {
      const begun = await getIfPresent(this.#target, COPYING_KEY);
      if (begun) {
        if (!equal(begun, claim)) throw this.#refused("a copy of another store was begun there");
        return;
      }
      for (const prefix of [REFS_PREFIX, DATA_PREFIX]) {
        for await (const { key } of this.#target.list(prefix)) throw this.#refused(`it has ${key} already`);
      }
      try {
        await this.#target.create(COPYING_KEY, claim);
      } catch (error) {
        const raced = isBackendError(error, "precondition_failed") || isBackendError(error, "ambiguous");
        if (!raced) throw error;
        const winner = await getIfPresent(this.#target, COPYING_KEY);
        if (!winner || !equal(winner, claim)) throw this.#refused("another copy was begun there at the same moment");
      }
    });
  }

  #refused(why: string): TaskdError {
    return new TaskdError("not_a_store", `Cannot copy to ${this.#target.url}: ${why}`, {
      hint: "Name an empty directory or prefix",
    });
  }

  async #readRefs(): Promise<CopiedRef[]> {
    const names: { db: string; branch: string }[] = [];
    await translated(`Cannot list the branches of ${this.#source.url}`, async () => {
      for await (const { key } of this.#source.list(REFS_PREFIX)) {
        const name = parseRefKey(key);
        if (!name) {
          throw new TaskdError("corrupt", `Cannot identify ${key}`, { hint: "Move it out of the store" });
        }
        names.push(name);
      }
    });
    const refs: CopiedRef[] = [];
    await inParallel(names, this.#concurrency, async ({ db, branch }) => {
      const attempted = `Cannot read the ref of ${db}@${branch}`;
      const bytes = await translated(attempted, () => getIfPresent(this.#source, refKey(db, branch)));
      if (bytes) refs.push({ db, branch, ref: atRest(decodeRef(bytes, `${db}@${branch}`)) });
    });
    return refs;
  }

  async #listObjects(): Promise<ObjectInfo[]> {
    const objects = await translated(`Cannot list ${this.#source.url}`, () => listed(this.#source, DATA_PREFIX));
    // Each is read twice, once here and once there.
    for (const { size } of objects) this.#total_bytes += 2 * size;
    return objects;
  }

  async #found(prefix: string): Promise<Map<string, number>> {
    const objects = await translated(`Cannot list ${this.#target.url}`, () => listed(this.#target, prefix));
    return new Map(objects.map(({ key, size }) => [key, size]));
  }

  /** Copies one object unless it is there; false if it was. Either way it was read back and compared. */
  async #copyObject({ key, size }: ObjectInfo, found_size: number | undefined): Promise<boolean> {
    if (found_size === size) {
      const [here, there] = await Promise.all([this.#digest(this.#source, key), this.#digest(this.#target, key)]);
      if (here === there) return false;
      if (this.#complete) throw this.#differs(key);
      // Both were read, and will be once more.
      this.#total_bytes += 2 * size;
    } else if (this.#complete) {
      throw this.#differs(key);
    }
    const hash = createHash("sha256");
    await translated(`Cannot copy ${key}`, async () => {
      const { chunks } = await this.#source.getStream(key);
      await this.#target.put(key, this.#counted(chunks, hash));
    });
    if (hash.digest("hex") !== await this.#digest(this.#target, key)) {
      throw new TaskdError(
        "corrupt",
        `Cannot copy ${key}: ${this.#target.url} gives back other bytes than were written`,
        { hint: "Check the disk or the server, then run the copy again" },
      );
    }
    return true;
  }

  #differs(key: string): TaskdError {
    return new TaskdError(
      "conflict",
      `Cannot copy to ${this.#target.url}: the copy there is complete, and ${key} differs from the source`,
      { hint: "One of the two was used since; copy to an empty place" },
    );
  }

  async #digest(backend: Backend, key: string): Promise<string> {
    const hash = createHash("sha256");
    await translated(`Cannot read ${key} of ${backend.url}`, async () => {
      for await (const _ of this.#counted((await backend.getStream(key)).chunks, hash));
    });
    return hash.digest("hex");
  }

  async *#counted(chunks: AsyncIterable<Uint8Array>, hash: ReturnType<typeof createHash>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      this.#options.signal?.throwIfAborted();
      hash.update(chunk);
      this.#done_bytes += chunk.length;
      this.#options.onProgress?.(this.#done_bytes, this.#total_bytes);
      yield chunk;
    }
  }

  async #copyRefs(refs: CopiedRef[]): Promise<void> {
    const stale = await this.#found(REFS_PREFIX);
    await inParallel(refs, this.#concurrency, async ({ db, branch, ref }) => {
      this.#options.signal?.throwIfAborted();
      const key = refKey(db, branch);
      const bytes = encodeRef(ref);
      stale.delete(key);
      await translated(`Cannot copy the branch ${db}@${branch}`, async () => {
        const there = await getIfPresent(this.#target, key);
        if (there && equal(there, bytes)) return;
        if (this.#complete) throw this.#differs(key);
        await this.#target.put(key, bytes);
        const written = await getIfPresent(this.#target, key);
        if (written && equal(written, bytes)) return;
        throw new TaskdError(
          "corrupt",
          `Cannot copy ${key}: ${this.#target.url} gives back other bytes than were written`,
        );
      });
    });
    for (const key of stale.keys()) {
      if (this.#complete) throw this.#differs(key);
      await translated(`Cannot delete ${key} of ${this.#target.url}`, () => removeIfPresent(this.#target, key));
    }
  }

  async #resolveAll(refs: CopiedRef[]): Promise<void> {
    const chains = new Chains(this.#target);
    const points = new Map<string, { lineage: string; txid: number }>();
    for (const { ref } of refs) {
      for (const point of [ref, ...ref.checkpoints]) {
        const lineage = point.lineage ?? ref.lineage;
        points.set(`${lineage}@${point.txid}`, { lineage, txid: point.txid });
      }
    }
    await inParallel(points.values(), this.#concurrency, async ({ lineage, txid }) => {
      this.#options.signal?.throwIfAborted();
      await chains.resolve(lineage, txid);
    });
  }

  async #finish(manifest: Manifest): Promise<void> {
    if (!this.#complete && !await createManifest(this.#target, manifest)) {
      const there = await readManifest(this.#target);
      if (there?.store_id !== manifest.store_id) throw this.#refused("another store was made there meanwhile");
    }
    await translated(`Cannot finish the copy in ${this.#target.url}`, () => removeIfPresent(this.#target, COPYING_KEY));
  }
}

function atRest(ref: Ref): Ref {
  const { lease: _lease, claim: _claim, pending: _pending, ...rest } = ref;
  return rest;
}

async function listed(backend: Backend, prefix: string): Promise<ObjectInfo[]> {
  const objects: ObjectInfo[] = [];
  for await (const object of backend.list(prefix)) objects.push(object);
  return objects;
}

async function getIfPresent(backend: Backend, key: string): Promise<Uint8Array | undefined> {
  try {
    return (await backend.get(key)).bytes;
  } catch (error) {
    if (isBackendError(error, "not_found")) return undefined;
    throw error;
  }
}

async function removeIfPresent(backend: Backend, key: string): Promise<void> {
  try {
    await backend.delete(key);
  } catch (error) {
    if (!isBackendError(error, "not_found")) throw error;
  }
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, i) => byte === b[i]);
}

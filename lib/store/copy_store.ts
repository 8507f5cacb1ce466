/**
 * Copies a whole store to another location: from a directory to a bucket, and back. The copy is
 * the same store, with the same id; one of the two is meant to be left.
 *
 * Order of writes, and why a copy may be cut off at any point:
 *
 * 1. `copying.json` claims the target for one store's id. From then on no other store is created there.
 * 2. Every object under `data/`, each read back and compared before the next step begins. They are
 *    those listed after the refs were read, so all that a ref needs is among them.
 * 3. Every ref, without lease, claim and lineages that are being made, which belong to processes of the source. Refs that the source
 *    has no longer are removed.
 * 4. All that branches and checkpoints need is read in the target against its checksums, because a copy of damaged bytes
 *    is a copy, too. What is damaged ends the copy here, unless the caller allows it.
 * 5. The manifest, last. Until it is there the target cannot be opened, so no process works on half a
 *    store and no garbage collection takes objects whose refs are yet to come.
 * 6. `copying.json` goes.
 *
 * Running it again goes on where it was: what is there already is compared, not copied. Where a
 * complete copy is, nothing is ever changed. Tombstones and caches are not copied.
 */

import { createHash } from "node:crypto";
import * as v from "../packages/valibot.ts";
import { type Backend, isBackendError, type ObjectInfo } from "../backend/backend.ts";
import { systemRandom } from "../clock.ts";
import { hasCode, TaskdError } from "../errors.ts";
import { inParallel } from "../in_parallel.ts";
import { Audit, damageError, refFinding } from "./audit.ts";
import { pointsOf } from "./history.ts";
import { ifThere, translated, unreadable } from "./errors.ts";
import { COPYING_KEY, DATA_PREFIX, parseRefKey, refKey, REFS_PREFIX } from "./keys.ts";
import { createManifest, type Manifest, readManifest } from "./manifest.ts";
import { decodeRef, encodeRef, type NamedRef, type Ref, Refs } from "./ref.ts";
import { encodeRecord, isEqual, parseRecord, readRecord } from "./records.ts";
import type { Finding, LongOptions } from "./results.ts";

const Claim = v.object({ store_id: v.string() });

/** Objects under way at once; a large one holds three parts of an upload in memory. */
const DEFAULT_CONCURRENCY = 4;
const REPAIR_HINT = "Run taskd repair --all on the source";

/** How {@linkcode copyStore} works. */
export interface CopyStoreOptions extends LongOptions {
  /** Objects under way at once; default 4. */
  concurrency?: number;
  /** Finish the copy although some of it is damaged; the result says what. */
  allow_damaged?: boolean;
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
  /** What is damaged in the copy, as it is in the source; empty unless that was allowed. */
  findings: Finding[];
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
  readonly #findings: Finding[] = [];
  /** Keys of refs that cannot be read, and are copied as they are. */
  readonly #damagedRefs = new Set<string>();
  #object_bytes = 0;
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
      findings: this.#findings,
    };
    await inParallel(objects, this.#concurrency, async (object) => {
      const copied = await this.#copyReadable(object, found.get(object.key));
      if (copied === undefined) result.objects--;
      else if (copied) result.copied_bytes += object.size;
      else result.skipped++;
    });
    await this.#copyRefs(refs);
    await this.#prove(refs);
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
    await translated(`Cannot copy to ${this.#target.url}`, async () => {
      const begun = await this.#claimant();
      if (begun !== undefined) {
        if (begun !== store_id) throw this.#refused("a copy of another store was begun there");
        return;
      }
      for (const prefix of [REFS_PREFIX, DATA_PREFIX]) {
        for await (const { key } of this.#target.list(prefix)) throw this.#refused(`it has ${key} already`);
      }
      try {
        await this.#target.create(COPYING_KEY, encodeRecord({ store_id }));
      } catch (error) {
        const raced = isBackendError(error, "precondition_failed") || isBackendError(error, "ambiguous");
        if (!raced) throw error;
        if (await this.#claimant() !== store_id) throw this.#refused("another copy was begun there at the same moment");
      }
    });
  }

  /** The id of the store that is being copied to the target. */
  async #claimant(): Promise<string | undefined> {
    const name = `${COPYING_KEY} of ${this.#target.url}`;
    const read = () => readRecord(this.#target, COPYING_KEY, (bytes) => parseRecord(bytes, name, Claim));
    return (await ifThere(`Cannot read ${name}`, read))?.value.store_id;
  }

  #refused(why: string): TaskdError {
    return new TaskdError("not_a_store", `Cannot copy to ${this.#target.url}: ${why}`, {
      hint: "Name an empty directory or prefix",
    });
  }

  async #readRefs(): Promise<NamedRef[]> {
    const onDamaged = (key: string, error: TaskdError) => {
      if (!this.#options.allow_damaged || error.code !== "corrupt" || !parseRefKey(key)) throw error;
      this.#damagedRefs.add(key);
      this.#findings.push(refFinding(key, error));
    };
    const refs = await new Refs(this.#source, systemRandom).all({ signal: this.#options.signal, onDamaged });
    return refs.map(({ db, branch, ref }) => ({ db, branch, ref: atRest(ref) }));
  }

  async #listObjects(): Promise<ObjectInfo[]> {
    const objects = await translated(
      `Cannot list ${this.#source.url}`,
      () => Array.fromAsync(this.#source.list(DATA_PREFIX)),
    );
    // Each is read three times: once here, there to compare it, and there against its checksums.
    this.#object_bytes = objects.reduce((sum, { size }) => sum + size, 0);
    this.#total_bytes += 3 * this.#object_bytes;
    return objects;
  }

  async #found(prefix: string): Promise<Map<string, number>> {
    const objects = await translated(
      `Cannot list ${this.#target.url}`,
      () => Array.fromAsync(this.#target.list(prefix)),
    );
    return new Map(objects.map(({ key, size }) => [key, size]));
  }

  /** Copies one object, or records that it cannot be read: the rest goes on. Undefined for such a one. */
  async #copyReadable(object: ObjectInfo, found_size: number | undefined): Promise<boolean | undefined> {
    try {
      return await this.#copyObject(object, found_size);
    } catch (error) {
      const damage = unreadable(await this.#digest(this.#source, object.key).catch((raw) => raw));
      if (!hasCode(damage, "corrupt")) throw error;
      const why = damage.message;
      this.#findings.push({ what: "object", where: object.key, why, hint: REPAIR_HINT, needed_by: [] });
      return undefined;
    }
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

  async #copyRefs(refs: NamedRef[]): Promise<void> {
    const stale = await this.#found(REFS_PREFIX);
    await inParallel(refs, this.#concurrency, async ({ db, branch, ref }) => {
      this.#options.signal?.throwIfAborted();
      const key = refKey(db, branch);
      const bytes = encodeRef(ref);
      stale.delete(key);
      const attempted = `Cannot copy the branch ${db}@${branch}`;
      const there = () => ifThere(attempted, () => this.#target.get(key));
      await translated(attempted, async () => {
        const found = await there();
        // A copy that version 0.1.0 made has no checksums.
        if (found && isEqual(encodeRef(decodeRef(found.bytes, `${db}@${branch}`)), bytes)) return;
        if (this.#complete) throw this.#differs(key);
        await this.#target.put(key, bytes);
        const written = await there();
        if (written && isEqual(written.bytes, bytes)) return;
        throw new TaskdError(
          "corrupt",
          `Cannot copy ${key}: ${this.#target.url} gives back other bytes than were written`,
        );
      });
    });
    for (const key of this.#damagedRefs) {
      stale.delete(key);
      await ifThere(`Cannot copy ${key}`, async () => {
        const { bytes } = await this.#source.get(key);
        if (!this.#complete) await this.#target.put(key, bytes);
      });
    }
    for (const key of stale.keys()) {
      if (this.#complete) throw this.#differs(key);
      await ifThere(`Cannot delete ${key} of ${this.#target.url}`, () => this.#target.delete(key));
    }
  }

  async #prove(refs: NamedRef[]): Promise<void> {
    const audit = new Audit({ backend: this.#target, refs: new Refs(this.#target, systemRandom) }, {
      signal: this.#options.signal,
      onProgress: (done, total) => {
        // What nothing needs is not read there.
        const share = Math.round(this.#object_bytes * done / total!);
        this.#options.onProgress?.(this.#done_bytes + share, this.#total_bytes);
      },
    });
    await audit.run(refs.flatMap(pointsOf));
    this.#findings.push(...audit.findings);
    const [first, ...others] = this.#findings;
    if (!first || this.#options.allow_damaged) return;
    const hint = `${REPAIR_HINT}, then the copy again; --allow-damaged finishes it as it is`;
    const more = others.length === 0 ? "" : ` (and ${others.length} more)`;
    throw damageError({ ...first, hint }, `Cannot prove the copy of ${this.#source.url}${more}`);
  }

  async #finish(manifest: Manifest): Promise<void> {
    if (!this.#complete && !await createManifest(this.#target, manifest)) {
      const there = await readManifest(this.#target);
      if (there?.store_id !== manifest.store_id) throw this.#refused("another store was made there meanwhile");
    }
    await ifThere(`Cannot finish the copy in ${this.#target.url}`, () => this.#target.delete(COPYING_KEY));
  }
}

function atRest(ref: Ref): Ref {
  const { lease: _lease, claim: _claim, pending: _pending, folding: _folding, ...rest } = ref;
  return rest;
}

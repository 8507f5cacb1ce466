/**
 * The entries of a cache under their quota: taken, published and evicted, each in one step that others see whole.
 */

import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { unlockAndClose } from "../../lib/fs.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { CacheEntry, CacheFolder } from "./_folder.ts";
import { removeTree } from "../../lib/remove_tree.ts";

/** A sign that an entry or a folder is in use; the kernel drops it with the process. */
export type FileLock = Deno.FsFile;

export interface Staging {
  path: string;
  /** What the sandbox sees of it. */
  deps: string;
  lock: FileLock;
}

export interface CacheStoreOptions {
  quota_bytes: number;
  clock: Clock;
  random: RandomBytes;
  onWarning: (message: string) => void;
}

export class CacheStore {
  readonly #folder: CacheFolder;
  readonly #options: CacheStoreOptions;
  readonly #locks = new Set<FileLock>();
  #closed = false;

  constructor(folder: CacheFolder, options: CacheStoreOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  async open(): Promise<void> {
    this.#folder.create();
    const trash = await this.#locked(() => {
      for (const path of this.#folder.abandoned()) this.#discard(path);
      this.#makeRoom(0);
      return this.#folder.trash();
    });
    await this.#remove(trash);
  }

  close(): void {
    this.#closed = true;
    for (const lock of this.#locks) unlockAndClose(lock);
    this.#locks.clear();
  }

  async entries(): Promise<CacheEntry[]> {
    const found = await this.#locked(() => this.#folder.entries());
    return found.sort((a, b) => a.last_used_ms - b.last_used_ms).map(({ last_used_ms: _, ...entry }) => entry);
  }

  depsOf(key: string): string {
    return `${this.#folder.entryPath(key)}/deps`;
  }

  begin(key: string): Promise<{ staging: Staging; lock: FileLock | undefined }> {
    return this.#locked(() => {
      const staging = this.#stage();
      return { staging, lock: this.#folder.readEntry(key) === undefined ? undefined : this.#lockEntry(key) };
    });
  }

  stage(): Promise<Staging> {
    return this.#locked(() => this.#stage());
  }

  /** Removes a folder before it can be seen. */
  async abort(staging: Staging): Promise<void> {
    // Closed, its lock is gone, and with it the right to it.
    if (this.#closed) return;
    const trash = this.#discard(staging.path);
    this.release(staging.lock);
    await this.#remove([trash]);
  }

  /** Ends the use of an entry, which counts as its last. */
  async finish(key: string, lock: FileLock): Promise<void> {
    if (this.#closed) return;
    try {
      await this.#locked(() => this.#folder.touch(this.#folder.entryPath(key), this.#options.clock.now()));
    } finally {
      this.release(lock);
    }
  }

  release(lock: FileLock): void {
    if (this.#locks.delete(lock)) unlockAndClose(lock);
  }

  /**
   * Makes a settled folder the entry of its key, unless another process was first or there is no room.
   *
   * @returns The entry's lock, which is the folder's own when that became the entry; or why it was not published.
   */
  async publish(
    staging: Staging,
    { key, repo, bytes }: { key: string; repo: string; bytes: number },
  ): Promise<{ lock?: FileLock; reason?: string }> {
    const { quota_bytes, clock } = this.#options;
    if (bytes > quota_bytes) {
      return { reason: `it has ${formatBytes(bytes)}, and all entries may have ${formatBytes(quota_bytes)}` };
    }
    const trash: string[] = [];
    const result = await this.#locked(async () => {
      if (this.#folder.readEntry(key) !== undefined) return { lock: this.#lockEntry(key) };
      const evicted = this.#makeRoom(bytes);
      if (evicted === undefined) {
        return { reason: `there is no room for its ${formatBytes(bytes)}: other tasks use the entries there are` };
      }
      trash.push(...evicted);
      if (!this.#clear(key, trash)) return { reason: "another process uses what is left of the entry" };
      const now_ms = clock.now();
      const entry = { key, repo, bytes, created_at: new Date(now_ms).toISOString() };
      await this.#folder.publish(staging.path, entry, now_ms);
      return { lock: staging.lock };
    });
    await this.#remove(trash);
    return result;
  }

  async evict(key: string): Promise<void> {
    const trash: string[] = [];
    await this.#locked(() => this.#clear(key, trash));
    await this.#remove(trash);
  }

  #locked<T>(act: () => T | Promise<T>): Promise<T> {
    return this.#folder.locked(() => {
      if (this.#closed) throw new TaskdError("stopping", "Cannot use the dependency cache: it is closed");
      return act();
    });
  }

  #stage(): Staging {
    const { path, lock } = this.#folder.makeStaging(randomHex(this.#options.random, 16));
    this.#locks.add(lock);
    return { path, deps: `${path}/deps`, lock };
  }

  #lockEntry(key: string): FileLock {
    const lock = this.#folder.lockShared(key);
    this.#locks.add(lock);
    this.#folder.touch(this.#folder.entryPath(key), this.#options.clock.now());
    return lock;
  }

  #discard(path: string): string {
    return this.#folder.discard(path, randomHex(this.#options.random, 16));
  }

  /** Moves what is in the place of an entry aside; false while it is in use. */
  #clear(key: string, trash: string[]): boolean {
    const path = this.#folder.entryPath(key);
    if (!this.#folder.has(key)) return true;
    using claim = this.#folder.claim(path);
    if (claim === undefined) return false;
    trash.push(this.#discard(path));
    return true;
  }

  /**
   * Evicts until `bytes` more fit, the longest unused first.
   *
   * @returns What is to be removed; undefined when there is no room, and then nothing was evicted, unless `bytes` is 0.
   */
  #makeRoom(bytes: number): string[] | undefined {
    const { quota_bytes } = this.#options;
    const entries = this.#folder.entries().sort((a, b) => a.last_used_ms - b.last_used_ms);
    let total = entries.reduce((sum, entry) => sum + entry.bytes, bytes);
    const claims: { path: string; claim: FileLock }[] = [];
    try {
      for (const { key, bytes } of entries) {
        if (total <= quota_bytes) break;
        const path = this.#folder.entryPath(key);
        const claim = this.#folder.claim(path);
        if (claim === undefined) continue;
        claims.push({ path, claim });
        total -= bytes;
      }
      if (total > quota_bytes && bytes > 0) return undefined;
      return claims.map(({ path }) => this.#discard(path));
    } finally {
      for (const { claim } of claims) unlockAndClose(claim);
    }
  }

  async #remove(paths: readonly string[]): Promise<void> {
    for (const path of paths) {
      try {
        await removeTree(path);
      } catch (error) {
        if (!(error instanceof TaskdError)) throw error;
        this.#options.onWarning(error.message);
      }
    }
  }
}

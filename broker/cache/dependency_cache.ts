/**
 * What package managers have downloaded, kept on the host for the next task with the same lockfiles.
 *
 * - An entry is complete and never changed: it appears by one rename, after a setup phase that passed, with everything
 *   on the disk. A setup that failed, was killed, or whose broker was, leaves nothing that anyone reads.
 * - A setup phase writes to a private copy. The agent sees the entry read-only.
 * - The key covers the repository, so what one repository's packages write, no other repository reads.
 * - The entries together stay within the quota. The longest unused goes first; one that is in use stays.
 * - One broker has a cache at a time.
 */

import { type Clock, type RandomBytes, systemRandom } from "../../lib/clock.ts";
import { hasCode } from "../../lib/errors.ts";
import type { SetupEvidence } from "../task/schema.ts";
import { type CacheEntry, CacheStore, type Staging } from "./_cache_store.ts";
import { type CacheInputs, cacheKey, KEY_PREFIX_LENGTH } from "./cache_key.ts";
import { DEPS } from "./package_managers.ts";
import { copyTree, settleTree } from "./cached_trees.ts";

export type { CacheEntry };

export interface DependencyCacheOptions {
  cache_root: string;
  /** Bytes of all entries together; 0 disables the cache, and nothing is then made or touched. */
  quota_bytes: number;
  clock: Clock;
  random?: RandomBytes;
  /** Receives what could not be removed; it is tried again when the cache is next opened. */
  onWarning?: (message: string) => void;
}

export interface CacheRequest extends CacheInputs {
  /** Whether the repository's profile has `cache: true`. */
  enabled: boolean;
  signal?: AbortSignal | undefined;
}

export interface CacheMount {
  source: string;
  target: string;
  writable: boolean;
}

export interface CacheCommit {
  kept: boolean;
  reason?: string;
}

export function quotaBytes(gib: number): number {
  return Math.floor(gib * 2 ** 30);
}

export class DependencyCache {
  readonly #store: CacheStore | undefined;
  readonly #options: DependencyCacheOptions;

  private constructor(store: CacheStore | undefined, options: DependencyCacheOptions) {
    this.#store = store;
    this.#options = options;
  }

  /**
   * Opens a cache, removes what crashes have left and evicts what a smaller quota has no room for. To be called when no
   * sandbox of an earlier process runs any more.
   *
   * @throws {TaskdError} `denied`, `no_space` or `unavailable`; `broker_running` while another broker has it.
   */
  static async open(options: DependencyCacheOptions): Promise<DependencyCache> {
    const { cache_root, quota_bytes, clock, random = systemRandom, onWarning = () => {} } = options;
    if (quota_bytes <= 0) return new DependencyCache(undefined, options);
    const store = await CacheStore.open(cache_root, { quota_bytes, clock, random, onWarning });
    return new DependencyCache(store, options);
  }

  entries(): CacheEntry[] {
    return this.#store?.entries() ?? [];
  }

  /**
   * Begins a task's part: with a copy of the entry when there is one, else with an empty folder.
   *
   * @throws {TaskdError} `no_space`, `denied`, `unavailable`, `stopping`; the signal's reason.
   */
  async use(request: CacheRequest): Promise<CacheUse> {
    const store = this.#store;
    if (store === undefined || !request.enabled) return new CacheUse("disabled");
    if (request.lockfiles.length === 0) return new CacheUse("disabled: no lockfile");
    const { repo, signal } = request;
    const key = cacheKey(request);
    const staging = store.stage();
    if (!store.begin(key)) return new CacheUse("miss", { store, key, repo }, staging);
    try {
      await copyTree(store.depsOf(key), staging.deps, { clock: this.#options.clock, signal });
      return new CacheUse("hit", { store, key, repo }, staging);
    } catch (error) {
      await store.abort(staging);
      store.finish(key);
      if (signal?.aborted || !hasCode(error, "not_found", "unavailable")) throw error;
      // It was damaged and counts as absent.
      const what = `The cache entry ${key.slice(0, KEY_PREFIX_LENGTH)} cannot be read: ${error.message}`;
      this.#options.onWarning?.(what);
      await store.evict(key);
      return new CacheUse("miss", { store, key, repo }, store.stage());
    }
  }

  /** Gives it up at once, as the end of the process does. What is not committed goes at the next opening. */
  close(): void {
    this.#store?.close();
  }
}

/** What a task that takes part works on. */
interface CachePart {
  store: CacheStore;
  key: string;
  repo: string;
}

/** A task's part in the cache. */
export class CacheUse {
  readonly participation: SetupEvidence["cache"]["participation"];
  /** First digits of the key; absent when disabled. */
  readonly key_prefix: string | undefined;
  readonly #part: CachePart | undefined;
  #staging: Staging | undefined;
  /** Whether it uses the entry of its key. */
  #holds: boolean;
  #committed: Promise<CacheCommit> | undefined;
  #released: Promise<void> | undefined;

  constructor(participation: CacheUse["participation"], part?: CachePart, staging?: Staging) {
    this.participation = participation;
    this.key_prefix = part?.key.slice(0, KEY_PREFIX_LENGTH);
    this.#part = part;
    this.#staging = staging;
    this.#holds = participation === "hit";
  }

  /** Writable, for the setup phase; absent when disabled, and after {@linkcode CacheUse.commit}. */
  get setup_mount(): CacheMount | undefined {
    return this.#staging && { source: this.#staging.deps, target: DEPS, writable: true };
  }

  get agent_mount(): CacheMount | undefined {
    if (!this.#holds || this.#part === undefined) return undefined;
    return { source: this.#part.store.depsOf(this.#part.key), target: DEPS, writable: false };
  }

  /**
   * Publishes what a setup phase has written, which must have passed and ended. May be called twice.
   *
   * @throws {TaskdError} `no_space`, `denied`, `unavailable`; there is then no entry.
   */
  commit(): Promise<CacheCommit> {
    return this.#committed ??= this.#commit();
  }

  /** Ends the task's part, when no sandbox has a mount any more; what was not committed is gone. May be called twice. */
  release(): Promise<void> {
    return this.#released ??= this.#release();
  }

  async #commit(): Promise<CacheCommit> {
    const [part, staging] = [this.#part, this.#staging];
    if (part === undefined) return { kept: false, reason: `the cache is ${this.participation}` };
    if (staging === undefined) return { kept: false, reason: "it was released" };
    const { store, key, repo } = part;
    try {
      // What is there already was made by the same setup.
      if (this.#holds) return { kept: true };
      const bytes = await settleTree(staging.deps);
      const reason = await store.publish(staging, { key, repo, bytes });
      this.#holds = reason === undefined;
      return reason === undefined ? { kept: true } : { kept: false, reason };
    } finally {
      this.#staging = undefined;
      await store.abort(staging);
    }
  }

  async #release(): Promise<void> {
    // The caller received the error.
    await this.#committed?.catch(() => {});
    const [staging, holds] = [this.#staging, this.#holds];
    this.#staging = undefined;
    this.#holds = false;
    if (staging !== undefined) await this.#part?.store.abort(staging);
    if (holds) this.#part?.store.finish(this.#part.key);
  }
}

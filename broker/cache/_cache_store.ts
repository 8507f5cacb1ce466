/**
 * The entries of a cache under their quota: taken, published and evicted, each in one step that others see whole.
 *
 * One broker has a cache at a time: it holds `lock` as long as it runs, and the kernel frees that however it ends.
 * Which entries are in use is therefore its own knowledge; what lies in `staging` when it begins, a crash has left.
 *
 *     cache_root/lock
 *     cache_root/entries/<key>/{entry.json, deps/}
 *     cache_root/staging/<random>/deps/
 *     cache_root/trash/<random>/
 */

import * as v from "valibot";
import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import {
  fileError,
  fileErrorCode,
  fsyncDirectory,
  isThere,
  makeDirectories,
  unlockAndClose,
  withFileError,
  writeFileAtomic,
} from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { parseSealedJson, sealJson } from "../../lib/sealed_json.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { COUNT } from "../task/value_schemas.ts";

const ENTRY_FILE = v.object({
  version: v.literal(1),
  key: v.string(),
  repo: v.string(),
  bytes: COUNT,
  /** ISO 8601 UTC. */
  created_at: v.string(),
});
export type CacheEntry = Omit<v.InferOutput<typeof ENTRY_FILE>, "version">;

type FoundEntry = CacheEntry & { last_used_ms: number };

const KEY = /^[0-9a-f]{64}$/;
/** A program that a killed broker was starting has its descriptors for a moment, and with them its lock. */
const LOCK_TRIES = 100;
const LOCK_PAUSE_MS = 50;

/** A folder that a setup phase fills. */
export interface Staging {
  path: string;
  /** What the sandbox sees of it. */
  deps: string;
}

export interface CacheStoreOptions {
  quota_bytes: number;
  clock: Clock;
  random: RandomBytes;
  onWarning: (message: string) => void;
}

export class CacheStore {
  readonly #root: string;
  readonly #options: CacheStoreOptions;
  readonly #lock: Deno.FsFile;
  /** How many tasks use an entry. */
  readonly #uses = new Map<string, number>();
  /** The last publication: they go one after the other. */
  #publishing: Promise<unknown> = Promise.resolve();
  #closed = false;

  private constructor(root: string, lock: Deno.FsFile, options: CacheStoreOptions) {
    this.#root = root;
    this.#lock = lock;
    this.#options = options;
  }

  static async open(root: string, options: CacheStoreOptions): Promise<CacheStore> {
    withFileError(`Cannot make the dependency cache ${root}`, () => {
      for (const path of ["", "/entries", "/staging", "/trash"]) {
        makeDirectories(root + path);
        Deno.chmodSync(root + path, 0o700);
      }
    });
    const store = new CacheStore(root, await lockCache(root, options.clock), options);
    try {
      for (const path of store.#leftovers()) store.#discard(path);
      store.#makeRoom(0);
      await store.#remove(store.#paths("trash"));
      return store;
    } catch (error) {
      store.close();
      throw error;
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    unlockAndClose(this.#lock);
  }

  /** The longest unused first. */
  entries(): CacheEntry[] {
    return this.#entries().map(({ last_used_ms: _, ...entry }) => entry);
  }

  depsOf(key: string): string {
    return `${this.#entryPath(key)}/deps`;
  }

  stage(): Staging {
    this.#requireOpen();
    const path = `${this.#root}/staging/${this.#name()}`;
    withFileError(`Cannot make ${path}`, () => {
      Deno.mkdirSync(path, { mode: 0o700 });
      Deno.mkdirSync(`${path}/deps`, { mode: 0o700 });
    });
    return { path, deps: `${path}/deps` };
  }

  /** Removes a folder that did not become an entry. */
  async abort({ path }: Staging): Promise<void> {
    // Closed, the right to it is gone.
    if (!this.#closed && isThere(path)) await this.#remove([this.#discard(path)]);
  }

  /** Begins the use of an entry; false when there is none. */
  begin(key: string): boolean {
    this.#requireOpen();
    if (this.#read(key) === undefined) return false;
    this.#uses.set(key, (this.#uses.get(key) ?? 0) + 1);
    this.#touch(this.#entryPath(key));
    return true;
  }

  /** Ends the use of an entry, which counts as its last. */
  finish(key: string): void {
    const uses = (this.#uses.get(key) ?? 0) - 1;
    if (uses > 0) this.#uses.set(key, uses);
    else this.#uses.delete(key);
    if (!this.#closed) this.#touch(this.#entryPath(key));
  }

  /**
   * Makes a settled folder the entry of its key, unless there is one, and begins its use.
   *
   * @returns Why there is no entry; undefined when there is one.
   */
  publish(staging: Staging, entry: { key: string; repo: string; bytes: number }): Promise<string | undefined> {
    const publishing = this.#publishing.then(() => this.#publish(staging, entry));
    this.#publishing = publishing.catch(() => {});
    return publishing;
  }

  async evict(key: string): Promise<void> {
    if (!this.#uses.has(key) && isThere(this.#entryPath(key))) {
      await this.#remove([this.#discard(this.#entryPath(key))]);
    }
  }

  async #publish(
    staging: Staging,
    { key, repo, bytes }: { key: string; repo: string; bytes: number },
  ): Promise<string | undefined> {
    const { quota_bytes, clock } = this.#options;
    if (bytes > quota_bytes) {
      return `it has ${formatBytes(bytes)}, and all entries may have ${formatBytes(quota_bytes)}`;
    }
    if (this.begin(key)) return undefined;
    const trash = this.#makeRoom(bytes);
    if (trash === undefined) {
      return `there is no room for its ${formatBytes(bytes)}: other tasks use the entries there are`;
    }
    const path = this.#entryPath(key);
    if (isThere(path)) trash.push(this.#discard(path));
    const created_at = new Date(clock.now()).toISOString();
    const text = `${sealJson(JSON.stringify({ version: 1, key, repo, bytes, created_at }))}\n`;
    await writeFileAtomic(`${staging.path}/entry.json`, new TextEncoder().encode(text), 0o600);
    this.#touch(staging.path);
    try {
      Deno.renameSync(staging.path, path);
      await fsyncDirectory(`${this.#root}/entries`);
    } catch (error) {
      if (isThere(path)) trash.push(this.#discard(path));
      throw fileError(error, `Cannot publish ${path}`);
    } finally {
      await this.#remove(trash);
    }
    this.begin(key);
    return undefined;
  }

  #requireOpen(): void {
    if (this.#closed) throw new TaskdError("stopping", "Cannot use the dependency cache: it is closed");
  }

  #name(): string {
    return randomHex(this.#options.random, 16);
  }

  #entryPath(key: string): string {
    return `${this.#root}/entries/${key}`;
  }

  #paths(folder: "entries" | "staging" | "trash"): string[] {
    return [...Deno.readDirSync(`${this.#root}/${folder}`)].map(({ name }) => `${this.#root}/${folder}/${name}`);
  }

  #entries(): FoundEntry[] {
    const keys = [...Deno.readDirSync(`${this.#root}/entries`)].map(({ name }) => name);
    return keys.flatMap((key) => this.#read(key) ?? []).sort((a, b) => a.last_used_ms - b.last_used_ms);
  }

  /** The complete entry of a key; undefined when there is none. */
  #read(key: string): FoundEntry | undefined {
    const path = this.#entryPath(key);
    try {
      const entry = parseEntry(Deno.readTextFileSync(`${path}/entry.json`));
      const { mtime } = Deno.lstatSync(`${path}/entry.json`);
      if (entry?.key !== key || !Deno.lstatSync(`${path}/deps`).isDirectory) return undefined;
      return { ...entry, last_used_ms: mtime?.getTime() ?? 0 };
    } catch (error) {
      // Not a folder of the cache's, either.
      if (fileErrorCode(error) === "not_found" || error instanceof Deno.errors.NotADirectory) return undefined;
      throw fileError(error, `Cannot read ${path}`);
    }
  }

  /** Records that an entry is used now: later than every other, even if the clock went back. */
  #touch(path: string): void {
    const newest_ms = this.#entries().at(-1)?.last_used_ms ?? 0;
    const used = new Date(Math.max(this.#options.clock.now(), newest_ms + 1));
    try {
      Deno.utimeSync(`${path}/entry.json`, used, used);
    } catch (error) {
      // It was removed by hand.
      if (fileErrorCode(error) !== "not_found") throw fileError(error, `Cannot mark ${path} as used`);
    }
  }

  /** What a crash left, and whatever else lies among the entries. */
  #leftovers(): string[] {
    const broken = this.#paths("entries").filter((path) => {
      const key = path.slice(path.lastIndexOf("/") + 1);
      return !KEY.test(key) || this.#read(key) === undefined;
    });
    return [...this.#paths("staging"), ...broken];
  }

  /** Takes a folder out of sight; returns where it is to be removed. */
  #discard(path: string): string {
    const trash = `${this.#root}/trash/${this.#name()}`;
    return withFileError(`Cannot discard ${path}`, () => {
      Deno.renameSync(path, trash);
      return trash;
    });
  }

  /**
   * Evicts until `bytes` more fit, the longest unused first.
   *
   * @returns What is to be removed; undefined when there is no room, and then nothing was evicted, unless `bytes` is 0.
   */
  #makeRoom(bytes: number): string[] | undefined {
    const { quota_bytes } = this.#options;
    const entries = this.#entries();
    let total = entries.reduce((sum, entry) => sum + entry.bytes, bytes);
    const evicted: string[] = [];
    for (const { key, bytes } of entries) {
      if (total <= quota_bytes) break;
      if (this.#uses.has(key)) continue;
      evicted.push(this.#entryPath(key));
      total -= bytes;
    }
    if (total > quota_bytes && bytes > 0) return undefined;
    return evicted.map((path) => this.#discard(path));
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

async function lockCache(root: string, clock: Clock): Promise<Deno.FsFile> {
  const path = `${root}/lock`;
  const open = () => Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
  const file = withFileError(`Cannot open ${path}`, open);
  for (let tries = 0; tries < LOCK_TRIES; tries++) {
    if (file.tryLockSync(true)) return file;
    await clock.sleep(LOCK_PAUSE_MS);
  }
  file.close();
  throw new TaskdError("broker_running", `Cannot use the dependency cache ${root}: another broker has it`, {
    hint: "Stop that broker, or give each a cache_root of its own",
  });
}

function parseEntry(text: string): CacheEntry | undefined {
  const parsed = v.safeParse(ENTRY_FILE, parseSealedJson(text));
  if (!parsed.success) return undefined;
  const { version: _, ...entry } = parsed.output;
  return entry;
}

/**
 * The folders of a cache and the locks that keep processes, and tasks of one process, from each other.
 *
 * `lock` is held while entries are looked up, published or evicted. `use.lock` of an entry or of a folder that is
 * being filled is held shared by its users; the kernel frees it when their process ends, however it ends. So an
 * unlocked entry may be evicted, and an unlocked folder that was being filled removed.
 *
 *     cache_root/lock
 *     cache_root/entries/<key>/{entry.json, use.lock, deps/}
 *     cache_root/staging/<random>/{use.lock, deps/}
 *     cache_root/trash/<random>/
 */

import * as v from "valibot";
import { hasCode } from "../../lib/errors.ts";
import {
  fileError,
  fileErrorCode,
  fsyncDirectory,
  isStillAt,
  isThere,
  makeDirectories,
  unlockAndClose,
  writeFileAtomic,
} from "../../lib/fs.ts";
import { parseSealedJson, sealJson } from "../../lib/sealed_json.ts";
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

export interface FoundEntry extends CacheEntry {
  last_used_ms: number;
}

const KEY = /^[0-9a-f]{64}$/;

/** Paths below `cache_root`, and what is done with them one step at a time. */
export class CacheFolder {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  create(): void {
    try {
      for (const path of ["", "/entries", "/staging", "/trash"]) {
        makeDirectories(this.root + path);
        Deno.chmodSync(this.root + path, 0o700);
      }
    } catch (error) {
      throw fileError(error, `Cannot make the dependency cache ${this.root}`);
    }
  }

  entryPath(key: string): string {
    return `${this.root}/entries/${key}`;
  }

  /** Runs `act` while no other caller, here or in another process, looks up, publishes or evicts. */
  async locked<T>(act: () => T | Promise<T>): Promise<T> {
    const path = `${this.root}/lock`;
    while (true) {
      const file = openLock(path);
      try {
        await file.lock(true);
        // It may have been removed during the wait.
        if (isStillAt(file, path)) return await act();
      } finally {
        unlockAndClose(file);
      }
    }
  }

  /** A folder to fill, held; under {@linkcode locked}. */
  makeStaging(name: string): { path: string; lock: Deno.FsFile } {
    const path = `${this.root}/staging/${name}`;
    try {
      Deno.mkdirSync(path, { mode: 0o700 });
      Deno.mkdirSync(`${path}/deps`, { mode: 0o700 });
      const lock = openLock(`${path}/use.lock`);
      lock.lockSync(false);
      return { path, lock };
    } catch (error) {
      throw fileError(error, `Cannot make ${path}`);
    }
  }

  entries(): FoundEntry[] {
    return this.#keys().flatMap((key) => this.readEntry(key) ?? []);
  }

  #keys(): string[] {
    return [...Deno.readDirSync(`${this.root}/entries`)].map(({ name }) => name);
  }

  /** The complete entry of a key; undefined when there is none. */
  readEntry(key: string): FoundEntry | undefined {
    const path = this.entryPath(key);
    try {
      const entry = parseEntry(Deno.readTextFileSync(`${path}/entry.json`));
      const { mtime } = Deno.lstatSync(`${path}/use.lock`);
      if (entry?.key !== key || !Deno.lstatSync(`${path}/deps`).isDirectory) return undefined;
      return { ...entry, last_used_ms: mtime?.getTime() ?? 0 };
    } catch (error) {
      if (fileErrorCode(error) === "not_found") return undefined;
      throw fileError(error, `Cannot read ${path}`);
    }
  }

  has(key: string): boolean {
    return this.#keys().includes(key);
  }

  /** Holds an entry that exists; under {@linkcode locked}. */
  lockShared(key: string): Deno.FsFile {
    const file = openLock(`${this.entryPath(key)}/use.lock`);
    file.lockSync(false);
    return file;
  }

  /**
   * Records that an entry, or a folder that is to become one, is used now: later than every other, even if the clock went back.
   * Under {@linkcode locked}.
   */
  touch(path: string, now_ms: number): void {
    const newest_ms = this.entries().reduce((newest, { last_used_ms }) => Math.max(newest, last_used_ms), 0);
    const used = new Date(Math.max(now_ms, newest_ms + 1));
    try {
      Deno.utimeSync(`${path}/use.lock`, used, used);
    } catch (error) {
      // It was removed by hand.
      if (fileErrorCode(error) !== "not_found") throw fileError(error, `Cannot mark ${path} as used`);
    }
  }

  /** Makes a filled folder the entry of its key; under {@linkcode locked}, when there is none. */
  async publish(staging: string, entry: CacheEntry, now_ms: number): Promise<void> {
    const text = `${sealJson(JSON.stringify({ version: 1, ...entry }))}\n`;
    await writeFileAtomic(`${staging}/entry.json`, new TextEncoder().encode(text), 0o600);
    this.touch(staging, now_ms);
    const path = this.entryPath(entry.key);
    try {
      Deno.renameSync(staging, path);
    } catch (error) {
      throw fileError(error, `Cannot publish ${path}`);
    }
    try {
      await fsyncDirectory(`${this.root}/entries`);
    } catch (error) {
      Deno.renameSync(path, staging);
      throw fileError(error, `Cannot publish ${path}`);
    }
  }

  /** Locks an entry or a filled folder for its removal; undefined while it is in use. Under {@linkcode locked}. */
  claim(path: string): Deno.FsFile | undefined {
    try {
      const file = openLock(`${path}/use.lock`);
      if (file.tryLockSync(true)) return file;
      file.close();
      return undefined;
    } catch (error) {
      throw fileError(error, `Cannot lock ${path}`);
    }
  }

  /** Takes a folder out of sight; returns where it is to be removed. */
  discard(path: string, name: string): string {
    const trash = `${this.root}/trash/${name}`;
    try {
      Deno.renameSync(path, trash);
      return trash;
    } catch (error) {
      throw fileError(error, `Cannot discard ${path}`);
    }
  }

  /** What a crash left: folders that no process fills, and incomplete entries. Under {@linkcode locked}. */
  abandoned(): string[] {
    const staging = [...Deno.readDirSync(`${this.root}/staging`)].map(({ name }) => `${this.root}/staging/${name}`);
    const broken = this.#keys().filter((key) => !KEY.test(key) || this.readEntry(key) === undefined);
    return [...staging, ...broken.map((key) => this.entryPath(key))].filter((path) => {
      try {
        // Not a folder of the cache's.
        if (!Deno.lstatSync(path).isDirectory) return true;
        using lock = this.claim(path);
        return lock !== undefined && isThere(path);
      } catch (error) {
        // Its owner has just dropped it, which needs no lock.
        if (fileErrorCode(error) === "not_found" || hasCode(error, "not_found")) return false;
        throw error;
      }
    });
  }

  trash(): string[] {
    return [...Deno.readDirSync(`${this.root}/trash`)].map(({ name }) => `${this.root}/trash/${name}`);
  }
}

function openLock(path: string): Deno.FsFile {
  try {
    return Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
  } catch (error) {
    throw fileError(error, `Cannot open ${path}`);
  }
}

function parseEntry(text: string): CacheEntry | undefined {
  const parsed = v.safeParse(ENTRY_FILE, parseSealedJson(text));
  if (!parsed.success) return undefined;
  const { version: _, ...entry } = parsed.output;
  return entry;
}

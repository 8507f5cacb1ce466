/**
 * A store in a directory of this machine: each key is a file below it.
 *
 * A write goes to a temporary file, which is fsynced and then linked (create) or
 * renamed (all else) to its name, whose directory is fsynced (unless the write may revert): a reader, or a machine
 * that lost its power, sees the whole new object or what was there before. Create needs
 * no lock, because link(2) fails when the name exists. A call that replaces or removes an
 * object holds the key's lock (see `_stripe_locks.ts`) for the compare and the swap only;
 * the bytes are on disk by then.
 *
 * `.taskd` below the directory holds the locks and the temporary files. The latter are
 * all in one directory, so that what dead processes leave is found without walking the store.
 */

import { dirname, resolve } from "node:path/posix";
import { type Clock, type RandomBytes, randomHex, systemClock, systemRandom } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { clonable, cloneFile, type CloneOptions, discard, fileErrorCode } from "../fs.ts";
import { fsyncDirectory, makeDirectories } from "../fs.ts";
import { type Backend, BackendError, type Body, type CloneSupport, isBackendError } from "./backend.ts";
import type { ObjectBody, ObjectInfo, ObjectStream, ReplaceOptions } from "./backend.ts";
import { parseKey, parsePrefix, RESERVED_PART } from "./object_key.ts";
import { backendError, etagOfFile, requireDirectories, statObject, statOf } from "./_local_files.ts";
import { readRange, readWhole, streamObject, walk } from "./_local_read.ts";
import { settleStaged, stageBody, sweepStaged } from "./_local_stage.ts";
import { StripeLocks } from "./_stripe_locks.ts";

const DEFAULT_MAX_BYTES = 16 * 1024 * 1024;
/** How often a write is tried again when a delete removes the directory it made. */
const MAX_ATTEMPTS = 16;
/** Directories whose names are remembered as durable; a bound on memory, not on the store. */
const MAX_DURABLE = 4096;

export interface LocalBackendOptions {
  clock?: Clock;
  random?: RandomBytes;
  /** Absolute path of `cp`, which clones files; spelled as in `--allow-run`. */
  cp_path?: string;
  /** Make and change nothing in the directory, also no folder for writes: only reading works then. */
  read_only?: boolean;
}

/** When a staged object takes its place: only a new name, any name, or only over this etag. */
type Condition = "new" | "any" | { if_match: string; may_revert?: boolean };

/**
 * A store in a local directory. Requires `--allow-read` and `--allow-write` on it; with `--allow-run` of `cp`, and on a
 * file system that can, objects share blocks with other files.
 */
export class LocalBackend implements Backend {
  readonly url: string;
  readonly clone?: CloneSupport;
  #root: string;
  #staging: string;
  #random: RandomBytes;
  #locks: StripeLocks;
  /** Directories known to be durable in their parents, with its identity: one may be removed and made again. */
  #durable = new Map<string, string>();

  private constructor(root: string, cloning: boolean, options: LocalBackendOptions) {
    const { clock = systemClock, random = systemRandom } = options;
    this.url = `file://${root.split("/").map(encodeURIComponent).join("/")}`;
    this.#root = root;
    this.#staging = `${root}/${RESERVED_PART}/tmp`;
    this.#random = random;
    this.#locks = new StripeLocks(`${root}/${RESERVED_PART}/locks`, { clock, random });
    if (cloning) {
      this.clone = {
        cloneIn: (path, key) => this.#cloneIn(path, key, options),
        cloneOut: (key, path) => this.#cloneOut(key, path),
      };
    }
  }

  /**
   * Opens the store in `directory`, which is made (0700) when it is missing, and removes what writers that died more
   * than an hour ago left behind.
   *
   * @throws {BackendError} `denied` when the path is no directory or may not be used, `no_space`, `unavailable`.
   */
  static async open(directory: string, options: LocalBackendOptions = {}): Promise<LocalBackend> {
    const root = resolve(directory);
    if (options.read_only) return new LocalBackend(root, false, options);
    try {
      makeRoot(root);
      const staging = `${root}/${RESERVED_PART}/tmp`;
      requireDirectories([dirname(staging), staging], RESERVED_PART);
      sweepStaged(staging, (options.clock ?? systemClock).now());
      return new LocalBackend(root, await canClone(staging, options), options);
    } catch (error) {
      throw backendError(error, "", `open the store ${root}`);
    }
  }

  get(key: string, options: { max_bytes?: number } = {}): Promise<ObjectBody> {
    return this.#read(key, ({ path }) => readWhole(path, key, options.max_bytes ?? DEFAULT_MAX_BYTES));
  }

  getRange(key: string, offset: number, length: number): Promise<Uint8Array> {
    return this.#read(key, ({ path }) => readRange(path, key, offset, length));
  }

  /** See {@linkcode Backend.getStream}. The chunks hold a descriptor until they are read or the loop is left. */
  getStream(key: string): Promise<ObjectStream> {
    return this.#read(key, ({ path }) => streamObject(path, key));
  }

  head(key: string): Promise<ObjectInfo> {
    return this.#read(key, ({ size }) => ({ key, size }));
  }

  create(key: string, bytes: Uint8Array): Promise<string> {
    return this.#write(key, "new", (temporary) => stageBody(temporary, key, bytes));
  }

  replace(key: string, bytes: Uint8Array, etag: string, options: ReplaceOptions = {}): Promise<string> {
    return this.#write(key, { if_match: etag, ...options }, (temporary) => stageBody(temporary, key, bytes));
  }

  async put(key: string, body: Body): Promise<void> {
    await this.#write(key, "any", (temporary) => stageBody(temporary, key, body));
  }

  async copy(from: string, to: string): Promise<void> {
    await this.#write(to, "any", (temporary) =>
      this.#read(from, async ({ path }) => {
        // Shares blocks where the file system can, and is the kernel's copy elsewhere.
        await Deno.copyFile(path, temporary);
        await settleStaged(temporary);
      }));
  }

  async delete(key: string, options: { if_match?: string } = {}): Promise<void> {
    let removed = false;
    try {
      const parts = parseKey(key);
      const survivor = await this.#locks.run(key, () => {
        const { path } = statObject(this.#root, parts);
        if (options.if_match !== undefined && etagOfFile(path) !== options.if_match) throw mismatch(key);
        Deno.removeSync(path);
        removed = true;
        return this.#removeEmptyDirectories(path);
      });
      await fsyncUnlessGone(survivor);
    } catch (error) {
      throw removed ? ambiguous(error, key) : backendError(error, key, "delete");
    }
  }

  /** See {@linkcode Backend.list}. In the order of the keys. */
  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    const { directory, start } = parsePrefix(prefix);
    try {
      let path = this.#root;
      for (const part of directory) {
        path += `/${part}`;
        // Not empty by mistake: garbage collection would take every object for unreachable.
        if (statOf(path, prefix, "directory") === undefined) return;
      }
      yield* walk(path, prefix.slice(0, prefix.length - start.length), start);
    } catch (error) {
      throw backendError(error, prefix, "list");
    }
  }

  async #read<T>(key: string, body: (object: { path: string; size: number }) => T | Promise<T>): Promise<T> {
    try {
      return await body(statObject(this.#root, parseKey(key)));
    } catch (error) {
      throw backendError(error, key, "read");
    }
  }

  /** Stages an object by `stage`, then gives it its name. Returns what `stage` did. */
  async #write<T>(key: string, condition: Condition, stage: (temporary: string) => Promise<T>): Promise<T> {
    const parts = parseKey(key);
    const temporary = `${this.#staging}/${randomHex(this.#random, 12)}`;
    const fresh = new Map<string, string>();
    let placed = false;
    try {
      this.#prepare(parts, fresh);
      const staged = await stage(temporary);
      await this.#place(temporary, parts, condition, fresh);
      placed = true;
      // The bytes are on the disk before they have the name, so that without this step one of the two objects has it.
      if (!(typeof condition === "object" && condition.may_revert)) await this.#settle(parts, fresh);
      return staged;
    } catch (error) {
      throw placed ? ambiguous(error, key) : error;
    } finally {
      // Last, so that it adds nothing to what the disk must write before the answer. A rename has taken it away already.
      if (!placed || condition === "new") discard(temporary);
    }
  }

  #prepare(parts: string[], fresh: Map<string, string>): void {
    try {
      const there = requireDirectories([dirname(this.#staging), this.#staging], parts.join("/"));
      if (!there) Deno.mkdirSync(this.#staging, { recursive: true, mode: 0o700 });
      this.#makeDirectories(parts, fresh);
    } catch (error) {
      throw writeError(error, parts.join("/"));
    }
  }

  async #place(temporary: string, parts: string[], condition: Condition, fresh: Map<string, string>): Promise<void> {
    const key = parts.join("/");
    const path = `${this.#root}/${key}`;
    for (let attempt = 1;; attempt++) {
      try {
        if (attempt > 1) this.#makeDirectories(parts, fresh);
        if (condition === "new") linkNew(temporary, path, key);
        else await this.#locks.run(key, () => this.#swap(temporary, path, parts, condition));
        return;
      } catch (error) {
        // A delete may have removed the directory, emptied, before the object was in it.
        if (fileErrorCode(error) !== "not_found" || attempt === MAX_ATTEMPTS) throw writeError(error, key);
      }
    }
  }

  #swap(temporary: string, path: string, parts: string[], condition: Exclude<Condition, "new">): void {
    const key = parts.join("/");
    if (condition === "any") {
      statOf(path, key, "file");
    } else {
      let size: number;
      try {
        ({ size } = statObject(this.#root, parts));
      } catch (error) {
        throw isBackendError(error, "not_found") ? mismatch(key) : error;
      }
      if (etagOfFile(path, size) !== condition.if_match) throw mismatch(key);
    }
    Deno.renameSync(temporary, path);
  }

  /** Makes the directories of a key. Adds to `fresh` those not known to be durable, with what identifies them. */
  #makeDirectories(parts: string[], fresh: Map<string, string>): void {
    const key = parts.join("/");
    let path = this.#root;
    for (const part of parts.slice(0, -1)) {
      path += `/${part}`;
      let info = statOf(path, key, "directory");
      if (info === undefined) {
        makeDirectory(path);
        info = statOf(path, key, "directory");
      }
      // Another process's delete removes what it emptied: giving the object its name will show that, and try again.
      if (info === undefined) return;
      const { dev, ino, birthtime } = info;
      const identity = `${dev}:${ino}:${birthtime?.getTime()}`;
      // Not only those made here: another process may have made one a moment ago, and not fsynced it yet.
      if (this.#durable.get(path) !== identity) fresh.set(path, identity);
    }
  }

  /** Makes the name of an object and those of its `fresh` directories durable. */
  async #settle(parts: string[], fresh: Map<string, string>): Promise<void> {
    const path = [this.#root, ...parts].join("/");
    await Promise.all([path, ...fresh.keys()].map((name) => fsyncUnlessGone(dirname(name))));
    if (this.#durable.size + fresh.size > MAX_DURABLE) this.#durable.clear();
    for (const [directory, identity] of fresh) this.#durable.set(directory, identity);
  }

  /** Removes the directories that deleting `path` emptied; returns the nearest that stays. */
  #removeEmptyDirectories(path: string): string {
    let directory = dirname(path);
    while (directory !== this.#root) {
      try {
        Deno.removeSync(directory);
      } catch {
        // Not empty, gone, or not ours to remove.
        break;
      }
      directory = dirname(directory);
    }
    return directory;
  }

  async #cloneIn(path: string, key: string, options: CloneOptions): Promise<void> {
    await this.#write(key, "any", async (temporary) => {
      try {
        await cloneFile(path, temporary, options);
        await settleStaged(temporary);
      } catch (error) {
        throw cloneError(error, key);
      }
    });
  }

  async #cloneOut(key: string, path: string): Promise<void> {
    await this.#read(key, async (object) => {
      let made = false;
      try {
        // Made empty first: copying would replace a file that exists. And no other name: the caller may have access to this one alone.
        Deno.openSync(path, { write: true, createNew: true, mode: 0o600 }).close();
        made = true;
        await Deno.copyFile(object.path, path);
      } catch (error) {
        if (made) discard(path);
        // Only the target's directory can be missing: the object was found just now.
        throw writeError(error, key);
      }
    });
  }
}

/**
 * Makes a directory whose parent was there just now. Another process may make it at the same moment, or remove its parent
 * that it emptied: what is there then is seen by who looks next. A `recursive` mkdir reports both as failures.
 */
function makeDirectory(path: string): void {
  try {
    Deno.mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!["already_exists", "not_found"].includes(fileErrorCode(error) ?? "")) throw error;
  }
}

/** Links the staged file to the name of a new object; reports what is there if it is not an object. */
function linkNew(temporary: string, path: string, key: string): void {
  try {
    Deno.linkSync(temporary, path);
  } catch (error) {
    if (fileErrorCode(error) === "already_exists") statOf(path, key, "file");
    throw error;
  }
}

/** A write's failure: only reads and deletes find an object missing. */
function writeError(error: unknown, key: string): BackendError {
  const failure = backendError(error, key, "write");
  return failure.code === "not_found" ? new BackendError("unavailable", key, failure.message, error) : failure;
}

function mismatch(key: string): BackendError {
  return new BackendError("precondition_failed", key, `${key} is missing or has another etag`);
}

/** A failure after the change was made: it is visible, but may not survive a crash. */
function ambiguous(error: unknown, key: string): BackendError {
  const { message } = backendError(error, key, "make durable");
  return new BackendError("ambiguous", key, message, error);
}

function cloneError(error: unknown, key: string): BackendError {
  if (!(error instanceof TaskdError)) return backendError(error, key, "write");
  const code = error.code === "no_space" || error.code === "denied" ? error.code : "unavailable";
  return new BackendError(code, key, error.message, error);
}

async function fsyncUnlessGone(directory: string): Promise<void> {
  try {
    await fsyncDirectory(directory);
  } catch (error) {
    // Removed with all that was in it: nothing is left to make durable.
    if (fileErrorCode(error) !== "not_found") throw error;
  }
}

/** Whether objects can be clones. Probed where temporary files are, so that no listing shows it. */
async function canClone(staging: string, options: CloneOptions): Promise<boolean> {
  try {
    Deno.mkdirSync(staging, { recursive: true, mode: 0o700 });
  } catch (error) {
    // A store that may only be read is still one.
    if (fileErrorCode(error) === "denied") return false;
    throw error;
  }
  return await clonable(staging, options);
}

/** Makes the store's own directory; it may be reached by a symbolic link. */
function makeRoot(root: string): void {
  try {
    makeDirectories(root);
  } catch (error) {
    const inside_file = error instanceof Deno.errors.NotADirectory;
    if (!inside_file && !(error instanceof Deno.errors.AlreadyExists)) throw error;
    const what = inside_file ? "it is inside a file" : "it is not a directory";
    throw new BackendError("denied", "", `Cannot open the store ${root}: ${what}`);
  }
}

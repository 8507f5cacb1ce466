/**
 * The locks under which a local store compares and swaps.
 *
 * They are locks of the operating system (flock) on a fixed set of files, not lock
 * files made with O_EXCL: the kernel frees them when their holder dies, at once and
 * exactly, so nothing is ever stale and nothing is broken by force. Breaking a stale
 * lock file is a guess; a holder that was merely stopped could wake up after it and
 * overwrite what was written meanwhile. The files are never removed, so there is no
 * race between unlinking and locking; keys share them by hash, which costs a short wait.
 */

import { dirname } from "node:path/posix";
import type { Clock, RandomBytes } from "../clock.ts";
import { fileErrorCode, isStillAt, unlockAndClose } from "../fs.ts";
import { BackendError } from "./backend.ts";
import { requireDirectories, statOf } from "./_local_files.ts";
import { sha256 } from "../sha256.ts";

const STRIPES = 64;
/** A holder works for well under a millisecond; one that takes this long was stopped. */
const MAX_WAIT_MS = 10_000;
const MAX_PAUSE_MS = 8;

export class StripeLocks {
  #directory: string;
  #clock: Clock;
  #random: RandomBytes;

  /** Locks that are files in `directory`, which is made when it is missing. */
  constructor(directory: string, options: { clock: Clock; random: RandomBytes }) {
    this.#directory = directory;
    this.#clock = options.clock;
    this.#random = options.random;
  }

  /**
   * Runs `body` while no other caller, in this process or another, runs one for `key`. It is synchronous, so that a lock
   * is never held across an await.
   *
   * @throws {BackendError} `unavailable` when the lock stays taken; else what `body` or the file system throws.
   */
  async run<T>(key: string, body: () => T): Promise<T> {
    const stripe = sha256(key)[0]! % STRIPES;
    const path = `${this.#directory}/${stripe.toString(16).padStart(2, "0")}`;
    const deadline = this.#clock.monotonic() + MAX_WAIT_MS;
    for (let round = 0;; round++) {
      const file = this.#open(path, key);
      try {
        if (file.tryLockSync(true) && isStillAt(file, path)) return body();
      } finally {
        unlockAndClose(file);
      }
      if (this.#clock.monotonic() >= deadline) {
        const reason = `another process has kept its lock for ${MAX_WAIT_MS / 1000} s`;
        throw new BackendError("unavailable", key, `Cannot write ${key}: ${reason}`);
      }
      // Jitter, so that several waiters do not meet again.
      const most = Math.min(MAX_PAUSE_MS, 0.5 * 2 ** round);
      await this.#clock.sleep(most * (1 + this.#random(1)[0]! / 255) / 2);
    }
  }

  #open(path: string, key: string): Deno.FsFile {
    requireDirectories([dirname(this.#directory), this.#directory], key);
    statOf(path, key, "file");
    const options: Deno.OpenOptions = { write: true, create: true, mode: 0o600 };
    try {
      return Deno.openSync(path, options);
    } catch (error) {
      if (fileErrorCode(error) !== "not_found") throw error;
      Deno.mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
      return Deno.openSync(path, options);
    }
  }
}

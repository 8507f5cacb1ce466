/**
 * The staging directory in which a unix socket is bound before it is linked to its path. It exists for an instant, only
 * its owner can enter it, and one process at a time holds its lock.
 *
 * The lock is the kernel's: a killed process releases it, and the next process removes what is left.
 */

import { isStillAt, unlockAndClose } from "./fs.ts";
import { socketStagingOf } from "./socket_path.ts";

/** Another process has to interfere each time. */
const ATTEMPTS = 20;

/** A staging directory that this process has locked until it is disposed of. */
export class SocketStaging implements Disposable {
  readonly socket: string;
  readonly #directory: string;
  readonly #lock: Deno.FsFile;

  private constructor(directory: string, socket: string, lock: Deno.FsFile) {
    this.#directory = directory;
    this.socket = socket;
    this.#lock = lock;
  }

  /**
   * Creates and locks the staging directory of the socket `path`.
   *
   * @throws {Deno.errors.AddrInUse} When another process is binding the same socket.
   * @throws {Deno.errors.AlreadyExists} When something else is at its path.
   */
  static lock(path: string): SocketStaging {
    const { directory, socket } = socketStagingOf(path);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const made = makeDirectory(directory);
      const lock = openDirectory(directory);
      if (lock === undefined) continue;
      if (!lock.tryLockSync(true)) {
        lock.close();
        // The other process may have taken a directory of a moment ago for a dead process's, and retries as well.
        if (made) continue;
        break;
      }
      const staging = new SocketStaging(directory, socket, lock);
      if (!isStillAt(lock, directory)) unlockAndClose(lock);
      else if (made) return staging;
      else staging.#clearAway();
    }
    throw new Deno.errors.AddrInUse(`${path} is being bound`);
  }

  /** Removes one that was found: its owner and mode are not known. */
  #clearAway(): void {
    try {
      this[Symbol.dispose]();
    } catch (cause) {
      throw new Deno.errors.AlreadyExists(`${this.#directory} cannot be removed`, { cause });
    }
  }

  /** Removes the socket and the directory; throws if anything else is in it. */
  [Symbol.dispose](): void {
    try {
      for (const path of [this.socket, this.#directory]) {
        try {
          Deno.removeSync(path);
        } catch (error) {
          if (!(error instanceof Deno.errors.NotFound)) throw error;
        }
      }
    } finally {
      unlockAndClose(this.#lock);
    }
  }
}

/** Whether there was none. */
function makeDirectory(path: string): boolean {
  try {
    Deno.mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    return false;
  }
}

/** The directory, open for its lock; undefined when it has just been removed. */
function openDirectory(path: string): Deno.FsFile | undefined {
  try {
    if (!Deno.lstatSync(path).isDirectory) throw new Deno.errors.AlreadyExists(`${path} is not a directory`);
    return Deno.openSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/**
 * Where a unix socket is made before it is put in its place: a directory beside it that is there for an instant, that
 * only its owner can enter, and that one process at a time has.
 *
 * Its lock is the kernel's, so what a killed process has left is nobody's, and the next one removes it.
 *
 * @module
 */

import { isStillAt, unlockAndClose } from "./fs.ts";

/** The name of the socket in it. */
const SOCKET_NAME = "/s";
/** How much longer the path of the socket in its staging is than that in its place, in bytes. */
export const STAGING_BYTES = "~".length + SOCKET_NAME.length;
/** Somebody else has to come between each time. */
const ATTEMPTS = 20;

/** The directory of the socket `path`, and what is ever made in it. */
export function socketStagingOf(path: string): { directory: string; socket: string } {
  const directory = `${path}~`;
  return { directory, socket: `${directory}${SOCKET_NAME}` };
}

/** A staging that this process has until it is disposed of. */
export class SocketStaging implements Disposable {
  /** Where the socket is to be made. */
  readonly socket: string;
  readonly #directory: string;
  readonly #lock: Deno.FsFile;

  private constructor(directory: string, socket: string, lock: Deno.FsFile) {
    this.#directory = directory;
    this.socket = socket;
    this.#lock = lock;
  }

  /**
   * Makes the staging of the socket `path`.
   *
   * @throws {Deno.errors.AddrInUse} When another has it: it binds the same socket at the same time.
   * @throws {Deno.errors.AlreadyExists} When something else is in its place.
   */
  static lock(path: string): SocketStaging {
    const { directory, socket } = socketStagingOf(path);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const made = makeDirectory(directory);
      const lock = openDirectory(directory);
      if (lock === undefined) continue;
      if (!lock.tryLockSync(true)) {
        lock.close();
        // It may be one that takes the directory of a moment ago for a dead process's, and goes on as this does.
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

  /** Removes one that was found: whose it was is not known, so neither is who can enter it. */
  #clearAway(): void {
    try {
      this[Symbol.dispose]();
    } catch (cause) {
      throw new Deno.errors.AlreadyExists(`${this.#directory} cannot be removed`, { cause });
    }
  }

  /** Removes the directory with the one thing that is ever made in it. With anything else in it it stays: an error. */
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

/**
 * A log of bounded size: lines are added to a file (0600) that its owner alone reads; a full one is set aside under a
 * second name, in the place of the one that was set aside before.
 */

import { fileErrorCode, writeAllSync } from "./fs.ts";
import { requireRule, requireTrusted } from "./trusted_path.ts";

/** Where a log is, and its bound. */
export interface RotatedFileOptions {
  /** The file's path. */
  path: string;
  /** What is added to the path for the one that is set aside: `.1`. */
  suffix: string;
  /** Bytes that it has at most, unless one line has more. */
  max_bytes: number;
}

/** A log that goes on where it was. */
export class RotatedFile implements Disposable {
  readonly #options: RotatedFileOptions;
  #file: Deno.FsFile;
  #bytes: number;

  /** Opens the file at its end, or makes it; throws what the system does, and `denied` for what others put there. */
  constructor(options: RotatedFileOptions) {
    this.#options = options;
    [this.#file, this.#bytes] = open(options.path);
  }

  /** Adds a line, newline included. False where it could not be written; nothing of it stays, and the next may be again. */
  write(line: string): boolean {
    const bytes = new TextEncoder().encode(line);
    try {
      if (this.#bytes > 0 && this.#bytes + bytes.length > this.#options.max_bytes) this.#setAside();
      writeAllSync(this.#file, bytes);
      this.#bytes += bytes.length;
      return true;
    } catch {
      this.#cutTornLine();
      return false;
    }
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }

  /** A full disk takes the beginning of a line: the next one must not continue it. */
  #cutTornLine(): void {
    try {
      this.#file.truncateSync(this.#bytes);
    } catch {
      // Then the disk is in a state in which the next line will not be written either.
    }
  }

  #setAside(): void {
    const { path, suffix } = this.#options;
    try {
      Deno.renameSync(path, path + suffix);
    } catch (error) {
      // Moved away by another program, or by the attempt before, which then could not open a new file.
      if (fileErrorCode(error) !== "not_found") throw error;
    }
    const old = this.#file;
    [this.#file, this.#bytes] = open(path);
    old.close();
  }
}

function open(path: string): [Deno.FsFile, number] {
  // Opening a pipe would wait. The check that counts is that of the open file.
  requireTrusted(path, "log");
  const file = Deno.openSync(path, { append: true, create: true, mode: 0o600 });
  try {
    requireRule(file.statSync(), path, "log");
    // A file that was there keeps its mode through open; one made under a loose umask cannot be.
    Deno.chmodSync(path, 0o600);
    return [file, file.statSync().size];
  } catch (error) {
    file.close();
    throw error;
  }
}

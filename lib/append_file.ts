/**
 * A file that one process makes longer, and no other writes: when {@linkcode AppendFile.append} resolves, the bytes are
 * on the disk; when it rejects, the file is as it was, or takes nothing more because that is not known.
 */

import { TaskdError } from "./errors.ts";
import { fileError, isStillAt, unlockAndClose, writeAll } from "./fs.ts";

export class AppendFile {
  readonly path: string;
  readonly #file: Deno.FsFile;
  readonly #attempted: string;
  #size: number;
  #broken: TaskdError | undefined;

  /** Takes over `file`, open for appending, of `size` bytes; `called` names it in errors: `the ledger /a/b`. */
  constructor(path: string, file: Deno.FsFile, size: number, called: string = path) {
    this.path = path;
    this.#file = file;
    this.#size = size;
    this.#attempted = `Cannot write to ${called}`;
  }

  /** Whether it still has its name, and its size: what is added would be lost or torn otherwise. */
  isIntact(): boolean {
    return isStillAt(this.#file, this.path) && this.#file.statSync().size === this.#size;
  }

  /**
   * Adds bytes, with one fsync for all of them.
   *
   * @throws {TaskdError} `no_space`, `denied` or `unavailable`; `fenced` when another process has changed the file.
   */
  async append(parts: readonly Uint8Array[]): Promise<void> {
    if (this.#broken !== undefined) throw this.#broken;
    let written = false;
    try {
      if (!this.isIntact()) {
        throw this.#broken = new TaskdError("fenced", `${this.#attempted}: another process has changed or removed it`, {
          hint: "Nothing but the broker may write below audit_root",
        });
      }
      for (const part of parts) await writeAll(this.#file, part);
      written = true;
      await this.#file.sync();
      for (const part of parts) this.#size += part.length;
    } catch (error) {
      const failure = fileError(error, this.#attempted);
      // After a failed fsync it is unknown what the disk has.
      if (written) this.#broken ??= failure;
      if (this.#broken === undefined) await this.#takeBack(failure);
      throw failure;
    }
  }

  /** Removes what a failed write has left. */
  async #takeBack(failure: TaskdError): Promise<void> {
    try {
      this.#file.truncateSync(this.#size);
      await this.#file.sync();
    } catch {
      this.#broken = failure;
    }
  }

  /** Closes it, and gives up the lock that the caller may have taken. */
  close(): void {
    unlockAndClose(this.#file);
  }
}

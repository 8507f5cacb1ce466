/** The log of a broker in the background: a file of bounded size, and the one before it. */

import { TaskdError } from "../../lib/errors.ts";
import { fileError, fileErrorCode, writeAllSync } from "../../lib/fs.ts";

/** Bytes after which a new file is begun. */
const MAX_BYTES = 8 << 20;

/** Appends lines to a file (0600); a full one is kept as `<path>.1`, in the place of the one that was kept before. */
export class LogFile implements Disposable {
  readonly path: string;
  readonly #max_bytes: number;
  #file: Deno.FsFile;
  #size: number;

  /** Opens the file at its end; throws `not_found`, `denied`, `no_space` or `unavailable`. */
  constructor(path: string, options: { max_bytes?: number } = {}) {
    this.path = path;
    this.#max_bytes = options.max_bytes ?? MAX_BYTES;
    this.#file = this.#open();
    this.#size = this.#file.statSync().size;
  }

  /** Appends one line. A line that cannot be written is lost: logging must not end the broker. */
  write(line: string): void {
    const bytes = new TextEncoder().encode(`${line}\n`);
    try {
      if (this.#size > 0 && this.#size + bytes.length > this.#max_bytes) this.#turn();
      writeAllSync(this.#file, bytes);
      this.#size += bytes.length;
    } catch {
      // The next line tries again.
    }
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }

  #turn(): void {
    try {
      Deno.renameSync(this.path, `${this.path}.1`);
    } catch (error) {
      // Moved away by another program, or by an earlier attempt that could not open the new file.
      if (fileErrorCode(error) !== "not_found") throw error;
    }
    const old = this.#file;
    this.#file = this.#open();
    this.#size = 0;
    old.close();
  }

  #open(): Deno.FsFile {
    try {
      const file = Deno.openSync(this.path, { append: true, create: true, mode: 0o600 });
      Deno.chmodSync(this.path, 0o600);
      return file;
    } catch (error) {
      const failure = fileError(error, `Cannot open the log ${this.path}`);
      if (failure.code !== "not_found") throw failure;
      throw new TaskdError("not_found", failure.message, { cause: error, hint: "Run taskd setup first" });
    }
  }
}

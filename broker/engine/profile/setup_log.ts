/**
 * The combined output of a setup phase, for people to read and for nothing else: `<audit_root>/<id>.setup.log`, 0600.
 *
 * Every line is safe to show. A line of a command begins with `| `, one of the broker with something else, so no output
 * passes for a verdict. The file has an upper bound; where it ends early it says so.
 */

import { removeIfPresent, withFileError, writeAllSync } from "../../../lib/fs.ts";
import { sanitizeLine } from "../../../lib/text/sanitize.ts";

export const MAX_SETUP_LOG_BYTES = 16 << 20;
const RESERVED_BYTES = 1 << 20;

export class SetupLog implements Disposable {
  readonly path: string;
  readonly #file: Deno.FsFile;
  #bytes = 0;
  #isCut = false;

  /**
   * Begins a log, in the place of one that may be there; a link there is replaced, never followed.
   *
   * @throws {TaskdError} `not_found` (the directory), `denied`, `no_space`, `unavailable`.
   */
  constructor(path: string) {
    this.path = path;
    this.#file = withFileError(`Cannot write ${path}`, () => {
      removeIfPresent(path);
      return Deno.openSync(path, { write: true, createNew: true, mode: 0o600 });
    });
  }

  output(text: string): void {
    if (this.#isCut) return;
    if (this.#bytes < MAX_SETUP_LOG_BYTES - RESERVED_BYTES) return this.#write(`| ${text}`);
    this.#isCut = true;
    this.#write("# the rest of the output is left out");
  }

  note(text: string): void {
    if (this.#bytes < MAX_SETUP_LOG_BYTES) this.#write(text);
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }

  #write(text: string): void {
    const bytes = new TextEncoder().encode(`${sanitizeLine(text)}\n`);
    withFileError(`Cannot write ${this.path}`, () => writeAllSync(this.#file, bytes));
    this.#bytes += bytes.length;
  }
}

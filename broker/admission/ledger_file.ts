/**
 * The file of the global ceiling's ledger, `<audit_root>/global/ledger.jsonl`: 0600 in a
 * directory of 0700, written by one broker at a time (a lock of the operating system on
 * a file beside it, since the ledger itself is replaced when it is compacted).
 *
 * A line is on the disk, fsynced, when {@linkcode LedgerFile.append} resolves; when it rejects, the
 * file is as it was, or the next write replaces it as a whole.
 */

import { TaskdError } from "../../lib/errors.ts";
import { AppendFile } from "../../lib/append_file.ts";
import {
  fileError,
  fileErrorCode,
  makeDirectories,
  unlockAndClose,
  withFileError,
  writeFileAtomic,
} from "../../lib/fs.ts";
import { concat } from "../../lib/concat.ts";

/** The most bytes of a ledger that are read: half a million starts. */
const MAX_LEDGER_BYTES = 134_217_728;

const MAX_READS = 4;

export interface LedgerText {
  text: string;
  /** When it was last written, in milliseconds since 1970. */
  changed_ms: number;
}

export function ledgerPath(audit_root: string): string {
  return `${audit_root}/global/ledger.jsonl`;
}

export class LedgerFile {
  readonly path: string;
  readonly #lock: Deno.FsFile;
  /** Open for appending; undefined until the first line, and after a write whose outcome is not known. */
  #file: AppendFile | undefined;

  private constructor(path: string, lock: Deno.FsFile) {
    this.path = path;
    this.#lock = lock;
  }

  /**
   * Makes the directory if there is none and takes the lock.
   *
   * @throws {TaskdError} `busy` when another broker has it; `denied`, `no_space` or `unavailable`.
   */
  static lock(audit_root: string): LedgerFile {
    const path = ledgerPath(audit_root);
    const directory = `${audit_root}/global`;
    const lock = withFileError(`Cannot prepare the ledger ${path}`, () => {
      makeDirectories(directory);
      const { isDirectory, mode } = Deno.lstatSync(directory);
      if (!isDirectory) throw new TaskdError("denied", `Cannot use ${directory}: it is not a directory`);
      if (((mode ?? 0o700) & 0o777) !== 0o700) Deno.chmodSync(directory, 0o700);
      return Deno.openSync(`${directory}/lock`, { write: true, create: true, mode: 0o600 });
    });
    if (lock.tryLockSync(true)) return new LedgerFile(path, lock);
    lock.close();
    throw new TaskdError("busy", `Cannot open the ledger ${path}: another broker writes it`, {
      hint: "Another broker uses this audit_root: stop it first",
    });
  }

  /** Everything in it; undefined when there is no file; throws `denied`, `too_large` or `unavailable`. */
  read(): LedgerText | undefined {
    const attempted = `Cannot read the ledger ${this.path}`;
    try {
      const { isFile, size, mode, mtime } = Deno.lstatSync(this.path);
      if (!isFile) throw new TaskdError("denied", `${attempted}: it is not a regular file`);
      if (size > MAX_LEDGER_BYTES) throw new TaskdError("too_large", `${attempted}: it has ${size} bytes`);
      const text = this.#readWhole();
      if (((mode ?? 0o600) & 0o777) !== 0o600) Deno.chmodSync(this.path, 0o600);
      return { text, changed_ms: mtime?.getTime() ?? Infinity };
    } catch (error) {
      if (fileErrorCode(error) === "not_found") return undefined;
      throw fileError(error, attempted);
    }
  }

  /** Twice at least: a bit may flip in a read, and spend must not be forgotten for it. */
  #readWhole(): string {
    let text = Deno.readTextFileSync(this.path);
    for (let read = 1; read < MAX_READS; read++) {
      const again = Deno.readTextFileSync(this.path);
      if (again === text) break;
      text = again;
    }
    return text;
  }

  /**
   * Adds a line.
   *
   * @returns False when the file is not the one that was written last, so that it has to be replaced.
   * @throws {TaskdError} `no_space`, `denied` or `unavailable`.
   */
  async append(line: Uint8Array): Promise<boolean> {
    try {
      if (this.#file?.isIntact()) {
        await this.#file.append([line]);
        return true;
      }
      this.#release();
      return false;
    } catch (error) {
      // The next write replaces the file: what the disk has is not known.
      this.#release();
      throw error;
    }
  }

  #release(): void {
    this.#file?.close();
    this.#file = undefined;
  }

  /** Replaces the file; throws `no_space`, `denied` or `unavailable`; the old file is then as it was. */
  async replace(lines: readonly Uint8Array[]): Promise<void> {
    this.#release();
    const whole = concat(lines);
    await writeFileAtomic(this.path, whole, 0o600);
    withFileError(`Cannot open the ledger ${this.path}`, () => {
      const file = Deno.openSync(this.path, { append: true });
      this.#file = new AppendFile(this.path, file, whole.length, `the ledger ${this.path}`);
    });
  }

  /** Keeps a copy of the file as it is, beside it: the only one that is kept. */
  keepCopy(): void {
    const copy = this.path.replace(/\.jsonl$/, ".damaged.jsonl");
    withFileError(`Cannot copy the ledger ${this.path}`, () => {
      Deno.copyFileSync(this.path, copy);
      Deno.chmodSync(copy, 0o600);
    });
  }

  close(): void {
    this.#release();
    unlockAndClose(this.#lock);
  }
}

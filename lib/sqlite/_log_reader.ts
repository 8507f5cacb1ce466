/**
 * Reads the -wal of an open checkout: bookkeeping of wal_tail.ts.
 */

import type { CheckoutFile } from "./checkout_file.ts";
import { parseWalHeader, readCommits, WAL_FRAME_HEADER_BYTES, WAL_HEADER_BYTES, walFrameBytes } from "./wal.ts";
import type { WalCommit, WalHeader, WalPosition } from "./wal.ts";

/** Reads one log. The headers of file and frames share one buffer: a poll of an idle log allocates next to nothing. */
export class LogReader {
  readonly #file: CheckoutFile;
  readonly #peek = new Uint8Array(WAL_HEADER_BYTES);

  constructor(file: CheckoutFile) {
    this.#file = file;
  }

  /** The log's header; undefined when there is none that SQLite would take. */
  header(): WalHeader | undefined {
    if (this.#file.readWal(0, this.#peek) < WAL_HEADER_BYTES) return undefined;
    return parseWalHeader(this.#peek);
  }

  /** Whole commits from `from` on, none of them past the byte offset `end`; `trusted` as {@linkcode readCommits} takes it. */
  commits(header: WalHeader, from: WalPosition, end: number, trusted = false): WalCommit | undefined {
    return readCommits(header, from, (offset, into) => {
      const available = Math.max(0, end - offset);
      return this.#file.readWal(offset, available < into.length ? into.subarray(0, available) : into);
    }, { trusted });
  }

  /** The frame at `offset` with its own checksum; undefined when there is none of this generation. */
  frameAt(header: WalHeader, offset: number): WalPosition | undefined {
    const view = this.#frameHeader(offset);
    if (!view || view.getUint32(8) !== header.salt1 || view.getUint32(12) !== header.salt2) return undefined;
    return { offset, checksum1: view.getUint32(16), checksum2: view.getUint32(20) };
  }

  /** Whether something lies at `offset` that SQLite may count: a frame of this generation, or one without a checksum. */
  mayCountAt(header: WalHeader, offset: number): boolean {
    const view = this.#frameHeader(offset);
    if (!view || view.getUint32(0) === 0) return false;
    const [salt1, salt2] = [view.getUint32(8), view.getUint32(12)];
    return (salt1 === header.salt1 && salt2 === header.salt2) || (salt1 === 0 && salt2 === 0);
  }

  /** Whether the frame that ends at `position` is still the one whose checksum that place in the log has. */
  endsAt(header: WalHeader, position: WalPosition): boolean {
    if (position.offset === WAL_HEADER_BYTES) return true;
    const view = this.#frameHeader(position.offset - walFrameBytes(header));
    return view?.getUint32(16) === position.checksum1 && view.getUint32(20) === position.checksum2;
  }

  #frameHeader(offset: number): DataView | undefined {
    const bytes = this.#peek.subarray(0, WAL_FRAME_HEADER_BYTES);
    return this.#file.readWal(offset, bytes) < bytes.length ? undefined : new DataView(bytes.buffer);
  }
}

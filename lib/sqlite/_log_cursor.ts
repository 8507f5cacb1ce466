/**
 * How far a log has been read, and what is in doubt there: bookkeeping of wal_tail.ts.
 *
 * Reading goes on only where everything before is still as it was read, in the generation of the log that it was read
 * from. Where it is not, {@linkcode RebaseNeeded} is raised.
 */

import type { CheckoutFile } from "./checkout_file.ts";
import { LogReader } from "./_log_reader.ts";
import { WAL_FRAME_HEADER_BYTES, WAL_HEADER_BYTES, walStart } from "./wal.ts";
import type { WalCommit, WalHeader, WalPosition } from "./wal.ts";

/** The captured changes may have a hole; only a full copy is safe. */
export class RebaseNeeded extends Error {
  override name = "RebaseNeeded";
}

/** Why a commit that was read does not count: its writer died before it was counted. */
export const NEVER_HAPPENED = "the write-ahead log holds a commit that never happened";
/** Its writer died; the next one uses the salts anew, and may put down the very same frames. */
const BEGUN_ANEW = "the write-ahead log begins with a commit that never happened, or has happened since";

/** A place in one generation of the log: everything before it is accounted for. */
export interface WalMark extends WalPosition {
  salt1: number;
  salt2: number;
}

type Salts = Pick<WalMark, "salt1" | "salt2">;

/** The place between what was read of one log and what follows; what has no comment here has one in wal_tail.ts. */
export class LogCursor {
  readonly #log: LogReader;
  readonly #page_size: number;
  #header: WalHeader | undefined;
  #position: WalPosition | undefined;
  /** First frame of a commit that never happened; it stays until the next writer overwrites it. */
  #ghost: WalPosition | undefined;
  /** SQLite takes the log for empty: what was read of it is in the main file, or never happened. */
  #uncounted = false;

  /** Begins before the first frame of any log; logs of another page size than `page_size` are refused. */
  constructor(file: CheckoutFile, page_size: number) {
    this.#log = new LogReader(file);
    this.#page_size = page_size;
  }

  /** The log's header, the same object for as long as the log is not started over; undefined before its first frame. */
  get header(): WalHeader | undefined {
    return this.#header;
  }

  /** Bytes of the log that were read; 0 before its first frame. */
  get offset(): number {
    return this.#position?.offset ?? 0;
  }

  /** Frames that were read of the present generation. */
  get frames(): number {
    return this.#position ? this.framesAt(this.#position) : 0;
  }

  /** Whole frames before a place in a log. */
  framesAt({ offset }: Pick<WalMark, "offset">): number {
    return Math.floor((offset - WAL_HEADER_BYTES) / (WAL_FRAME_HEADER_BYTES + this.#page_size));
  }

  endOf(frames: number): number {
    return WAL_HEADER_BYTES + frames * (WAL_FRAME_HEADER_BYTES + this.#page_size);
  }

  get mark(): WalMark | undefined {
    if (this.#uncounted) return this.generation;
    return this.#header && this.#position &&
      { ...this.#position, salt1: this.#header.salt1, salt2: this.#header.salt2 };
  }

  get generation(): WalMark | undefined {
    return this.#header && { ...walStart(this.#header), salt1: this.#header.salt1, salt2: this.#header.salt2 };
  }

  get in_doubt(): boolean {
    return this.#header !== undefined && this.#position !== undefined &&
      (this.#uncounted || this.#log.mayCountAt(this.#header, this.#position.offset));
  }

  /** Whether SQLite takes for empty what was read here. */
  get uncounted(): boolean {
    return this.#uncounted;
  }

  /** Whether the log is still of the generation that is read here. */
  get is_current(): boolean {
    return sameGeneration(this.#header, this.#log.header());
  }

  /** Whether a mark is of the generation that is read here. */
  isOf(mark: WalMark): boolean {
    return sameGeneration(this.#header, mark);
  }

  /** Whether everything up to a mark was read, and nothing past it. */
  isAt(mark: WalMark): boolean {
    return this.isOf(mark) && this.#position !== undefined && samePlace(this.#position, mark);
  }

  /**
   * Goes to the log as it is now, behind so many frames that SQLite counts, and forgets every doubt; to its beginning where
   * the place is not known. Only behind the write barrier.
   */
  rewind(frames: number): void {
    this.#ghost = undefined;
    this.#uncounted = false;
    const header = this.#log.header();
    this.#header = header?.page_size === this.#page_size ? header : undefined;
    this.#position = this.#header && walStart(this.#header);
    const last = this.#header && frames > 0 && this.#log.frameAt(this.#header, this.endOf(frames - 1));
    if (last) this.#position = { ...last, offset: this.endOf(frames) };
  }

  /**
   * Whether there may be something to read; turns to the beginning of a log that was started over. An idle log, or one
   * with a stale or dead tail, costs two reads of 24 bytes and one of its header.
   *
   * @param reset_allowed Whether the log may have been started over since, with nothing lost.
   * @param onReset Called when it was.
   * @throws {RebaseNeeded} when it was and must not have been, or has not what was read.
   */
  follows(reset_allowed: boolean, onReset: () => void): boolean {
    const header = this.#log.header();
    if (!header) {
      if (this.#header && !reset_allowed) throw new RebaseNeeded("the write-ahead log was cut short");
      onReset();
      return false;
    }
    if (!sameGeneration(this.#header, header)) {
      if (this.#header && !reset_allowed) throw new RebaseNeeded("the write-ahead log was started over");
      onReset();
      if (header.page_size !== this.#page_size) throw new RebaseNeeded("the page size changed");
      this.#header = header;
      this.#position = walStart(header);
      this.#uncounted = false;
    }
    this.assertStillThere();
    const next = this.#log.frameAt(this.#header!, this.#position!.offset);
    if (!next || (this.#ghost && samePlace(this.#ghost, next))) return false;
    this.assertCounted();
    return true;
  }

  /** Whole commits that follow, none of them past the byte offset `end`; `trusted` as {@linkcode LogReader} takes it. */
  read(end: number, trusted = false): WalCommit | undefined {
    return this.#log.commits(this.#header!, this.#position!, end, trusted);
  }

  /** Goes on to the end of what {@linkcode read} has answered. */
  advance(commit: WalCommit): void {
    this.#position = commit.end;
  }

  /** Takes the frame that follows for one of a commit that never happened: behind the barrier no writer is at work. */
  markGhost(): void {
    if (!this.#header) return;
    this.#ghost = this.#log.frameAt(this.#header, this.#position!.offset);
  }

  /** What follows is no ghost: it has happened after all. */
  forgetGhost(): void {
    this.#ghost = undefined;
  }

  /** SQLite takes the log for empty, all that was read of it. */
  markUncounted(): void {
    this.#uncounted = this.frames > 0;
  }

  /** Throws {@linkcode RebaseNeeded} where SQLite took the log that was read for empty, and now counts frames in it. */
  assertCounted(): void {
    if (this.#uncounted) throw new RebaseNeeded(BEGUN_ANEW);
  }

  /** The last frame that was read must still be there: a commit that never happened is overwritten by the next one. */
  assertStillThere(): void {
    const [header, position] = [this.#header!, this.#position!];
    if (this.#log.endsAt(header, position)) return;
    // A writer may be starting the log over at this moment: that shows in the header, at the latest next time.
    if (sameGeneration(header, this.#log.header())) throw new RebaseNeeded(NEVER_HAPPENED);
  }

  /** Throws {@linkcode RebaseNeeded} if the log was started over since it had this header. */
  assertStill(header: WalHeader): void {
    if (!sameGeneration(header, this.#log.header())) {
      throw new RebaseNeeded("the write-ahead log was started over while it was read");
    }
  }
}

function sameGeneration(a: Salts | undefined, b: Salts | undefined): boolean {
  return a !== undefined && b !== undefined && a.salt1 === b.salt1 && a.salt2 === b.salt2;
}

function samePlace(a: WalPosition, b: WalPosition): boolean {
  return a.offset === b.offset && a.checksum1 === b.checksum1 && a.checksum2 === b.checksum2;
}

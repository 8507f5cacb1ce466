/**
 * Follows the write-ahead log of a live database, so that no committed page goes
 * unseen, while any stock client writes.
 *
 * The invariant: a read transaction of ours is open at all times, so no process can reset
 * the log before we have read it, and no other can make the main file take up
 * frames that we have not released. Hence every changed page can be read at leisure,
 * from the log where the overlay knows an offset, else from the main file. Only
 * {@linkcode WalTail.takeover} releases it, and only under a write barrier: with writers held
 * off, it reads the log to its end, checkpoints passively, and pins again.
 *
 * What cannot be proved complete raises {@linkcode RebaseNeeded}: the caller then starts
 * over from a full copy. Never RESTART or TRUNCATE here: one long reader would block
 * every writer, and TRUNCATE's answer proves nothing.
 */

import { hasCode } from "../errors.ts";
import type { CheckoutFile, CheckpointAnswer } from "./checkout_file.ts";
import { lockPage } from "./header.ts";
import { LogCursor, NEVER_HAPPENED, RebaseNeeded, type WalMark } from "./_log_cursor.ts";
import { LogPin } from "./_log_pin.ts";
import { type Changes, PageChanges } from "./_page_changes.ts";
import type { WalCommit } from "./wal.ts";

export { RebaseNeeded, type WalMark } from "./_log_cursor.ts";
export type { Changes } from "./_page_changes.ts";

/** A log of more than this is folded in two steps: fsync of as much takes longer than a writer should wait. */
const MOVE_PIN_BYTES = 1 << 20;

/** A consistent database image, readable until the tail's next takeover. */
export interface DatabaseImage {
  page_size: number;
  page_count: number;
  /** Fills `into` with whole pages from `first` on; the lock page reads as zeros. */
  readPages(first: number, count: number, into: Uint8Array): void;
}

/** Follows one log. All methods are synchronous and short, except a busy wait of at most the file's timeout. */
export class WalTail {
  readonly file: CheckoutFile;
  readonly page_size: number;
  /** Whether the journal mode had to be changed to WAL: the file then differs from what was stored. */
  readonly converted: boolean;
  readonly #pin: LogPin;
  readonly #cursor: LogCursor;
  readonly #pages = new PageChanges();
  /** Every frame is in the main file and our pin is on it alone: the next writer may start the log over. */
  #reset_allowed = false;

  private constructor(file: CheckoutFile) {
    this.file = file;
    this.#pin = new LogPin(file);
    this.converted = this.#pin.converted;
    this.page_size = file.header().page_size;
    this.#cursor = new LogCursor(file, this.page_size);
  }

  /**
   * Begins to follow an open checkout. What the log holds already counts as not changed,
   * except what lies past `resume`, when that mark is still in the log.
   *
   * @returns Whether `resume` was found; without it the caller has to compare or copy.
   */
  static attach(file: CheckoutFile, resume?: WalMark): { tail: WalTail; resumed: boolean } {
    const tail = new WalTail(file);
    return { tail, resumed: tail.resync(resume) };
  }

  /** Pages of the database after the last commit that was read. */
  get page_count(): number {
    return this.#pages.page_count;
  }

  /** Whether anything was committed since it was last taken. */
  get dirty(): boolean {
    return this.#pages.dirty;
  }

  /** Whether frames follow what was read: of an unfinished transaction, or of a commit that only SQLite can confirm. */
  get in_doubt(): boolean {
    return this.#cursor.in_doubt;
  }

  /** Bytes of the log that are read and not yet in the main file for certain. */
  get log_bytes(): number {
    return this.#reset_allowed ? 0 : this.#cursor.offset;
  }

  /** Whether the main file alone is the database as it was at the last commit that was read. */
  get main_is_whole(): boolean {
    return !this.#pages.inLog;
  }

  /** Frames read of the log's present generation. */
  get log_frames(): number {
    return this.#cursor.frames;
  }

  /** Where the next frame is expected; undefined before the log's first frame. */
  get mark(): WalMark | undefined {
    return this.#cursor.mark;
  }

  /** Where the present generation of the log begins; undefined before the log's first frame. */
  get generation(): WalMark | undefined {
    return this.#cursor.generation;
  }

  /** Forgets everything known of the log and reads it anew; nothing counts as changed, except what lies past `resume`. */
  resync(resume?: WalMark): boolean {
    return this.#pin.behindBarrier(() => {
      this.#pin.release();
      try {
        return this.#readAnew(resume);
      } finally {
        this.#pin.take(this.#reset_allowed);
      }
    });
  }

  #readAnew(resume: WalMark | undefined): boolean {
    this.#pages.folded();
    this.#pages.forgetChanges();
    this.#cursor.rewind();
    this.#reset_allowed = false;
    const answer = this.#pin.checkpointUnpinned();
    let resumed = false;
    if (this.#cursor.header) {
      // SQLite reports how many frames count: past them may lie a commit that never happened. Of a log that it takes for
      // empty every frame is in the main file already, and reading on starts behind them all.
      const end = answer.log > 0 ? this.#cursor.endOf(answer.log) : Infinity;
      if (resume && this.#cursor.isOf(resume)) this.#merge(this.#cursor.read(Math.min(end, resume.offset)));
      resumed = resume !== undefined && this.#cursor.isAt(resume);
      this.#pages.forgetChanges();
      this.#merge(this.#cursor.read(end));
      // Older libraries leave frames of a commit without salts and checksums where pages had spilled before a rollback to
      // a savepoint, 3.40 among them. SQLite goes by its index alone, and so can we: behind the barrier it reported the end.
      if (end < Infinity) this.#merge(this.#cursor.read(end, true));
      if (!resumed) this.#pages.forgetChanges();
      this.#cursor.markGhost();
    }
    this.#reset_allowed = answer.log === 0;
    this.#settle(answer);
    if (answer.log === 0) this.#cursor.markUncounted();
    return resumed;
  }

  /**
   * Reads every transaction committed since the last call.
   *
   * @returns Whether there was one.
   * @throws {RebaseNeeded} when the log was started over before it was read to its end.
   */
  drain(): boolean {
    return this.#drain(Infinity);
  }

  #drain(end: number): boolean {
    // Commits made since may have been folded and overwritten.
    if (!this.#pin.is_on) throw new RebaseNeeded("the write-ahead log could not be pinned");
    if (!this.#cursor.follows(this.#reset_allowed)) return false;
    const commit = this.#cursor.read(end);
    if (commit) this.#pages.keepBefore(commit, this.page_size, (pgno, offset) => this.#pageAt(pgno, offset));
    this.#merge(commit);
    if (commit) this.#reset_allowed = false;
    return commit !== undefined;
  }

  /**
   * A page as it was before frames that were not merged yet: those lie past our pin, so the main file cannot have taken
   * them up.
   */
  #pageAt(pgno: number, offset: number | undefined): Uint8Array | undefined {
    const page = new Uint8Array(this.page_size);
    const filled = offset === undefined
      ? this.file.readMain((pgno - 1) * this.page_size, page)
      : this.file.readWal(offset, page);
    return filled === this.page_size ? page : undefined;
  }

  /** Committed bytes that {@linkcode drain} would read now; reads them. */
  lagBytes(): number {
    const { offset, header } = this.#cursor;
    this.drain();
    return this.#cursor.offset - (this.#cursor.header === header ? offset : 0);
  }

  /**
   * Folds the log into the main file behind a write barrier, so that the next writer starts it over.
   *
   * @returns False when a reader, a writer or another checkpointer blocked it; try again later.
   */
  takeover(): boolean {
    try {
      if (this.log_bytes > MOVE_PIN_BYTES) this.#movePin();
      return this.#pin.behindBarrier(() => {
        this.drain();
        return this.#fold();
      });
    } catch (error) {
      if (hasCode(error, "busy")) return false;
      throw error;
    }
  }

  /**
   * Lets most of the log be folded while writers go on, so that the barrier is short: the other connection pins the
   * newest commit, everything up to there is read, and only then the old pin is released.
   */
  #movePin(): void {
    this.#pin.move(() => this.drain());
    this.#pin.checkpointBeside();
  }

  /**
   * Moves a pin that was taken on a folded log onto the log, once that has content. SQLite keeps a reader of a folded log
   * on the lock that holds off every checkpoint: each commit of an application whose log has passed its
   * wal_autocheckpoint then sorts the whole log for a checkpoint that cannot be, which costs nine tenths of its
   * rate. Not while an image is read: from here on the log may be folded up to the new pin.
   */
  leaveIdlePin(): void {
    if (this.pin_in_the_way) this.#pin.move(() => this.drain());
  }

  /** Whether {@linkcode leaveIdlePin} has something to do. */
  get pin_in_the_way(): boolean {
    return this.#pin.is_idle && !this.#pin.held && this.log_bytes > 0;
  }

  /**
   * Takes a write barrier that lasts until the returned function is called; everything before it is read and confirmed.
   * All else may be done meanwhile.
   */
  hold(): { complete: boolean; release: () => void } {
    const release = this.#pin.hold();
    try {
      this.drain();
      return { complete: this.#fold(), release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /**
   * Compares what was read with what SQLite itself counts as committed. A writer that was killed between its last frame
   * and its update of the shared index leaves a commit that looks whole and never happened: the next one overwrites it.
   *
   * @throws {RebaseNeeded} when such a commit was read.
   */
  confirm(): void {
    // Nothing was committed since hold() did the same; and a connection in a transaction cannot checkpoint.
    if (this.#pin.held) return;
    this.drain();
    const before = this.#cursor.frames;
    let log = this.#pin.counted();
    if (log < before && !this.#reset_allowed) {
      // A living writer puts a commit down, syncs it and only then counts it. The next holder of the write lock sees
      // it counted, or knows that it is dead.
      this.#pin.behindBarrier(() => this.#cursor.assertStillThere());
      log = this.#pin.counted();
      if (log < before) throw new RebaseNeeded(NEVER_HAPPENED);
    }
    // 0: the log counts as empty, and what was read of it is in the main file.
    if (log === 0) return;
    // It may have been started over just now.
    if (this.#cursor.uncounted) this.drain();
    this.#cursor.assertCounted();
    if (this.#cursor.frames < log) this.#cursor.forgetGhost();
    // No further: what lies behind is not confirmed.
    this.#drain(this.#cursor.endOf(log));
    if (this.#cursor.frames < log) throw new RebaseNeeded("the write-ahead log cannot be read to its end");
  }

  /** Hands over what has changed; give it to {@linkcode giveBack} if it could not be stored. */
  take(): Changes {
    return this.#pages.take(lockPage(this.page_size));
  }

  giveBack(changes: Changes): void {
    this.#pages.giveBack(changes);
  }

  /** The database as it was at the last commit that was read. */
  image(): DatabaseImage {
    const overlay = this.#pages.overlay();
    const { page_size, file } = this;
    const lock = lockPage(page_size);
    return {
      page_size,
      page_count: this.#pages.page_count,
      readPages: (first, count, into) => {
        const bytes = into.subarray(0, count * page_size);
        const filled = file.readMain((first - 1) * page_size, bytes);
        for (let pgno = first; pgno < first + count; pgno++) {
          const page = bytes.subarray((pgno - first) * page_size, (pgno - first + 1) * page_size);
          const offset = overlay.get(pgno);
          if (pgno === lock) page.fill(0);
          else if (offset === undefined) {
            if ((pgno - first + 1) * page_size > filled) throw new RebaseNeeded("the database file was cut short");
          } else if (file.readWal(offset, page) < page_size) {
            throw new RebaseNeeded("the write-ahead log is shorter than it was");
          }
        }
      },
    };
  }

  /**
   * Throws {@linkcode RebaseNeeded} if the log was started over behind our back. A writer puts the new
   * header down before its frames, so what was read from the log before this check is sound.
   */
  assertNotReset(): void {
    if (this.#pages.inLog) this.#cursor.assertNotReset();
  }

  /** Behind the barrier: releases the pin, checkpoints, pins again. Returns whether the main file now has every frame. */
  #fold(): boolean {
    this.#pin.release();
    try {
      return this.#settle(this.#pin.checkpointUnpinned());
    } finally {
      this.#pin.take(this.#reset_allowed);
    }
  }

  #settle(answer: CheckpointAnswer): boolean {
    const consumed = this.#cursor.frames;
    if (answer.log > 0) this.#cursor.assertCounted();
    if (answer.log > 0 && answer.log !== consumed) {
      throw new RebaseNeeded(`the write-ahead log has ${answer.log} frames, of which ${consumed} can be read`);
    }
    if (answer.log === 0 && consumed > 0 && !this.#reset_allowed) throw new RebaseNeeded(NEVER_HAPPENED);
    // log 0: SQLite counts nothing as in the log, whatever bytes the file has.
    const complete = answer.log === 0 || (answer.log > 0 && answer.checkpointed === consumed);
    if (complete) this.#pages.folded();
    if (complete || consumed === 0) this.#pages.page_count = this.#mainPageCount();
    this.#reset_allowed = complete;
    return complete;
  }

  #mainPageCount(): number {
    const header = this.file.header();
    const whole = Math.floor(this.file.mainSize() / this.page_size);
    // The count in the header is void when an old library wrote last; SQLite then goes by the file's size too.
    return header.page_count > 0 && header.version_valid_for === header.change_counter ? header.page_count : whole;
  }

  #merge(commit: WalCommit | undefined): void {
    if (!commit) return;
    this.#pages.merge(commit);
    this.#cursor.advance(commit);
  }
}
